//! The demonstration on Redis, over every transport and into every ledger.

use std::{process::Command, sync::OnceLock};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    rabbitmq::RabbitMq,
    redis::{Options, Standalone},
};

struct Servers {
    redis: Standalone,
    postgres: Postgres,
    mariadb: MariaDb,
    rabbitmq: RabbitMq,
}

fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| Servers {
        redis: Standalone::start(&Options::new()),
        postgres: Postgres::start(&postgres::Options::new()),
        mariadb: MariaDb::start(&mariadb::Options::new()),
        rabbitmq: RabbitMq::start(),
    })
}

/// Runs the demonstration, and checks its report.
fn check(ledger: Option<&str>, transport: &str) {
    let servers = servers();
    let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
    command
        .args(["demo", "--engine", "redis", "--redis", &servers.redis.url()])
        .args(["--transport", transport])
        .env("QIANG_DEMO_RABBITMQ", servers.rabbitmq.url())
        .args(["--users", "400", "--connections", "50", "--exit", "--json"]);
    if let Some(url) = ledger {
        command.args(["--ledger", url]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{errors}{printed}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for kind in ["red_packet", "sale"] {
        let figures = [("granted", 100), ("duplicates", 0), ("oversold", 0)];
        for (figure, expected) in figures {
            assert_eq!(report[kind][figure], expected, "{kind} {figure}: {report}");
        }
    }
    let packet = &report["red_packet"];
    let minor = |name: &str| packet[name].as_i64().unwrap();
    let total = minor("claimed") + minor("refunded") + minor("remaining");
    assert_eq!(total, minor("total"));
    assert_eq!(report["http"]["errors"], 0);
    assert_eq!(report["audit"]["ok"], true, "{}", report["audit"]);
}

#[test]
fn streams_into_a_file() {
    check(None, "stream");
}

#[test]
fn lists_into_a_file() {
    check(None, "list");
}

#[test]
fn queues_into_a_file() {
    check(None, "rabbitmq");
}

#[test]
fn streams_into_postgres() {
    check(Some(&servers().postgres.url()), "stream");
}

#[test]
fn lists_into_postgres() {
    check(Some(&servers().postgres.url()), "list");
}

#[test]
fn queues_into_postgres() {
    check(Some(&servers().postgres.url()), "rabbitmq");
}

#[test]
fn streams_into_mariadb() {
    check(Some(&servers().mariadb.url()), "stream");
}

#[test]
fn lists_into_mariadb() {
    check(Some(&servers().mariadb.url()), "list");
}

#[test]
fn queues_into_mariadb() {
    check(Some(&servers().mariadb.url()), "rabbitmq");
}

#[test]
fn the_log_itself_into_a_file() {
    check(None, "log");
}
