//! Migrations, and which schemas a program works with.

use std::time::Duration;

use crate::common::{Databases, OPTIONS, Postgres, Server, audit::audit, history::History, open};
use qiang_ledger::{
    LedgerOptions, MigrationResult, OpenError, SCHEMA_VERSION, migrate, schema_version,
};
use qiang_testkit::{
    ManualClock,
    campaign::OPENS,
    servers::pgbouncer::{PgBouncer, PoolMode},
};
use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgConnectOptions};

async fn refused(url: &str) -> OpenError {
    let options = LedgerOptions {
        acquire_max: Duration::from_secs(3),
        ..OPTIONS
    };
    let ledger = qiang_ledger::open(url, ManualClock::new(OPENS), options).await;
    match ledger {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// A database without the schema is refused until it is migrated; migrating again does nothing.
async fn a_schema_is_made_once<S: Server>() {
    let server = S::shared();
    let url = server.empty();
    assert_eq!(schema_version(&url).await.unwrap(), 0);
    let error = refused(&url).await;
    assert!(
        matches!(
            error,
            OpenError::TooOld {
                found: 0,
                known: SCHEMA_VERSION
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("run `qiang migrate`"), "{error}");
    for from in [0, SCHEMA_VERSION] {
        let to = SCHEMA_VERSION;
        assert_eq!(migrate(&url).await.unwrap(), MigrationResult { from, to });
        assert_eq!(schema_version(&url).await.unwrap(), to);
    }
    let ledger = open(&url, ManualClock::new(OPENS)).await;
    let history = History::of(0, 10);
    history.enter(&ledger).await;
    history.settle(&ledger, 7).await;
    migrate(&url).await.unwrap();
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

/// A schema that a newer program made is left alone.
async fn a_newer_schema_is_refused<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    S::execute(&url, "INSERT INTO schema_version (version) VALUES (4711)").await;
    let newer = |error: &OpenError| {
        matches!(
            error,
            OpenError::TooNew {
                found: 4711,
                known: SCHEMA_VERSION
            }
        )
    };
    let error = refused(&url).await;
    assert!(newer(&error), "{error}");
    assert!(error.to_string().contains("use a newer qiang"), "{error}");
    assert!(newer(&migrate(&url).await.unwrap_err()));
    assert_eq!(schema_version(&url).await.unwrap(), 4711);
}

/// Several who migrate at once wait for each other.
async fn migrating_at_once_is_migrating_once<S: Server>() {
    let server = S::shared();
    let url = server.empty();
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { migrate(&url).await.unwrap().from })
        })
        .collect();
    let mut from = Vec::new();
    for task in tasks {
        from.push(task.await.unwrap());
    }
    from.sort_unstable();
    assert_eq!(from, [&[0][..], &[SCHEMA_VERSION; 5]].concat());
}

/// A migration that was interrupted is run again.
async fn a_broken_migration_is_mended<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    // The state after an interrupted migration. A server that commits every statement keeps all tables but the last,
    // and no version. Another server keeps nothing.
    let left = match S::COMMITS_EACH_STATEMENT {
        true => "DROP TABLE settled; DELETE FROM schema_version",
        false => "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
    };
    S::execute(&url, left).await;
    assert_eq!(schema_version(&url).await.unwrap(), 0);
    migrate(&url).await.unwrap();
    let ledger = open(&url, ManualClock::new(OPENS)).await;
    let history = History::of(0, 10);
    history.enter(&ledger).await;
    history.settle(&ledger, 7).await;
    audit::<S>(&url).await;
}

/// An unreachable server: errors never contain the password.
async fn an_error_tells_no_password<S: Server>() {
    let server = S::shared();
    let url = server.empty().replace('@', ":sesame@");
    let url = url.replace(&server.addr().to_string(), "127.0.0.1:1");
    let errors = [refused(&url).await, migrate(&url).await.unwrap_err()];
    for error in errors {
        assert!(matches!(error, OpenError::Unavailable(_)), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("sesame"));
    }
}

/// Frequent searches use a small index of their own, for any number of campaigns. Settling a grant writes to no index
/// of its campaign.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_looked_for_often_has_an_index_that_grants_do_not_touch() {
    let server = <Postgres as Databases>::shared();
    let url = server.fresh().await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for sql in [include_str!("../../src/postgres/sql/session.sql"), PACKETS] {
        Postgres::has(&mut conn, sql).await;
    }
    let looks = [
        (
            include_str!("../../src/postgres/sql/claimed_packets.sql"),
            "campaigns_claimed",
        ),
        (
            include_str!("../../src/postgres/sql/campaigns_not_closed.sql"),
            "campaigns_not_closed",
        ),
        (
            include_str!("../../src/postgres/sql/closed_with_held.sql"),
            "campaigns_holds_end",
        ),
        (
            include_str!("../../src/postgres/sql/closed_with_held.sql"),
            "orders_held",
        ),
    ];
    for (sql, index) in looks {
        let prepare = format!("DEALLOCATE ALL; PREPARE page (text, bigint) AS {sql}");
        Postgres::has(&mut conn, &prepare).await;
        let plan = sqlx::raw_sql("EXPLAIN (COSTS OFF) EXECUTE page ('', 9)");
        let plan = plan.fetch_all(&mut conn).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let uses = |step: &String| step.contains("Scan") && step.contains(&format!(" {index}"));
        assert!(plan.iter().any(uses), "{index}: {plan:#?}");
    }
    Postgres::has(
        &mut conn,
        "BEGIN; UPDATE campaigns SET granted = granted + 1",
    )
    .await;
    let in_place = "SELECT pg_stat_get_xact_tuples_hot_updated('campaigns'::regclass)";
    let in_place: i64 = sqlx::query_scalar(in_place)
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(in_place, 100);
}

/// Packets that have not ended.
const PACKETS: &str = "
    INSERT INTO campaigns (id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, updated_at,
                           supply, per_user_limit, total, split_rule, seed, phase)
    SELECT md5(n::text), 'red_packet', 'o', 't', 'CNY', 'memory', 1, 2, 0, 0, 10, 1, 10, 'equal', sha256(''),
           'scheduled'
    FROM generate_series(1, 100) n;
    ANALYZE campaigns";

crate::on_each_server! {
    a_schema_is_made_once,
    a_newer_schema_is_refused,
    migrating_at_once_is_migrating_once,
    a_broken_migration_is_mended,
    an_error_tells_no_password,
}

/// Through PgBouncer the ledger works where each connection keeps its session. Any other mode is refused by a line that
/// says what to do, by everything that opens the database, and nothing is changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_changes_sessions_is_refused() {
    let server = <Postgres as Databases>::shared();
    let url = server.empty();
    for mode in [PoolMode::Transaction, PoolMode::Statement] {
        let pooler = PgBouncer::start(&server, mode);
        let through = pooler.through(&server, &url);
        // PgBouncer refuses connections that set it.
        let of_others: PgConnectOptions = through.parse().unwrap();
        let of_others = of_others.extra_float_digits(None);
        for idle in [true, false] {
            // Sessions that other clients of the pooler have left, and one that a client has now.
            let mut others = Vec::new();
            for _ in 0..3 {
                others.push(PgConnection::connect_with(&of_others).await.unwrap());
            }
            if !idle && mode == PoolMode::Transaction {
                for other in &mut others {
                    Postgres::has(other, "BEGIN").await;
                }
                for other in &mut others[1..] {
                    Postgres::has(other, "COMMIT").await;
                }
            }
            let migrated = migrate(&through).await.unwrap_err();
            let version = schema_version(&through).await.unwrap_err();
            for error in [migrated, version, refused(&through).await] {
                assert!(matches!(error, OpenError::Pooler), "{mode:?}: {error:?}");
                let text = error.to_string();
                assert!(text.contains("pool_mode to session"), "{text}");
                assert!(!text.contains('\n'), "{text}");
                assert!(!error.is_outage());
            }
            drop(others);
        }
    }
    assert_eq!(schema_version(&url).await.unwrap(), 0);

    let pooler = PgBouncer::start(&server, PoolMode::Session);
    let through = pooler.through(&server, &url);
    migrate(&through).await.unwrap();
    let ledger = open(&through, ManualClock::new(OPENS)).await;
    let history = History::of(0, 10);
    history.enter(&ledger).await;
    history.settle(&ledger, 7).await;
    history.check(&ledger).await;
    audit::<Postgres>(&url).await;
}

#[tokio::test]
async fn a_url_names_a_database_that_is_known() {
    for url in [
        "",
        "qiang.db",
        "sqlite://qiang.db",
        "redis://127.0.0.1",
        "postgresqll://x",
    ] {
        assert!(matches!(refused(url).await, OpenError::Scheme), "{url}");
        assert!(
            matches!(migrate(url).await, Err(OpenError::Scheme)),
            "{url}"
        );
    }
    for url in ["postgres://[", "mariadb://a b"] {
        assert!(matches!(refused(url).await, OpenError::Url(_)), "{url}");
    }
}
