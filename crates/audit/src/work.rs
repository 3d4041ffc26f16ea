//! Tests how the work of the checks grows with the number of campaigns.

use std::{collections::BTreeMap, path::Path, time::Duration};

use futures_util::future::join_all;
use qiang_core::{
    book::{Command, PaymentOutcome, Reply, Setup},
    event::PartitionId,
    id::PaymentRef,
    money::Money,
    payment::ReceivedMoney,
    ports::{AccountStore as _, CampaignStore as _, Engine as _, SettlementStore as _},
    split::SplitRule,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, red_packet, sale, user},
};
use rusqlite::{Batch, StatementStatus, fallible_iterator::FallibleIterator as _};

use super::*;

/// Creates a file with this number of packets and sales, and with all kinds of steps.
async fn fill(path: &Path, campaigns: u64) {
    let engine = Embedded::open(path, ManualClock::new(OPENS)).unwrap();
    let fund = |n: u64| {
        let (funds, id) = (Money::new(100, currency()), uuid::Uuid::from_u128(n.into()));
        let (engine, owner) = (&engine, user(&format!("owner-{n}")));
        async move { engine.deposit(id, &owner, funds).await.unwrap() }
    };
    join_all((0..campaigns).map(fund)).await;
    let run = |n: u64| {
        let owner = format!("owner-{n}");
        let setup = match n % 2 {
            0 => red_packet(100, 2, SplitRule::Equal),
            _ => sale(2).limit(2),
        };
        live(&engine, setup.owner(&owner).setup(n))
    };
    join_all((0..campaigns).map(run)).await;
    let (head, _) = engine.positions();
    let settled = engine.await_settled(PartitionId(0), head, Duration::from_secs(60));
    assert_eq!(settled.await, Ok(true));
    engine.close();
}

/// Two users claim. One order is paid twice, and the other is cancelled.
async fn live(engine: &Embedded, setup: Setup) {
    let (campaign, is_sale) = (
        Target::of(&setup),
        setup.campaign.rules.red_packet().is_none(),
    );
    engine.create(&setup).await.unwrap();
    engine.submit(Command::Open(Box::new(setup))).await.unwrap();
    for name in ["ann", "bob"] {
        engine.claim(campaign.one(name)).await.unwrap();
    }
    if is_sale {
        for payment in ["first", "second"] {
            let paid = engine.submit(Command::Pay {
                order: campaign.order(1),
                payment: PaymentRef::new(payment).unwrap(),
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            });
            let Reply::Payment(outcome, _) = paid.await.unwrap() else {
                panic!("another reply");
            };
            let is_first = payment == "first";
            assert_eq!(outcome == PaymentOutcome::Paid, is_first, "{outcome:?}");
        }
        let order = campaign.order(2);
        engine
            .submit(Command::Cancel { order, part: None })
            .await
            .unwrap();
    }
}

/// SQLite's steps for each check and for the preludes, on a file with this number of campaigns.
fn steps(campaigns: u64) -> BTreeMap<String, i64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qiang.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(fill(&path, campaigns));
    let ledger = open::open(&path).unwrap();
    begin(&ledger.conn).unwrap();
    let mut steps = BTreeMap::new();
    let mut count = |needs: Needs, name: &str, sql: &str| {
        let mut statements = Batch::new(&ledger.conn, sql).enumerate();
        while let Some((n, mut statement)) = statements.next().unwrap() {
            let mut rows = statement.raw_query();
            let mut found = 0;
            while rows.next().unwrap().is_some() {
                found += 1;
            }
            drop(rows);
            // The second statement of a check returns offending rows. Checks for a ledger alone may return rows here,
            // because this file has a log. Their steps are counted anyway.
            assert!(n == 0 || found == 0 || needs == Needs::LedgerOnly, "{name}");
            let taken = statement.get_status(StatementStatus::VmStep);
            steps.insert(format!("{name}, statement {n}"), taken.into());
        }
    };
    count(Needs::Ledger, "prelude", PRELUDE);
    count(
        Needs::LedgerOnly,
        "prelude of ledgers alone",
        LEDGER_PRELUDE,
    );
    for (needs, name, sql) in SQL_CHECKS {
        // The other checks need more than this file has.
        if matches!(
            needs,
            Needs::Ledger | Needs::Log | Needs::LedgerOnly | Needs::File
        ) {
            count(needs, name, sql);
        }
    }
    steps
}

/// Four times as many campaigns take about four times as many steps, not sixteen times. So an audit of a million ends.
#[test]
fn the_work_of_a_check_grows_with_what_there_is() {
    let (few, many) = (steps(60), steps(240));
    assert_eq!(few.len(), many.len());
    for (what, few) in few {
        let many = many[&what];
        assert!(many < 7 * few.max(1_000), "{what}: {few} steps, and {many}");
    }
}
