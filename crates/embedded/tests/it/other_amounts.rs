//! Payments of other amounts in a damaged file.

use qiang_core::{
    book::{Book, Command},
    event::PartitionId,
    id::PaymentRef,
    money::Money,
    payment::ReceivedMoney,
    ports::{CampaignStore as _, Payout, PayoutStore as _, SettlementStore as _},
};
use qiang_embedded::SqliteLedger;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, sale},
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::opening::refuses;

/// An entry has an amount and a currency, or neither.
#[test]
fn payments_that_make_no_sense_are_damage() {
    let refuses = |amount: &str, note: &str| {
        let columns = "seq, at, campaign, kind, number, amount, note";
        let values = format!("9, 0, 2, 6, 1, {amount}, '{note}'");
        let entry = format!("INSERT INTO events ({columns}) VALUES ({values})");
        refuses(&entry, "entry 9 of the log: bad amount or currency");
    };
    refuses("NULL", "p EUR");
    refuses("5", "p");
    refuses("0", "p EUR");
    refuses("5", "p euro");
}

/// A refund that was paid is not due again.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_without_its_posting_counts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let open = || {
        let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS));
        ledger.unwrap_or_else(|error| panic!("{error}"))
    };
    let ledger = open();
    let setup = sale(1).setup(1);
    let (target, amount) = (Target::of(&setup), Money::new(99, currency()));
    ledger.create(&setup).await.unwrap();
    let (mut book, mut log) = (Book::new(), Vec::new());
    let opening = Command::Open(Box::new(setup));
    book.apply(OPENS, &opening, &mut log).unwrap();
    book.claim(OPENS, &target.one("ann"), &mut log).unwrap();
    let order = target.order(1);
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new("p").unwrap(),
        paid_at: None,
        received: ReceivedMoney::Other(amount),
        cancelled: 0,
    };
    book.apply(OPENS, &pay, &mut log).unwrap();
    ledger.settle(PartitionId(0), &log).await.unwrap();
    let refund = Payout::Refund {
        order,
        reference: PaymentRef::new("r").unwrap(),
        amount,
    };
    assert!(ledger.pay_out(&refund).await.unwrap().fresh);
    let owed = ledger.owed(order).await.unwrap();
    let left: Vec<_> = owed.iter().map(|owed| owed.outstanding().minor).collect();
    assert_eq!(left, [0]);
    drop(ledger);

    let file = Connection::open(&path).unwrap();
    file.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let gone = file.execute("DELETE FROM postings WHERE kind = 'refund_paid'", []);
    assert_eq!(gone, Ok(1));
    drop(file);
    assert_eq!(open().owed(order).await.unwrap(), owed);
}
