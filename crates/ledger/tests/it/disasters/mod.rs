//! Ordinary accidents and mistakes at the database server. Each leaves the books right, is named by its cause, and is
//! over as soon as its cause is gone. docs/operate/disasters.md lists them.

mod rights;
mod settings;
mod tables;

use std::{sync::Arc, time::Duration};

use crate::common::{
    Databases, MariaDb, OPTIONS, Postgres, Server, audit::audit, history::History, until,
};
use qiang_core::{
    money::Money,
    ports::{Ledger, LedgerError},
};
use qiang_ledger::LedgerOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, currency, user},
    servers::{Ballast, mariadb as maria_server, postgres as postgres_server},
};
use uuid::Uuid;

/// A ledger that gives up soon.
async fn hasty(url: &str) -> Arc<dyn Ledger> {
    let options = LedgerOptions {
        acquire_max: Duration::from_secs(2),
        work_max: Duration::from_secs(2),
        ..OPTIONS
    };
    let ledger = qiang_ledger::open(url, ManualClock::new(OPENS), options).await;
    ledger.unwrap()
}

async fn deposit(ledger: &Arc<dyn Ledger>, n: u128) -> Result<(), LedgerError> {
    let money = Money::new(5, currency());
    ledger
        .deposit(Uuid::from_u128(n), &user("ann"), money)
        .await
}

/// A history of which some entries are settled.
async fn begun(ledger: &Arc<dyn Ledger>, users: u32) -> History {
    let history = History::of(0, users);
    history.enter(ledger).await;
    ledger
        .settle(history.partition, &history.log[..10])
        .await
        .unwrap();
    history
}

async fn rest<S: Server>(url: &str, ledger: &Arc<dyn Ledger>, history: &History) {
    until("settlement to succeed", async || {
        let settled = ledger.settle(history.partition, &history.log[..11]).await;
        settled.is_ok()
    })
    .await;
    history.settle(ledger, 1_000).await;
    history.check(ledger).await;
    audit::<S>(url).await;
}

/// The reason for which settlement does not succeed. No entry is to blame, so none is quarantined.
async fn reason(ledger: &Arc<dyn Ledger>, history: &History) -> String {
    match ledger.settle(history.partition, &history.log).await {
        Err(LedgerError::Unavailable { reason } | LedgerError::Uncertain { reason }) => reason,
        settled => panic!("{settled:?}"),
    }
}

const DISK_BYTES: u64 = 192 << 20;

/// The disk of a server is full: no write is half done, and writes succeed when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_goes_on_after_a_full_disk() {
    let options = postgres_server::Options::new().without_fsync();
    let server = Postgres::start(&options.small_disk(DISK_BYTES));
    a_full_disk(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_goes_on_after_a_full_disk() {
    // As in production, each table has its own file. A file of all tables would have room inside.
    let options = maria_server::Options::new().without_fsync();
    let options = options.setting("innodb-file-per-table=ON");
    let server = MariaDb::start(&options.small_disk(DISK_BYTES));
    a_full_disk(&server).await;
}

async fn a_full_disk<S: Server>(server: &S) {
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 20_000).await;
    let folder = server.resources().folder();
    let ballast = Ballast::fill(server.pid(), folder);
    let mut refused = false;
    for run in history.log[10..].chunks(2_000) {
        refused |= ledger.settle(history.partition, run).await.is_err();
    }
    assert!(refused, "the disk is full");
    assert!(server.is_running(), "{}", server.output());
    ballast.remove();
    rest::<S>(&url, &ledger, &history).await;
}

/// A backup by the server's own program, while entries are settled: neither waits for the other for long.
async fn a_backup_beside_holds_nothing_up<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 2_000).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, from) = (folder.path().join("dump"), url.clone());
    let dump = tokio::task::spawn_blocking(move || match from.starts_with("mysql") {
        true => maria_server::dump(&from, &file),
        false => postgres_server::dump(&from, &file),
    });
    history.settle(&ledger, 100).await;
    dump.await.unwrap();
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

crate::on_each_server! {
    a_backup_beside_holds_nothing_up,
}

/// A backup that locks all tables (`mariadb-dump --lock-all-tables`): writes are refused after a while,
/// and succeed after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_locks_all_tables_delays_writes() {
    let server = MariaDb::start_with(MariaDb::QUICK);
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 100).await;
    let mut stranger = MariaDb::stranger(&url).await;
    MariaDb::has(&mut stranger, "COMMIT; FLUSH TABLES WITH READ LOCK").await;
    reason(&ledger, &history).await;
    // No session waits for a client that has given up.
    let waiting = "SELECT count(*) FROM information_schema.processlist \
                   WHERE state LIKE 'Waiting for%' AND user <> 'system user'";
    until("no session to wait", async || {
        MariaDb::count(&url, waiting).await == 0
    })
    .await;
    MariaDb::has(&mut stranger, "UNLOCK TABLES").await;
    rest::<MariaDb>(&url, &ledger, &history).await;
}

/// PostgreSQL waits with commits for a standby that is gone. No write is answered as kept until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_that_is_gone_stops_writes() {
    let server = Postgres::start_with(Postgres::QUICK);
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 100).await;
    let set = |names: &str| format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
    let reload = async |names: &str| {
        Postgres::execute(&url, &set(names)).await;
        Postgres::execute(&url, "SELECT pg_reload_conf()").await;
        let shows = "SELECT count(*) FROM pg_settings \
                     WHERE name = 'synchronous_standby_names' AND setting = 'gone'";
        let expected = i64::from(names == "gone");
        until("the setting", async || {
            Postgres::count(&url, shows).await == expected
        })
        .await;
    };
    reload("gone").await;
    until("a write to be refused", async || {
        deposit(&ledger, 1).await.is_err()
    })
    .await;
    reason(&ledger, &history).await;
    assert!(
        ledger.balances(&user("ann")).await.is_ok(),
        "reads still work"
    );
    reload("").await;
    rest::<Postgres>(&url, &ledger, &history).await;
}
