//! Entries that a ledger refuses. They are quarantined with their dependent entries, and the rest is settled.

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Phase,
    event::{Entry, Event, Seq},
    id::PaymentRef,
    money::Money,
    order::OrderState,
    ports::{LedgerError, Payout, QuarantineCount, RefundBalanceQuery},
    split::SplitRule,
};

use super::Fixture;
use crate::campaign::{currency, id, red_packet, sale, user};

const WHY: &str = "requested by the case";

fn count(refused: u64, waiting: u64) -> QuarantineCount {
    QuarantineCount { refused, waiting }
}

/// Settles a shard up to an entry, and quarantines that entry.
async fn quarantine(case: &Fixture, part: usize, seq: Seq) {
    case.settle(part, seq - 1, 0).await;
    let (partition, entry) = (case.partition(part), &case.log(part)[seq as usize - 1]);
    let kept = case.ledger().quarantine(partition, entry, WHY).await;
    assert_eq!(kept, Ok(seq));
    assert_eq!(case.settled(part).await, seq);
}

async fn redrive(case: &Fixture, part: usize, seq: Seq) -> Result<bool, LedgerError> {
    case.ledger().redrive(case.partition(part), seq).await
}

/// A packet cannot close in the ledger while the grant of one of its shares is quarantined.
pub async fn money_waits_for_the_quarantined_share(case: &mut Fixture) {
    let packet = case.open(&red_packet(900, 9, SplitRule::Equal)).await;
    let users = [
        case.somebody(0, 0),
        case.somebody(0, 1),
        case.somebody(0, 2),
    ];
    for user in &users {
        case.granted(packet.one(user));
    }
    case.act(packet.id, CampaignAction::Close);
    // The log of the shard: opened, granted three times, ended, closed.
    quarantine(case, 0, 3).await;
    for part in [0, 1, 2] {
        case.settle_all(part).await;
    }
    let balances = [case.balance(&users[0]).await, case.balance(&users[1]).await];
    assert_eq!(balances, [100, 0]);
    assert_eq!(
        case.balance(&users[2]).await,
        100,
        "the other user has the share"
    );
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(1, 1)), "the close waits");
    assert!(
        redrive(case, 0, 6).await.is_err(),
        "the close cannot be settled before the grant"
    );
    assert_eq!(redrive(case, 0, 3).await, Ok(true));
    assert_eq!(case.balance(&users[1]).await, 100);
    assert_eq!(redrive(case, 0, 6).await, Ok(true));
    assert_eq!(
        redrive(case, 0, 6).await,
        Ok(false),
        "the close is settled already"
    );
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(0, 0)));
    case.compare().await;
}

/// Later entries of an order wait for the order. Other orders do not wait.
pub async fn an_order_waits_only_for_itself(case: &mut Fixture) {
    let sale = case.open(&sale(9)).await;
    let (first, second) = (case.somebody(0, 0), case.somebody(0, 1));
    let one = case.granted(sale.one(&first)).order_id();
    let other = case.granted(sale.one(&second)).order_id();
    case.pay(one, "p1");
    case.pay(other, "p2");
    case.pay(one, "p3"); // paid twice
    // The log: opened, granted twice, paid twice, refund due.
    quarantine(case, 0, 2).await;
    case.settle_all(0).await;
    let list = case.ledger().list_quarantined(None, 10).await.unwrap();
    let seqs: Vec<_> = list
        .iter()
        .map(|row| (row.entry.seq, row.waits_for))
        .collect();
    assert_eq!(seqs, [(2, None), (4, Some(2)), (6, Some(4))]);
    assert_eq!(list[0].reason, WHY);
    assert_eq!(list[0].entry, case.log(0)[1]);
    assert_eq!(case.balance("owner").await, 100, "the other order is paid");
    for seq in [6, 4] {
        assert!(redrive(case, 0, seq).await.is_err());
    }
    for seq in [2, 4, 6] {
        assert_eq!(redrive(case, 0, seq).await, Ok(true));
    }
    case.settle_all(1).await;
    case.settle_all(2).await;
    case.compare().await;
}

/// If the opening of a shard is quarantined, all its entries wait. Other shards and other campaigns do not.
pub async fn a_part_waits_for_its_opening(case: &mut Fixture) {
    let (spread, other) = (case.open(&sale(9)).await, case.open(&sale(9)).await);
    for part in [0, 1] {
        let user = case.somebody(part, 0);
        case.granted(spread.one(&user));
        case.granted(other.one(&user));
    }
    for part in [1, 2] {
        case.settle_all(part).await;
    }
    // The log: opened twice, granted twice.
    quarantine(case, 0, 1).await;
    case.settle_all(0).await;
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(1, 1)), "the grant waits");
    let granted = [
        case.counts(spread.id).await.0,
        case.counts(other.id).await.0,
    ];
    assert_eq!(granted, [1, 2]);
    for seq in [1, 3] {
        assert_eq!(redrive(case, 0, seq).await, Ok(true));
    }
    case.compare().await;
}

/// A grant of returned units waits until their return is settled. Otherwise two users would have the units.
pub async fn units_sold_again_wait_for_their_return(case: &mut Fixture) {
    let sale = case.open(&sale(3)).await;
    let (first, second) = (case.somebody(0, 0), case.somebody(0, 1));
    let order = case.granted(sale.one(&first)).order_id();
    case.cancel(order);
    // The log: opened, granted, cancelled; then granted to the same user again and to another one.
    case.granted(sale.one(&first));
    case.granted(sale.one(&second));
    quarantine(case, 0, 2).await;
    case.settle_all(0).await;
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(1, 3)));
    for seq in [2, 3, 4, 5] {
        assert_eq!(redrive(case, 0, seq).await, Ok(true));
    }
    case.settle_all(1).await;
    case.settle_all(2).await;
    case.compare().await;
}

async fn discards(case: &Fixture) -> Vec<Seq> {
    let found = case.ledger().discards(10).await.unwrap();
    found.iter().map(|discard| discard.entry.seq).collect()
}

/// A discarded grant and the steps of its order no longer block later entries once the units have returned. This holds
/// across restarts between the steps and repetitions of each step.
pub async fn a_discarded_grant_gives_its_units_back(case: &mut Fixture) {
    let sale = case.open(&sale(3)).await;
    let users = [0, 1].map(|n| case.somebody(0, n));
    let order = case.granted(sale.one(&users[0])).order_id();
    // The log: opened, granted.
    quarantine(case, 0, 2).await;
    let partition = case.partition(0);
    for _ in 0..2 {
        assert_eq!(case.ledger().ask_discard(partition, 2).await, Ok(true));
        case.restart().await;
    }
    assert_eq!(discards(case).await, [2]);
    let listed = case.ledger().list_quarantined(None, 10).await.unwrap();
    assert!(listed[0].is_discarded, "{listed:?}");
    let not_yet = case.ledger().discard(partition, 2).await;
    assert_eq!(not_yet, Ok(false), "the order still has its units");

    // Cancelled; then granted to another user, and the shards close.
    case.cancel(order);
    let again = case.granted(sale.one(&users[1])).order_id();
    assert_eq!(case.ledger().discard(partition, 2).await, Ok(false));
    case.settle_all(0).await;
    case.restart().await;
    assert_eq!(
        case.counts(sale.id).await,
        (0, 0, 0),
        "the other grant waits"
    );
    for _ in 0..3 {
        assert_eq!(case.ledger().discard(partition, 2).await, Ok(true));
        case.restart().await;
        assert_eq!(
            discards(case).await,
            [2],
            "the waiting entries are not settled yet"
        );
    }
    let left = case.ledger().count_quarantined(partition).await;
    assert_eq!(left, Ok(count(0, 1)));
    for gone in [2, 3] {
        assert_eq!(
            redrive(case, 0, gone).await,
            Ok(false),
            "the entry is discarded"
        );
    }
    assert_eq!(redrive(case, 0, 4).await, Ok(true));
    assert_eq!(redrive(case, 0, 4).await, Ok(false), "it is settled");
    for (seq, is_discarded) in [(2, true), (3, true), (4, false)] {
        let found = case.ledger().is_discarded(partition, seq).await;
        assert_eq!(found, Ok(is_discarded), "{seq}");
    }
    for _ in 0..2 {
        case.ledger().end_discard(partition, 2).await.unwrap();
        case.restart().await;
    }
    assert_eq!(discards(case).await, []);
    assert_eq!(case.ledger().ask_discard(partition, 2).await, Ok(false));
    let left = case.ledger().count_quarantined(partition).await;
    assert_eq!(left, Ok(count(0, 0)));

    case.pay(again, "p");
    case.act(sale.id, CampaignAction::Close);
    for part in [0, 1, 2] {
        case.settle_all(part).await;
    }
    assert_eq!(case.counts(sale.id).await, (1, 2, 0));
    assert_eq!(case.balance("owner").await, 100);
    // Rows that reconciliation compares with the engine: the order was cancelled, so its units have returned.
    let rows = case.ledger().settled_rows(sale.id, 0, 10).await.unwrap();
    let rows = rows.iter().map(|row| (row.number, row.state));
    let expected = [
        (order.number, OrderState::Cancelled),
        (again.number, OrderState::Paid),
    ];
    assert!(rows.eq(expected));
    let last = case.ledger().last_order(sale.id).await;
    assert_eq!(last, Ok(again.number));
}

/// The payment of a discarded order is owed to its buyer, once. Units returned after the close go to the owner.
pub async fn a_discarded_payment_is_owed(case: &mut Fixture) {
    let sale = case.open(&sale(3)).await;
    let buyer = case.somebody(0, 0);
    let order = case.granted(sale.one(&buyer)).order_id();
    case.pay(order, "p");
    case.pay(order, "q");
    case.act(sale.id, CampaignAction::Close);
    // The log: opened, granted, paid, refund due, ended, closed.
    quarantine(case, 0, 2).await;
    let partition = case.partition(0);
    assert_eq!(case.ledger().ask_discard(partition, 2).await, Ok(true));
    case.play(Command::Return { order, part: None });
    for part in [0, 1, 2] {
        case.settle_all(part).await;
    }
    for _ in 0..2 {
        assert_eq!(case.ledger().discard(partition, 2).await, Ok(true));
    }
    assert_eq!(redrive(case, 0, 6).await, Ok(true));
    case.ledger().end_discard(partition, 2).await.unwrap();
    assert_eq!(case.counts(sale.id).await, (0, 3, 0));
    assert_eq!(case.phase(sale.id).await, Phase::Closed);
    let balances = case.ledger().balances(&user(&buyer)).await.unwrap();
    assert_eq!(balances[0].refunds_due_minor, 200);
    assert_eq!(case.balance("owner").await, 0);
    let paid = case
        .ledger()
        .settled_payments(sale.id, 0, 10)
        .await
        .unwrap();
    assert_eq!(paid.len(), 2);

    // The refund can be paid although the ledger does not have the order.
    let refund = |reference: &str, minor| Payout::Refund {
        order,
        reference: PaymentRef::new(reference).expect("well-formed"),
        amount: Money::new(minor, currency()),
    };
    let ledger = case.ledger();
    let posted = ledger.pay_out(&refund("r-1", 150)).await;
    assert!(posted.is_ok_and(|posted| posted.fresh));
    let all = RefundBalanceQuery {
        owner: None,
        after: None,
        limit: 9,
    };
    let listed = ledger.owed_orders(&all).await.unwrap();
    assert_eq!((listed.len(), listed[0].order), (1, order));
    assert_eq!(ledger.owed(order).await, Ok(vec![listed[0].owed.clone()]));

    // A repair of the engine granted the order again. That grant is not settled, and discarding it adds no refund due.
    let mut again = case.log(0)[1].clone();
    again.seq = case.log(0).len() as Seq + 1;
    let cancelled = Entry {
        seq: again.seq + 1,
        event: Event::Cancelled {
            number: order.number,
        },
        ..again.clone()
    };
    let seq = again.seq;
    let ledger = case.ledger();
    let settled = ledger.settle(partition, &[again, cancelled]).await;
    assert_eq!(settled, Ok(seq + 1));
    assert_eq!(case.counts(sale.id).await, (0, 3, 0));
    assert!(redrive(case, 0, seq).await.is_err());
    assert_eq!(ledger.ask_discard(partition, seq).await, Ok(true));
    assert_eq!(ledger.discard(partition, seq).await, Ok(true));
    assert_eq!(case.counts(sale.id).await, (0, 3, 0));
    let too_much = ledger.pay_out(&refund("r-2", 51)).await;
    assert!(
        matches!(too_much, Err(LedgerError::RefundExceedsDue { .. })),
        "{too_much:?}"
    );
    assert!(ledger.pay_out(&refund("r-3", 50)).await.is_ok());
    let left = ledger.count_quarantined(partition).await;
    assert_eq!(left, Ok(count(0, 0)));
}

/// Only refused grants of orders can be discarded: not steps of orders, shares, waiting entries, or missing entries.
pub async fn only_refused_orders_are_discarded(case: &mut Fixture) {
    let sale = case.open(&sale(9)).await;
    let packet = case.open(&red_packet(900, 9, SplitRule::Equal)).await;
    let users = [0, 1].map(|n| case.somebody(0, n));
    let order = case.granted(sale.one(&users[0])).order_id();
    case.pay(order, "p");
    case.granted(packet.one(&users[0]));
    case.granted(packet.one(&users[1]));
    // The log: opened twice, granted, paid, granted twice.
    quarantine(case, 0, 3).await;
    quarantine(case, 0, 5).await;
    case.settle_all(0).await;
    let partition = case.partition(0);
    for seq in [4, 5] {
        let refused = case.ledger().ask_discard(partition, seq).await;
        assert!(
            matches!(refused, Err(LedgerError::Damaged { .. })),
            "{seq}: {refused:?}"
        );
    }
    for seq in [6, 99] {
        assert_eq!(case.ledger().ask_discard(partition, seq).await, Ok(false));
    }
    assert_eq!(discards(case).await, []);
    // A grant without a request stays unchanged. A request for a grant that is settled later is removed.
    assert_eq!(case.ledger().discard(partition, 3).await, Ok(true));
    assert_eq!(case.ledger().ask_discard(partition, 3).await, Ok(true));
    for seq in [3, 4, 5] {
        assert_eq!(redrive(case, 0, seq).await, Ok(true));
    }
    assert_eq!(discards(case).await, []);
    for part in [1, 2] {
        case.settle_all(part).await;
    }
    case.compare().await;
}

/// Quarantined entries survive a restart. An entry is quarantined once, and only at the next position.
pub async fn quarantined_entries_are_kept(case: &mut Fixture) {
    let sale = case.open(&sale(9)).await;
    for part in [0, 1] {
        for n in 0..3 {
            let user = case.somebody(part, n);
            case.granted(sale.one(&user));
        }
        quarantine(case, part, 2).await;
    }
    case.restart().await;
    let (partition, log) = (case.partition(0), case.log(0).to_vec());
    for old in &log[..2] {
        let kept = case.ledger().quarantine(partition, old, "again").await;
        assert_eq!(kept, Ok(2), "a repetition changes nothing");
    }
    let gap = case
        .ledger()
        .quarantine(partition, &log[3], "too early")
        .await;
    assert!(matches!(gap, Err(LedgerError::Damaged { .. })), "{gap:?}");
    let all = case.ledger().list_quarantined(None, 10).await.unwrap();
    assert_eq!(all.len(), 2);
    let mut pages = Vec::new();
    while pages.len() < 3 {
        let after = pages
            .last()
            .map(|row: &qiang_core::ports::QuarantinedEntry| (row.partition, row.entry.seq));
        let page = case.ledger().list_quarantined(after, 1).await;
        match page.expect("a page").pop() {
            Some(row) => pages.push(row),
            None => break,
        }
    }
    assert_eq!(pages, all);
    for part in [0, 1, 2] {
        case.settle_all(part).await;
    }
    for part in [0, 1] {
        assert_eq!(redrive(case, part, 2).await, Ok(true));
    }
    case.compare().await;
}

/// An entry that contradicts the ledger is refused and changes nothing, neither in a run nor when it is redriven.
pub async fn a_refused_entry_stays_quarantined(case: &mut Fixture) {
    let packet = case.open(&red_packet(900, 9, SplitRule::Equal)).await;
    let user = case.somebody(0, 0);
    case.granted(packet.one(&user));
    case.settle(0, 1, 0).await;
    let mut bad = case.log(0)[1].clone();
    if let Event::Granted { amount_minor, .. } = &mut bad.event {
        *amount_minor += 1;
    }
    let partition = case.partition(0);
    let refused = case.ledger().settle(partition, &[bad.clone()]).await;
    assert!(
        matches!(refused, Err(LedgerError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(case.settled(0).await, 1);
    assert_eq!(case.ledger().quarantine(partition, &bad, WHY).await, Ok(2));
    let again = redrive(case, 0, 2).await;
    assert!(
        matches!(again, Err(LedgerError::Damaged { .. })),
        "{again:?}"
    );
    assert_eq!(case.balance(&user).await, 0);
    let quarantined = case.ledger().count_quarantined(partition).await;
    assert_eq!(quarantined, Ok(count(1, 0)));
}

/// If the ledger does not have a campaign, the campaign's entries wait for the first one. Other campaigns continue.
pub async fn an_unknown_campaign_holds_up_no_other(case: &mut Fixture) {
    let partition = case.partition(0);
    let entry = |seq, number| Entry {
        seq,
        at: crate::campaign::OPENS,
        campaign: id(77),
        event: Event::Cancelled { number },
    };
    let first = [entry(1, 1)];
    let refused = case.ledger().settle(partition, &first).await;
    assert!(
        matches!(refused, Err(LedgerError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(
        case.ledger().quarantine(partition, &first[0], WHY).await,
        Ok(1)
    );
    let more = [entry(2, 2), entry(3, 3)];
    assert_eq!(case.ledger().settle(partition, &more).await, Ok(3));
    let quarantined = case.ledger().count_quarantined(partition).await;
    assert_eq!(quarantined, Ok(count(1, 2)));
    assert!(redrive(case, 0, 1).await.is_err());
}
