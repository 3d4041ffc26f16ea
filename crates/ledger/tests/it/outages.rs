//! Killed servers and lost answers: content of the ledger afterwards, and the caller's results.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::common::{
    Databases, MariaDb, OPTIONS, Postgres, Server, WAIT_MAX, audit::audit, history::History, open,
    until,
};
use qiang_core::{
    event::PartitionId,
    money::Money,
    ports::{Ledger, LedgerError},
};
use qiang_ledger::LedgerOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, currency, user},
    proxy::FaultProxy,
};
use uuid::Uuid;

async fn ledger(url: &str) -> Arc<dyn Ledger> {
    open(url, ManualClock::new(OPENS)).await
}

/// Opens a ledger with short timeouts.
async fn hasty(url: &str) -> Arc<dyn Ledger> {
    let options = LedgerOptions {
        acquire_max: Duration::from_secs(2),
        work_max: Duration::from_secs(2),
        ..OPTIONS
    };
    let ledger = qiang_ledger::open(url, ManualClock::new(OPENS), options).await;
    ledger.unwrap()
}

fn cny(minor: i64) -> Money {
    Money::new(minor, currency())
}

/// The server is killed repeatedly while three partitions are settled. Settled entries stay settled, and all others are
/// settled exactly once in the end.
async fn a_killed_server_loses_and_doubles_nothing<S: Server>() {
    let server = S::start();
    let url = server.fresh().await;
    let histories: Vec<_> = (0..3)
        .map(|partition| Arc::new(History::of(partition, 600)))
        .collect();
    for history in &histories {
        history.enter(&ledger(&url).await).await;
    }
    let failures = Arc::new(AtomicU32::new(0));
    let mut workers = Vec::new();
    for history in &histories {
        let (ledger, history) = (hasty(&url).await, Arc::clone(history));
        let failures = Arc::clone(&failures);
        workers.push(tokio::spawn(async move {
            let mut known = 0;
            while known < history.head() {
                let settled = match ledger.settled(history.partition).await {
                    Ok(settled) => {
                        assert!(settled >= known, "{settled} was {known}");
                        let to = history.log.len().min(settled as usize + 25);
                        ledger
                            .settle(history.partition, &history.log[settled as usize..to])
                            .await
                    }
                    Err(error) => Err(error),
                };
                match settled {
                    Ok(settled) => known = settled,
                    Err(LedgerError::Unavailable { .. } | LedgerError::Uncertain { .. }) => {
                        failures.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }));
    }
    for round in 1..=3 {
        let reached = async || {
            let sums = ledger(&url).await.positions().await.unwrap();
            sums.iter().map(|(_, seq)| seq).sum::<u64>() >= round * 500
        };
        until("some entries to be settled", reached).await;
        assert!(workers.iter().any(|worker| !worker.is_finished()));
        server.kill();
        server.start_again();
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(failures.load(Ordering::Relaxed) >= 3);
    for history in &histories {
        history.check(&ledger(&url).await).await;
    }
    audit::<S>(&url).await;
}

/// While the server is down, the ledger is unavailable. Once the server is up, it works again.
async fn a_server_that_is_down_is_unavailable<S: Server>() {
    let server = S::start();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = History::of(0, 20);
    history.enter(&ledger).await;
    server.kill();
    let unavailable = |result: Result<(), LedgerError>| {
        assert!(
            matches!(result, Err(LedgerError::Unavailable { .. })),
            "{result:?}"
        );
    };
    unavailable(
        ledger
            .settle(history.partition, &history.log)
            .await
            .map(drop),
    );
    unavailable(ledger.balances(&user("ann")).await.map(drop));
    let (partition, entry) = (history.partition, &history.log[0]);
    // An outage is no refusal, so it quarantines no entry.
    let aside = ledger.quarantine(partition, entry, "no").await;
    unavailable(aside.map(drop));
    unavailable(ledger.redrive(partition, 1).await.map(drop));
    unavailable(ledger.count_quarantined(partition).await.map(drop));
    unavailable(ledger.list_quarantined(None, 1).await.map(drop));
    let waited = ledger.await_settled(history.partition, 1, WAIT_MAX).await;
    unavailable(waited.map(drop));
    server.start_again();
    history.settle(&ledger, 100).await;
    audit::<S>(&url).await;
}

/// The server neither answers nor disconnects, during a transaction and before the next one. The work ends within its
/// time limit, and the connection is closed.
async fn a_silent_server_is_given_up<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let proxy = FaultProxy::start(server.addr()).await;
    let behind = url.replace(&server.addr().to_string(), &proxy.addr().to_string());
    let (ledger, behind) = (ledger(&url).await, hasty(&behind).await);
    let history = History::of(0, 20);
    history.enter(&ledger).await;
    ledger
        .settle(history.partition, &history.log[..1])
        .await
        .unwrap();
    let mut stranger = S::stranger(&url).await;
    S::has(&mut stranger, "UPDATE settled SET seq = seq + 0").await;
    let settle = || {
        let (behind, log) = (Arc::clone(&behind), history.log.clone());
        tokio::spawn(async move { behind.settle(PartitionId(0), &log).await })
    };
    let mut tasks = vec![settle()];
    until("settlement to wait", async || S::waiting(&url).await > 0).await;
    proxy.half_open().await;
    tasks.extend((0..8).map(|_| settle()));
    for task in tasks {
        let settled = tokio::time::timeout(WAIT_MAX / 2, task)
            .await
            .unwrap()
            .unwrap();
        assert!(
            matches!(settled, Err(LedgerError::Unavailable { .. })),
            "{settled:?}"
        );
    }
    S::has(&mut stranger, "COMMIT").await;
    proxy.pass().await;
    history.settle(&behind, 100).await;
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

/// Work over its time limit is given up and its transaction is rolled back.
async fn work_that_is_given_up_leaves_nothing_open<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = History::of(0, 20);
    history.enter(&ledger).await;
    ledger
        .settle(history.partition, &history.log[..1])
        .await
        .unwrap();
    let mut stranger = S::stranger(&url).await;
    S::has(&mut stranger, "UPDATE settled SET seq = seq + 0").await;
    let settled = ledger.settle(history.partition, &history.log).await;
    assert!(
        matches!(settled, Err(LedgerError::Unavailable { .. })),
        "{settled:?}"
    );
    S::has(&mut stranger, "COMMIT").await;
    drop(stranger);
    let ended = until("all transactions to end", async || {
        S::transactions(&url).await == 0
    });
    tokio::time::timeout(WAIT_MAX / 4, ended).await.unwrap();
    history.settle(&ledger, 100).await;
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

/// The commit is kept but its answer is lost: the caller gets an uncertain result, and a retry changes nothing.
async fn a_commit_without_an_answer_is_uncertain<S: Server>() {
    let server = S::start();
    let url = server.fresh().await;
    let proxy = FaultProxy::start(server.addr()).await;
    let (ledger, behind) = (
        ledger(&url).await,
        open(
            &url.replace(&server.addr().to_string(), &proxy.addr().to_string()),
            ManualClock::new(OPENS),
        )
        .await,
    );
    let history = History::of(0, 20);
    history.enter(&ledger).await;
    let settle = async || behind.settle(PartitionId(0), &history.log).await.map(drop);
    let deposit = async || {
        behind
            .deposit(Uuid::from_u128(7), &user("ann"), cny(5))
            .await
    };
    let settled = async || ledger.settled(PartitionId(0)).await == Ok(history.head());
    let deposited = async || {
        let balances = ledger.balances(&user("ann")).await.unwrap();
        balances
            .first()
            .is_some_and(|balance| balance.available == cny(5))
    };
    let mut results = Vec::new();
    for what in [true, false] {
        let stranger = S::hold_commits(&url).await;
        let lost = async {
            until("the commit to be under way", async || {
                S::commits(&url).await == 1
            })
            .await;
            proxy.drop_responses().await;
            S::let_commits_go(stranger).await;
            until("the commit to be kept", async || {
                if what {
                    settled().await
                } else {
                    deposited().await
                }
            })
            .await;
            // A kept commit may not be answered yet.
            proxy.cut().await;
            proxy.pass().await;
        };
        let under_way = async || {
            if what {
                settle().await
            } else {
                deposit().await
            }
        };
        results.push(tokio::join!(under_way(), lost).0);
    }
    for result in results {
        assert!(
            matches!(result, Err(LedgerError::Uncertain { .. })),
            "{result:?}"
        );
    }
    assert_eq!((settle().await, deposit().await), (Ok(()), Ok(())));
    history.check(&ledger).await;
    audit::<S>(&url).await;
    assert_eq!(S::count(&url, "SELECT count(*) FROM deposits").await, 2);
}

/// A cancelled call stops nothing: the work is completed, and no transaction stays open after it.
async fn a_caller_who_goes_away_leaves_nothing_open<S: Server>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = ledger(&url).await;
    let history = History::of(0, 40);
    history.enter(&ledger).await;
    let partition = history.partition;
    ledger.settle(partition, &history.log[..1]).await.unwrap();
    let mut stranger = S::stranger(&url).await;
    S::has(&mut stranger, "UPDATE settled SET seq = seq + 0").await;
    tokio::select! {
        settled = ledger.settle(partition, &history.log) => panic!("{settled:?}"),
        () = until("settlement to wait", async || S::waiting(&url).await > 0) => {}
    }
    S::has(&mut stranger, "COMMIT").await;
    drop(stranger);
    let reached = ledger
        .await_settled(partition, history.head(), WAIT_MAX)
        .await;
    assert_eq!(reached, Ok(true));

    // Cancels calls at random points.
    let mut given = 0;
    for n in 0..200_u64 {
        let id = Uuid::from_u128(1_000 + u128::from(n));
        let name = user("ann");
        let deposit = ledger.deposit(id, &name, cny(1));
        let patience = Duration::from_micros(n * 20);
        drop(tokio::time::timeout(patience, deposit).await);
        given += 1;
    }
    for n in 0..given {
        let id = Uuid::from_u128(1_000 + n);
        ledger.deposit(id, &user("ann"), cny(1)).await.unwrap();
    }
    until("all transactions to end", async || {
        S::transactions(&url).await == 0
    })
    .await;
    let balances = ledger.balances(&user("ann")).await.unwrap();
    assert_eq!(balances[0].available, cny(given as i64));
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

/// Sessions that begin while the database is read-only stay read-only. The ledger closes them and writes again in new
/// ones, although every connection of the pool is always in use.
async fn a_database_that_was_read_only_is_written_again<S: Server>() {
    let server = S::start();
    let url = server.fresh().await;
    let [read_only, writable] = S::READ_ONLY;
    S::execute(&url, read_only).await;
    let ledger = hasty(&url).await;
    for deposited in deposits_of(&ledger, 1).await {
        assert!(is_unavailable(&deposited), "{deposited:?}");
    }
    S::execute(&url, writable).await;
    for deposited in deposits_of(&ledger, 101).await {
        assert_eq!(deposited, Ok(()));
    }
}

/// Makes twice as many concurrent deposits as the pool has connections.
async fn deposits_of(ledger: &Arc<dyn Ledger>, from: u128) -> Vec<Result<(), LedgerError>> {
    let at_once = (from..from + 8).map(|n| {
        let ledger = Arc::clone(ledger);
        let deposit = async move {
            let ann = user("ann");
            ledger.deposit(Uuid::from_u128(n), &ann, cny(1)).await
        };
        tokio::spawn(deposit)
    });
    let mut deposited = Vec::new();
    for deposit in at_once.collect::<Vec<_>>() {
        deposited.push(deposit.await.unwrap());
    }
    deposited
}

/// A demoted primary refuses writes of its old sessions. All of them are closed, idle ones too, because the address may
/// lead to another server by now.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_demoted_server_are_closed() {
    let server = <MariaDb as Server>::start();
    let url = server.fresh().await;
    // The superuser can also write to a replica.
    let app = "CREATE USER app@'%'; GRANT ALL ON *.* TO app@'%'; \
                REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM app@'%'";
    MariaDb::execute(&url, app).await;
    let ledger = hasty(&url.replace("root@", "app@")).await;
    for deposited in deposits_of(&ledger, 1).await {
        assert_eq!(deposited, Ok(()));
    }
    const LAST: &str = "SELECT CAST(max(id) AS SIGNED) FROM information_schema.processlist";
    const FIRST: &str = "SELECT CAST(coalesce(min(id), 1 << 40) AS SIGNED) \
                         FROM information_schema.processlist WHERE user = 'app'";
    let last = MariaDb::count(&url, LAST).await;
    MariaDb::execute(&url, "SET GLOBAL read_only = 1").await;
    for deposited in deposits_of(&ledger, 101).await {
        assert!(is_unavailable(&deposited), "{deposited:?}");
    }
    until("the old sessions to end", async || {
        // The pool closes an idle session when it is acquired.
        drop(deposits_of(&ledger, 201).await);
        MariaDb::count(&url, FIRST).await > last
    })
    .await;
    MariaDb::execute(&url, "SET GLOBAL read_only = 0").await;
    for deposited in deposits_of(&ledger, 301).await {
        assert_eq!(deposited, Ok(()));
    }
}

/// The server ends all sessions while they are in use: the work is done in new sessions.
#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_are_replaced() {
    let server = <Postgres as Databases>::shared();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = 'qiang'";
    for round in 1..=20 {
        let deposits = tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move { deposits_of(&ledger, round * 100).await }
        });
        Postgres::count(&url, end).await;
        for deposited in deposits.await.unwrap() {
            // A commit in flight may have been kept.
            let known = matches!(deposited, Ok(()) | Err(LedgerError::Uncertain { .. }));
            assert!(known || is_unavailable(&deposited), "{deposited:?}");
        }
        for deposited in deposits_of(&ledger, round * 100).await {
            assert_eq!(deposited, Ok(()), "round {round}");
        }
    }
    let balances = ledger.balances(&user("ann")).await.unwrap();
    assert_eq!(balances[0].available, cny(20 * 8));
}

fn is_unavailable(deposited: &Result<(), LedgerError>) -> bool {
    matches!(deposited, Err(LedgerError::Unavailable { .. }))
}

crate::on_each_server! {
    a_killed_server_loses_and_doubles_nothing,
    a_server_that_is_down_is_unavailable,
    a_silent_server_is_given_up,
    work_that_is_given_up_leaves_nothing_open,
    a_commit_without_an_answer_is_uncertain,
    a_caller_who_goes_away_leaves_nothing_open,
    a_database_that_was_read_only_is_written_again,
}
