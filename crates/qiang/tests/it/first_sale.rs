//! Runs docs/guide/redis-and-postgresql.md: from empty servers to a paid order.

use std::{net::TcpListener, path::PathBuf, process::Command, time::Instant};

use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};

use crate::api_page::blocks;

const PAGE: &str = "guide/redis-and-postgresql.md";
/// Stops the page's node at the end, also after a failure.
const HEAD: &str = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";

/// An address of this machine that nothing uses.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn the_page_leads_to_a_paid_order_on_redis_and_postgresql() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Standalone::start(&Options::new());
    let postgres = Postgres::start(&postgres::Options::new());
    // The page creates a role `qiang`, which the test's server has as its administrator.
    postgres.sql("CREATE ROLE boss SUPERUSER LOGIN");
    let psql = format!(
        "psql -X -h 127.0.0.1 -p {} -U boss -d postgres",
        postgres.addr().port()
    );
    let renamed = Command::new("sh")
        .args([
            "-c",
            &format!("{psql} -c 'ALTER ROLE qiang RENAME TO founder'"),
        ])
        .output()
        .unwrap();
    assert!(renamed.status.success(), "{renamed:?}");

    let blocks = blocks(PAGE);
    let mut of = blocks.iter().filter(|block| block.language == "sh");
    // The first one names the servers of a fresh machine.
    let names = of.next().unwrap();
    let (listen, admin) = (free(), free());
    let own = [
        ("REDIS", redis.addr().to_string()),
        ("POSTGRES", postgres.addr().to_string()),
        ("PSQL", psql),
        ("URL", format!("http://{listen}")),
        ("ADMIN", format!("http://{admin}")),
        ("ETC", folder.path().join("etc").display().to_string()),
        ("UNITS", folder.path().join("units").display().to_string()),
    ];
    let named: Vec<&str> = names
        .text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert_eq!(named, own.each_ref().map(|(name, _)| *name));
    let script: String = of.map(|block| block.text.as_str()).collect();
    let expected = blocks.iter().filter(|block| block.language == "text");
    let expected: String = expected.map(|block| block.text.as_str()).collect();
    assert_eq!(expected, "ready\npaid\nok\n");

    let program = PathBuf::from(env!("CARGO_BIN_EXE_qiang"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let started = Instant::now();
    let ran = Command::new("bash")
        .args(["-c", &format!("{HEAD}{script}")])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("QIANG__SERVER__LISTEN", &listen)
        .env("QIANG__ADMIN__LISTEN", &admin)
        .envs(own)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, said) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{printed}{said}");
    assert!(printed.ends_with("ready\npaid\nok\n"), "{printed}{said}");
    println!("steps 3 to 7 took {:?}", started.elapsed());
}
