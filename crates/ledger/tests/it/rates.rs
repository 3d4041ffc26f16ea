//! Settlement rate in entries per second. A measurement, not a test: run it manually, optimised, one at a time: `cargo
//! test --release -p qiang-ledger --features servers --test rates -- --ignored --nocapture --test-threads 1`

use std::{sync::Arc, time::Instant};

use crate::common::{MariaDb, Postgres, Server, open};
use qiang_core::{
    book::{Book, Command, Setup},
    event::{Entry, PartitionId},
    money::Money,
    split::SplitRule,
};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target, currency, red_packet, sale, user},
};
use uuid::Uuid;

/// Grants in each log.
const GRANTS: u32 = 100_000;

/// Makes a log in which each user claims once, from these campaigns in turn.
fn history(setups: &[Setup]) -> Vec<Entry> {
    let (mut book, mut log) = (Book::new(), Vec::new());
    for setup in setups {
        let open = Command::Open(Box::new(setup.clone()));
        book.apply(OPENS, &open, &mut log).unwrap();
    }
    for n in 0..GRANTS {
        let setup = &setups[n as usize % setups.len()];
        let claim = Target::of(setup).one(&format!(
            "user-{:06}",
            (u64::from(n) * 7_919) % u64::from(GRANTS)
        ));
        book.claim(OPENS, &claim, &mut log).unwrap();
    }
    assert!(log.len() as u32 >= GRANTS);
    log
}

/// Settles one such log in each of `partitions` partitions concurrently.
async fn measure<S: Server>(
    server: &S,
    what: &str,
    builder: &Builder,
    campaigns: u64,
    partitions: u16,
    run: usize,
) {
    let ledger = open(&server.fresh().await, ManualClock::new(OPENS)).await;
    let money = Money::new(1_000_000_000, currency());
    let owner = user("owner");
    let deposit = ledger.deposit(Uuid::from_u128(1), &owner, money);
    deposit.await.unwrap();
    let mut tasks = Vec::new();
    let mut logs = Vec::new();
    for partition in 0..partitions {
        let first = u64::from(partition) * campaigns + 1;
        let setups: Vec<_> = (first..first + campaigns)
            .map(|n| builder.setup(n))
            .collect();
        for setup in &setups {
            ledger.create(setup).await.unwrap();
        }
        logs.push((PartitionId(partition), history(&setups)));
    }
    let entries: usize = logs.iter().map(|(_, log)| log.len()).sum();
    let started = Instant::now();
    for (partition, log) in logs {
        let ledger = Arc::clone(&ledger);
        tasks.push(tokio::spawn(async move {
            for run in log.chunks(run) {
                ledger.settle(partition, run).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let rate = entries as f64 / started.elapsed().as_secs_f64();
    println!("{what:22} {partitions} partitions, {run:5} a transaction: {rate:8.0} entries/s");
}

async fn rates<S: Server>() {
    let server = S::start_with(&S::MEMORY);
    let packet = red_packet(
        i64::from(GRANTS) * 100,
        GRANTS,
        SplitRule::DoubleAverage { min: 1 },
    );
    let small = red_packet(10_000, 100, SplitRule::Equal);
    for run in [1_000, 2_000, 4_000] {
        measure(&server, "one red packet", &packet, 1, 1, run).await;
        measure(&server, "one sale", &sale(GRANTS), 1, 1, run).await;
        measure(&server, "1,000 small red packets", &small, 1_000, 1, run).await;
    }
    measure(&server, "red packets", &packet, 1, 2, 2_000).await;
    measure(&server, "sales", &sale(GRANTS), 1, 2, 2_000).await;
}

#[ignore = "a measurement"]
#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    rates::<Postgres>().await;
}

#[ignore = "a measurement"]
#[tokio::test(flavor = "multi_thread")]
async fn mariadb() {
    rates::<MariaDb>().await;
}
