//! Settings of a server, a database or a role that an operator has chosen for other programs.

use super::{begun, deposit, hasty, reason, rest, until};
use crate::common::{
    Databases, MariaDb, OPTIONS, Postgres, Server, audit::audit, history::History,
};
use qiang_core::money::Money;
use qiang_ledger::{OpenError, migrate};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, currency, sale, user},
};
use uuid::Uuid;

/// Defaults that mean another isolation, other rows, other texts or other limits than the ledger's statements do.
trait OddDefaults: Server {
    const SETTINGS: &[&str];
    /// Settings that a server takes only while it runs.
    const STATEMENTS: &[&str];
    /// Statements that let the test look at the rows.
    const RESET: &[&str];
}

impl OddDefaults for Postgres {
    const SETTINGS: &[&str] = &[
        "default_transaction_isolation=serializable",
        "default_transaction_deferrable=on",
        "timezone=Asia/Kathmandu",
        "datestyle=SQL, DMY",
        "lock_timeout=1",
        "idle_session_timeout=500",
        "idle_in_transaction_session_timeout=1000",
        "session_replication_role=replica",
        "bytea_output=escape",
        "standard_conforming_strings=off",
        "transform_null_equals=on",
        "enable_indexscan=off",
        "work_mem=64kB",
    ];
    const STATEMENTS: &[&str] = &[
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 1', current_database()); END $$",
    ];
    const RESET: &[&str] = &["SET statement_timeout = 0; \
         DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET statement_timeout', current_database()); END $$"];
}

impl OddDefaults for MariaDb {
    const SETTINGS: &[&str] = &[
        "sql-mode=ORACLE",
        "default-time-zone=+05:45",
        "transaction-isolation=SERIALIZABLE",
        "init-connect=SET autocommit=0",
        "character-set-server=latin1",
        "skip-character-set-client-handshake",
        "default-storage-engine=MyISAM",
        "lock-wait-timeout=1",
        "innodb-lock-wait-timeout=1",
        "wait-timeout=2",
        "max-statement-time=0.001",
        "auto-increment-increment=7",
        "innodb-strict-mode=0",
        "innodb-snapshot-isolation=1",
        "group-concat-max-len=4",
        "completion-type=1",
        "max-allowed-packet=65536",
    ];
    const STATEMENTS: &[&str] = &[
        "SET GLOBAL sql_safe_updates = 1",
        "SET GLOBAL max_join_size = 1",
        "SET GLOBAL sql_select_limit = 1",
        "SET GLOBAL unique_checks = 0",
        "SET GLOBAL foreign_key_checks = 0",
    ];
    const RESET: &[&str] = &[
        "SET GLOBAL max_join_size = DEFAULT",
        "SET GLOBAL max_statement_time = 0",
        "SET GLOBAL sql_select_limit = DEFAULT",
    ];
}

async fn odd_defaults_change_nothing<S: OddDefaults>() {
    let server = tokio::task::block_in_place(|| S::start_with(S::SETTINGS));
    let url = server.empty();
    for statement in S::STATEMENTS {
        S::execute(&url, statement).await;
    }
    migrate(&url).await.unwrap();
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 500).await;
    history.settle(&ledger, 2_000).await;
    history.check(&ledger).await;
    for n in 100..120 {
        deposit(&ledger, n).await.unwrap();
        deposit(&ledger, n).await.unwrap();
    }
    let balances = ledger.balances(&user("ann")).await.unwrap();
    assert_eq!(balances[0].available, Money::new(20 * 5, currency()));
    for statement in S::RESET {
        S::execute(&url, statement).await;
    }
    audit::<S>(&url).await;
}

mod postgres {
    use crate::common::Postgres;

    #[tokio::test(flavor = "multi_thread")]
    async fn odd_defaults_change_nothing() {
        super::odd_defaults_change_nothing::<Postgres>().await;
    }
}

mod mariadb {
    use crate::common::MariaDb;

    #[tokio::test(flavor = "multi_thread")]
    async fn odd_defaults_change_nothing() {
        super::odd_defaults_change_nothing::<MariaDb>().await;
    }
}

/// A whole history in a database that was created with these options, and names that only bytes tell apart.
async fn in_database<S: Server>(url: &str) {
    migrate(url).await.unwrap();
    let ledger = hasty(url).await;
    let history = History::of(0, 100);
    history.enter(&ledger).await;
    history.settle(&ledger, 1_000).await;
    for (n, name) in (1..).zip(["ann", "Ann", "ANN"]) {
        let money = Money::new(5 * n, currency());
        let id = Uuid::from_u128(1_000 + n as u128);
        ledger.deposit(id, &user(name), money).await.unwrap();
        let balances = ledger.balances(&user(name)).await.unwrap();
        assert_eq!(balances[0].available, money, "{name}");
    }
    let title = "抢红包 é 🎉";
    let mut setup = sale(5).setup(50);
    setup.campaign.title = title.parse().unwrap();
    ledger.create(&setup).await.unwrap();
    let record = ledger.campaign(setup.campaign.id).await.unwrap().unwrap();
    assert_eq!(record.campaign.title.as_str(), title);
    assert_eq!(record.campaign.owner, user(OWNER));
    history.check(&ledger).await;
    audit::<S>(url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_may_sort_and_compare_as_it_likes() {
    let server = <Postgres as Databases>::shared();
    for options in [
        "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'de-u-ks-level1'",
        "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
        "ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'",
    ] {
        let (base, name) = named(server.empty());
        let create = format!("CREATE DATABASE {name}_odd TEMPLATE template0 {options}");
        Postgres::execute(&base, &create).await;
        in_database::<Postgres>(&server.url_of(&format!("{name}_odd"))).await;
    }
    let server = <MariaDb as Databases>::shared();
    for options in [
        "CHARACTER SET latin1",
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    ] {
        let (base, name) = named(server.empty());
        MariaDb::execute(&base, &format!("CREATE DATABASE {name}_odd {options}")).await;
        in_database::<MariaDb>(&format!("{base}_odd")).await;
    }
}

/// The URL of a database, and its name.
fn named(url: String) -> (String, String) {
    let name = url.rsplit('/').next().unwrap().to_owned();
    (url, name)
}

/// PostgreSQL converts texts into the encoding of the database, and refuses what that lacks: titles and names of users
/// would fail one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_lacks_characters_is_refused() {
    let server = <Postgres as Databases>::shared();
    for encoding in ["LATIN1", "EUC_CN"] {
        let (base, name) = named(server.empty());
        let create = format!(
            "CREATE DATABASE {name}_odd TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        );
        Postgres::execute(&base, &create).await;
        let url = server.url_of(&format!("{name}_odd"));
        let opened = qiang_ledger::open(&url, ManualClock::new(OPENS), OPTIONS).await;
        for error in [migrate(&url).await.unwrap_err(), opened.err().unwrap()] {
            assert!(matches!(error, OpenError::Encoding { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains(encoding) && text.contains("ENCODING 'UTF8'"),
                "{text}"
            );
            assert!(!error.is_outage());
        }
        assert_eq!(qiang_ledger::schema_version(&url).await.unwrap(), 0);
    }
}

/// MariaDB takes no statement above `max_allowed_packet`. Sessions keep what they began with; new ones have the lower
/// limit, and settlement says so until it is raised.
#[tokio::test(flavor = "multi_thread")]
async fn a_lower_packet_limit_is_named_and_over_when_it_is_raised() {
    let server = MariaDb::start_with(MariaDb::QUICK);
    let url = server.fresh().await;
    let history = begun(&hasty(&url).await, 3_000).await;
    MariaDb::execute(&url, "SET GLOBAL max_allowed_packet = 16384").await;
    let ledger = hasty(&url).await;
    let reason = reason(&ledger, &history).await;
    assert!(reason.contains("max_allowed_packet"), "{reason}");
    MariaDb::execute(&url, "SET GLOBAL max_allowed_packet = 16777216").await;
    // Sessions keep the limit that they began with, and the server ends each at its first large packet.
    until("a large run to be settled", async || {
        let settled = ledger.settle(history.partition, &history.log).await;
        settled.is_ok()
    })
    .await;
    rest::<MariaDb>(&url, &ledger, &history).await;
}
