//! Entries that a ledger refuses: they are quarantined with what depends on them; the rest is settled.

use qiang_core::{
    book::CampaignAction,
    event::{Entry, Event, Seq},
    ports::{LedgerError, QuarantineCount},
    split::SplitRule,
};

use super::{Fixture, LedgerSubject};
use crate::campaign::{id, red_packet, sale};

const WHY: &str = "a case has asked for it";

fn count(refused: u64, waiting: u64) -> QuarantineCount {
    QuarantineCount { refused, waiting }
}

/// Settles a part up to an entry, and quarantines that entry.
async fn quarantine<L: LedgerSubject>(case: &Fixture<L>, part: usize, seq: Seq) {
    case.settle(part, seq - 1, 0).await;
    let (partition, entry) = (case.partition(part), &case.log(part)[seq as usize - 1]);
    let kept = case.ledger().quarantine(partition, entry, WHY).await;
    assert_eq!(kept, Ok(seq));
    assert_eq!(case.settled(part).await, seq);
}

async fn redrive<L: LedgerSubject>(
    case: &Fixture<L>,
    part: usize,
    seq: Seq,
) -> Result<bool, LedgerError> {
    case.ledger().redrive(case.partition(part), seq).await
}

/// A packet is not closed while the grant of one of its shares is quarantined.
pub async fn money_waits_for_the_quarantined_share<L: LedgerSubject>(case: &mut Fixture<L>) {
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
    // Opened, granted three times, ended, closed.
    quarantine(case, 0, 3).await;
    for part in [0, 1, 2] {
        case.settle_all(part).await;
    }
    let balances = [case.balance(&users[0]).await, case.balance(&users[1]).await];
    assert_eq!(balances, [100, 0]);
    assert_eq!(case.balance(&users[2]).await, 100, "the others have theirs");
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(1, 1)), "the close waits");
    assert!(redrive(case, 0, 6).await.is_err(), "not before the grant");
    assert_eq!(redrive(case, 0, 3).await, Ok(true));
    assert_eq!(case.balance(&users[1]).await, 100);
    assert_eq!(redrive(case, 0, 6).await, Ok(true));
    assert_eq!(redrive(case, 0, 6).await, Ok(false), "it is settled");
    let quarantined = case.ledger().count_quarantined(case.partition(0)).await;
    assert_eq!(quarantined, Ok(count(0, 0)));
    case.compare().await;
}

/// Later entries of an order wait for the order; other orders do not.
pub async fn an_order_waits_only_for_itself<L: LedgerSubject>(case: &mut Fixture<L>) {
    let sale = case.open(&sale(9)).await;
    let (first, second) = (case.somebody(0, 0), case.somebody(0, 1));
    let one = case.granted(sale.one(&first)).order_id();
    let other = case.granted(sale.one(&second)).order_id();
    case.pay(one, "p1");
    case.pay(other, "p2");
    case.pay(one, "p3"); // paid twice
    // Opened, granted twice, paid twice, refund due.
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
    assert_eq!(case.balance("owner").await, 100, "one is paid");
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

/// A part whose opening is quarantined waits as a whole, and delays neither the other parts nor other campaigns.
pub async fn a_part_waits_for_its_opening<L: LedgerSubject>(case: &mut Fixture<L>) {
    let (spread, other) = (case.open(&sale(9)).await, case.open(&sale(9)).await);
    for part in [0, 1] {
        let user = case.somebody(part, 0);
        case.granted(spread.one(&user));
        case.granted(other.one(&user));
    }
    for part in [1, 2] {
        case.settle_all(part).await;
    }
    // Opened twice, granted twice.
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

/// A grant of returned units waits until their return is settled; otherwise two users would have them.
pub async fn units_sold_again_wait_for_their_return<L: LedgerSubject>(case: &mut Fixture<L>) {
    let sale = case.open(&sale(3)).await;
    let (first, second) = (case.somebody(0, 0), case.somebody(0, 1));
    let order = case.granted(sale.one(&first)).order_id();
    case.cancel(order);
    // Opened, granted, cancelled; then granted to the same user again, and to another one.
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

/// Quarantined entries survive a restart; an entry is quarantined once, and only at the next position.
pub async fn quarantined_entries_are_kept<L: LedgerSubject>(case: &mut Fixture<L>) {
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
        assert_eq!(kept, Ok(2), "nothing changes");
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
pub async fn a_refused_entry_stays_quarantined<L: LedgerSubject>(case: &mut Fixture<L>) {
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

/// All entries of a campaign that the ledger does not have wait for the first, and hold up no other campaign.
pub async fn an_unknown_campaign_holds_up_no_other<L: LedgerSubject>(case: &mut Fixture<L>) {
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
