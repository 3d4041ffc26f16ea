//! Tests of the SQL fixtures with real servers: committed data survives a kill.

use std::time::Instant;

use qiang_testkit::servers::mariadb::{self, MariaDb};
use qiang_testkit::servers::postgres::{self, Postgres};

#[test]
fn postgres_keeps_commits_across_a_kill() {
    let started = Instant::now();
    let server = Postgres::start(&postgres::Options::new());
    println!("PostgreSQL up after {:?}", started.elapsed());
    assert_eq!(
        server.url(),
        format!("postgres://qiang@{}/postgres", server.addr())
    );
    assert_eq!(server.sql("SHOW fsync"), "on");
    server.sql("CREATE TABLE t (i int)");
    server.sql("INSERT INTO t VALUES (1), (2)");
    let pid = server.pid();
    server.kill();
    let started = Instant::now();
    server.start_again();
    println!("PostgreSQL up again after {:?}", started.elapsed());
    assert_ne!(server.pid(), pid);
    assert_eq!(server.sql("SELECT i FROM t ORDER BY i"), "1\n2");
}

#[test]
fn postgres_takes_options_and_has_room_for_more_databases() {
    let options = postgres::Options::new()
        .without_fsync()
        .setting("synchronous_commit=off");
    let server = Postgres::start(&options);
    assert_eq!(server.sql("SHOW fsync"), "off");
    assert_eq!(server.sql("SHOW synchronous_commit"), "off");
    let (one, two) = (server.create_database(), server.create_database());
    assert_ne!(one, two);
    let names =
        server.sql("SELECT datname FROM pg_database WHERE datname LIKE 'qiang%' ORDER BY 1");
    assert_eq!(names, "qiang_0\nqiang_1");
    assert!(one.ends_with("/qiang_0"));
}

#[test]
#[should_panic(expected = "no_such_setting")]
fn a_postgres_that_cannot_start_says_why() {
    Postgres::start(&postgres::Options::new().setting("no_such_setting=1"));
}

#[test]
fn mariadb_keeps_commits_across_a_kill() {
    let started = Instant::now();
    let server = MariaDb::start(&mariadb::Options::new());
    println!("MariaDB up after {:?}", started.elapsed());
    assert_eq!(
        server.url(),
        format!("mysql://root@{}/qiang", server.addr())
    );
    let flush = "SELECT @@innodb_flush_log_at_trx_commit";
    assert_eq!(server.sql(flush), "1");
    server.sql("CREATE TABLE t (i int)");
    server.sql("INSERT INTO t VALUES (1), (2)");
    let pid = server.pid();
    server.kill();
    let started = Instant::now();
    server.start_again();
    println!("MariaDB up again after {:?}", started.elapsed());
    assert_ne!(server.pid(), pid);
    assert_eq!(server.sql("SELECT i FROM t ORDER BY i"), "1\n2");
}

#[test]
fn mariadb_takes_options_and_has_room_for_more_databases() {
    let options = mariadb::Options::new()
        .without_fsync()
        .setting("innodb-lock-wait-timeout=3");
    let server = MariaDb::start(&options);
    assert_eq!(server.sql("SELECT @@innodb_flush_log_at_trx_commit"), "2");
    assert_eq!(server.sql("SELECT @@innodb_lock_wait_timeout"), "3");
    let (one, two) = (server.create_database(), server.create_database());
    assert_ne!(one, two);
    assert_eq!(
        server.sql("SHOW DATABASES LIKE 'qiang\\_%'"),
        "qiang_0\nqiang_1"
    );
    assert!(one.ends_with("/qiang_0"));
}

#[test]
#[should_panic(expected = "no-such-setting")]
fn a_mariadb_that_cannot_start_says_why() {
    MariaDb::start(&mariadb::Options::new().setting("no-such-setting=1"));
}
