//! Databases that cannot be audited. Each is refused in one line, without any password.

use std::time::Duration;

use qiang_testkit::servers::{Port, wait_for};

use super::{KINDS, LedgerKind, audit, empty, mariadb, postgres};

/// Maximum time until a server has reloaded its settings.
const RELOAD_MAX: Duration = Duration::from_secs(20);

fn check(url: &str, expected: &str) {
    let text = crate::outcome::refusal(audit(url));
    assert!(text.contains(expected), "{url}: {text}");
}

#[test]
fn another_schema_is_refused() {
    for kind in KINDS {
        check(&kind.database(), "is not a ledger of Qiang");
        let url = empty(kind);
        kind.run(&url, "INSERT INTO schema_version (version) VALUES (2)");
        check(
            &url,
            "has schema version 2, and this program audits version 1",
        );
        kind.run(&url, "DELETE FROM schema_version");
        check(&url, "is not a ledger of Qiang");
        kind.run(
            &url,
            "INSERT INTO schema_version (version) VALUES (1); DROP TABLE parts",
        );
        check(&url, "cannot read the ledger");
    }
}

#[test]
fn other_columns_are_refused() {
    for (kind, sql, said) in [
        (
            LedgerKind::Postgres,
            "ALTER TABLE settled ALTER COLUMN seq TYPE NUMERIC; INSERT INTO settled VALUES (1, 1.5)",
            "settled.seq is NUMERIC, and a ledger has whole numbers there",
        ),
        (
            LedgerKind::MariaDb,
            "ALTER TABLE settled MODIFY seq DECIMAL(20, 1); INSERT INTO settled VALUES (1, 1.5)",
            "settled.seq is DECIMAL, and a ledger has whole numbers there",
        ),
        (
            LedgerKind::MariaDb,
            "ALTER TABLE settled ENGINE = MyISAM",
            "the table settled is not InnoDB",
        ),
    ] {
        let url = empty(kind);
        kind.run(&url, sql);
        check(&url, said);
    }
}

#[test]
fn a_wrong_password_is_refused_and_not_shown() {
    let name = |url: String| url.rsplit('/').next().unwrap().to_owned();
    mariadb().sql("CREATE USER ann@'%' IDENTIFIED BY 'right'");
    let database = name(empty(LedgerKind::MariaDb));
    let addr = mariadb().addr();
    check(
        &format!("mysql://ann:secret@{addr}/{database}"),
        "Access denied for user 'ann'",
    );

    // All other users can still connect without a password.
    postgres().sql("CREATE ROLE ann LOGIN PASSWORD 'right'");
    let rules = "E'host all ann all scram-sha-256\\nhost all all all trust'";
    let file = postgres().sql("SHOW hba_file");
    postgres().sql(&format!(
        "COPY (SELECT {rules}) TO '{file}' WITH (FORMAT csv, QUOTE ' ')"
    ));
    postgres().sql("SELECT pg_reload_conf()");
    let database = name(empty(LedgerKind::Postgres));
    let addr = postgres().addr();
    let url = format!("postgres://ann:secret@{addr}/{database}");
    wait_for("the server to ask for passwords", RELOAD_MAX, || {
        let refused = audit(&url).err()?;
        format!("{refused:#}").contains("password").then_some(())
    });
    check(&url, "password authentication failed for user \"ann\"");
}

#[test]
fn a_database_that_is_down_is_said_to_be() {
    let port = Port::free();
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://ann:secret@{}/books", port.addr());
        check(
            &url,
            &format!("{scheme}://ann@{}/books: cannot connect: ", port.addr()),
        );
    }
}

#[test]
fn a_bad_url_is_refused_and_not_shown() {
    check("redis://ann:secret@127.0.0.1", "begins with postgres://");
    check("qiang.db", "begins with postgres://");
    check("postgres://ann:12/secret@127.0.0.1/books", "cannot be read");
    check("mysql://ann:secret@127.0.0.1", "names no database");
}
