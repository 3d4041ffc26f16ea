//! Rights, logins and connections that an operator takes from the ledger's user while it is used.

use super::{begun, hasty, reason, rest};
use crate::common::{Databases, MariaDb, OPTIONS, Postgres, Server};
use qiang_testkit::{ManualClock, campaign::OPENS};

/// A right that is taken, how it is returned, and whether a start waits for it.
struct Loss {
    taken: &'static str,
    given: &'static str,
    /// Texts of which the reason has one.
    named: &'static [&'static str],
    /// Whether a start waits. It refuses to start otherwise, unless it does not notice.
    waits: Option<bool>,
}

async fn lost<S: Server>(admin: &str, app: &str, end_sessions: &str, losses: &[Loss]) {
    let ledger = hasty(app).await;
    let history = begun(&ledger, 100).await;
    for loss in losses {
        S::execute(admin, loss.taken).await;
        S::execute(admin, end_sessions).await;
        let reason = reason(&ledger, &history).await;
        let is_named = loss.named.iter().any(|name| reason.contains(name));
        assert!(is_named, "{}: {reason}", loss.taken);
        let opened = qiang_ledger::open(app, ManualClock::new(OPENS), OPTIONS).await;
        let waits = opened.err().map(|error| error.is_outage());
        assert_eq!(waits, loss.waits, "{}", loss.taken);
        S::execute(admin, loss.given).await;
        S::execute(admin, end_sessions).await;
        let again = ledger.settle(history.partition, &history.log[..11]).await;
        assert_eq!(again, Ok(11), "{}", loss.given);
    }
    rest::<S>(admin, &ledger, &history).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_says_what_it_was_refused() {
    let server = Postgres::start_with(Postgres::QUICK);
    let url = server.fresh().await;
    let app = "CREATE ROLE app LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO app; \
               GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO app";
    Postgres::execute(&url, app).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
    let losses = [
        Loss {
            taken: "REVOKE INSERT ON orders FROM app",
            given: "GRANT INSERT ON orders TO app",
            named: &["permission denied for table orders"],
            waits: None,
        },
        Loss {
            taken: "ALTER ROLE app NOLOGIN",
            given: "ALTER ROLE app LOGIN",
            named: &["not permitted to log in"],
            waits: Some(false),
        },
        Loss {
            taken: "ALTER ROLE app CONNECTION LIMIT 0",
            given: "ALTER ROLE app CONNECTION LIMIT -1",
            named: &["timed out"],
            waits: Some(true),
        },
        Loss {
            taken: "ALTER ROLE app SET search_path = elsewhere",
            given: "ALTER ROLE app RESET search_path",
            named: &["lack the unique keys", "\"settled\" does not exist"],
            waits: Some(false),
        },
    ];
    lost::<Postgres>(&url, &url.replace("qiang@", "app@"), end, &losses).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_says_what_it_was_refused() {
    let server = MariaDb::start_with(MariaDb::QUICK);
    let url = server.fresh().await;
    MariaDb::execute(&url, "CREATE USER app@'%'; GRANT ALL ON *.* TO app@'%'").await;
    let end = "BEGIN NOT ATOMIC \
               FOR r IN (SELECT id FROM information_schema.processlist WHERE user = 'app') DO \
               EXECUTE IMMEDIATE concat('KILL ', r.id); END FOR; END";
    let losses = [
        Loss {
            taken: "REVOKE INSERT ON *.* FROM app@'%'",
            given: "GRANT ALL ON *.* TO app@'%'",
            named: &["INSERT command denied"],
            waits: None,
        },
        Loss {
            taken: "ALTER USER app@'%' ACCOUNT LOCK",
            given: "ALTER USER app@'%' ACCOUNT UNLOCK",
            named: &["account is locked"],
            waits: Some(false),
        },
        Loss {
            taken: "ALTER USER app@'%' IDENTIFIED BY 'another'",
            given: "ALTER USER app@'%' IDENTIFIED BY ''",
            named: &["Access denied"],
            waits: Some(false),
        },
        Loss {
            taken: "ALTER USER app@'%' WITH MAX_QUERIES_PER_HOUR 1",
            given: "ALTER USER app@'%' WITH MAX_QUERIES_PER_HOUR 0",
            named: &["max_queries_per_hour"],
            waits: Some(true),
        },
    ];
    lost::<MariaDb>(&url, &url.replace("root@", "app@"), end, &losses).await;
}
