//! How fast settlement is: `cargo test --release -p qiang-ledger --features servers --test rates -- --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Instant;

use common::{MariaDb, Postgres, Server, open};
use qiang_core::{
    book::{Book, Command, Setup},
    event::{Entry, PartitionId},
    money::Money,
    split::SplitRule,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, red_packet, sale, user},
};
use uuid::Uuid;

const GRANTS: u32 = 60_000;

fn history(setups: &[Setup]) -> Vec<Entry> {
    let (mut book, mut log) = (Book::new(), Vec::new());
    for setup in setups {
        book.apply(OPENS, &Command::Open(Box::new(setup.clone())), &mut log)
            .unwrap();
    }
    for n in 0..GRANTS {
        let setup = &setups[n as usize % setups.len()];
        let claim = Target::of(setup).one(&format!("user-{:06}", n * 7919 % GRANTS));
        book.claim(OPENS, &claim, &mut log).unwrap();
    }
    assert!(log.len() as u32 >= GRANTS);
    log
}

async fn rate<S: Server>(what: &str, setups: &[Setup], batch: usize) {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = open(&url, ManualClock::new(OPENS)).await;
    let money = Money::new(1_000_000_000, currency());
    ledger
        .deposit(Uuid::from_u128(1), &user("owner"), money)
        .await
        .unwrap();
    for setup in setups {
        ledger.create(setup).await.unwrap();
    }
    let log = history(setups);
    let started = Instant::now();
    for run in log.chunks(batch) {
        ledger.settle(PartitionId(0), run).await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    let name = std::any::type_name::<S>().rsplit("::").next().unwrap();
    println!(
        "{name:9} {what:12} by {batch:5}: {:8.0} entries/s",
        log.len() as f64 / seconds
    );
}

async fn rates<S: Server>() {
    let packet = red_packet(
        i64::from(GRANTS) * 100,
        GRANTS,
        SplitRule::DoubleAverage { min: 1 },
    );
    let many: Vec<_> = (1..=1_000)
        .map(|n| red_packet(6_000, 60, SplitRule::Equal).setup(n))
        .collect();
    for batch in [1_000, 2_000, 4_000] {
        rate::<S>("packet", &[packet.setup(1)], batch).await;
        rate::<S>("sale", &[sale(GRANTS).setup(1)], batch).await;
        rate::<S>("1000 packets", &many, batch).await;
    }
}

#[ignore]
#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    rates::<Postgres>().await;
}

#[ignore]
#[tokio::test(flavor = "multi_thread")]
async fn mariadb() {
    rates::<MariaDb>().await;
}
