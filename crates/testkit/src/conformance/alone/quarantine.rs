//! What a ledger makes of entries that it refuses: they are set aside with what follows from them; the rest goes on.

use qiang_core::{
    book::CampaignAction,
    event::{Entry, Event, Seq},
    ports::{LedgerError, QuarantineCount},
    split::SplitRule,
};

use super::{Bench, LedgerSubject};
use crate::campaign::{id, red_packet, sale};

const WHY: &str = "a case has asked for it";

fn count(refused: u64, waiting: u64) -> QuarantineCount {
    QuarantineCount { refused, waiting }
}

/// Sets the entry at a place aside that the part has come to.
async fn quarantine<L: LedgerSubject>(bench: &Bench<L>, part: usize, seq: Seq) {
    bench.settle(part, seq - 1, 0).await;
    let (partition, entry) = (bench.partition(part), &bench.log(part)[seq as usize - 1]);
    let kept = bench.ledger().quarantine(partition, entry, WHY).await;
    assert_eq!(kept, Ok(seq));
    assert_eq!(bench.settled(part).await, seq);
}

async fn redrive<L: LedgerSubject>(
    bench: &Bench<L>,
    part: usize,
    seq: Seq,
) -> Result<bool, LedgerError> {
    bench.ledger().redrive(bench.partition(part), seq).await
}

/// A packet is not closed while a share of it is somebody's whose grant is set aside.
pub async fn money_waits_for_the_share_that_is_set_aside<L: LedgerSubject>(bench: &mut Bench<L>) {
    let packet = bench.open(&red_packet(900, 9, SplitRule::Equal)).await;
    let users = [
        bench.somebody(0, 0),
        bench.somebody(0, 1),
        bench.somebody(0, 2),
    ];
    for user in &users {
        bench.granted(packet.one(user));
    }
    bench.act(packet.id, CampaignAction::Close);
    // Opened, granted three times, ended, closed.
    quarantine(bench, 0, 3).await;
    for part in [0, 1, 2] {
        bench.settle_all(part).await;
    }
    let balances = [
        bench.balance(&users[0]).await,
        bench.balance(&users[1]).await,
    ];
    assert_eq!(balances, [100, 0]);
    assert_eq!(
        bench.balance(&users[2]).await,
        100,
        "the others have theirs"
    );
    let aside = bench.ledger().count_quarantined(bench.partition(0)).await;
    assert_eq!(aside, Ok(count(1, 1)), "the close waits");
    assert!(redrive(bench, 0, 6).await.is_err(), "not before the grant");
    assert_eq!(redrive(bench, 0, 3).await, Ok(true));
    assert_eq!(bench.balance(&users[1]).await, 100);
    assert_eq!(redrive(bench, 0, 6).await, Ok(true));
    assert_eq!(redrive(bench, 0, 6).await, Ok(false), "it is settled");
    let aside = bench.ledger().count_quarantined(bench.partition(0)).await;
    assert_eq!(aside, Ok(count(0, 0)));
    bench.compare().await;
}

/// What is done with an order waits for the order; other orders do not.
pub async fn an_order_waits_for_itself_alone<L: LedgerSubject>(bench: &mut Bench<L>) {
    let sale = bench.open(&sale(9)).await;
    let (first, second) = (bench.somebody(0, 0), bench.somebody(0, 1));
    let one = bench.granted(sale.one(&first)).order_id();
    let other = bench.granted(sale.one(&second)).order_id();
    bench.pay(one, "p1");
    bench.pay(other, "p2");
    bench.pay(one, "p3"); // paid twice
    // Opened, granted twice, paid twice, refund due.
    quarantine(bench, 0, 2).await;
    bench.settle_all(0).await;
    let list = bench.ledger().list_quarantined(None, 10).await;
    let list = list.expect("the ledger lists what is set aside");
    let seqs: Vec<_> = list
        .iter()
        .map(|row| (row.entry.seq, row.waits_for))
        .collect();
    assert_eq!(seqs, [(2, None), (4, Some(2)), (6, Some(4))]);
    assert_eq!(list[0].reason, WHY);
    assert_eq!(list[0].entry, bench.log(0)[1]);
    assert_eq!(bench.balance("owner").await, 100, "one is paid");
    for seq in [6, 4] {
        assert!(redrive(bench, 0, seq).await.is_err());
    }
    for seq in [2, 4, 6] {
        assert_eq!(redrive(bench, 0, seq).await, Ok(true));
    }
    bench.settle_all(1).await;
    bench.settle_all(2).await;
    bench.compare().await;
}

/// A part whose opening is set aside waits as a whole, and holds up neither the other parts nor other campaigns.
pub async fn a_part_waits_for_its_opening<L: LedgerSubject>(bench: &mut Bench<L>) {
    let (spread, other) = (bench.open(&sale(9)).await, bench.open(&sale(9)).await);
    for part in [0, 1] {
        let user = bench.somebody(part, 0);
        bench.granted(spread.one(&user));
        bench.granted(other.one(&user));
    }
    for part in [1, 2] {
        bench.settle_all(part).await;
    }
    // Opened twice, granted twice.
    quarantine(bench, 0, 1).await;
    bench.settle_all(0).await;
    let aside = bench.ledger().count_quarantined(bench.partition(0)).await;
    assert_eq!(aside, Ok(count(1, 1)), "the grant waits");
    let granted = [
        bench.counts(spread.id).await.0,
        bench.counts(other.id).await.0,
    ];
    assert_eq!(granted, [1, 2]);
    for seq in [1, 3] {
        assert_eq!(redrive(bench, 0, seq).await, Ok(true));
    }
    bench.compare().await;
}

/// Units that came back are sold again: that waits for their coming back, or they would be with two.
pub async fn what_is_sold_again_waits_for_its_coming_back<L: LedgerSubject>(bench: &mut Bench<L>) {
    let sale = bench.open(&sale(3)).await;
    let (first, second) = (bench.somebody(0, 0), bench.somebody(0, 1));
    let order = bench.granted(sale.one(&first)).order_id();
    bench.cancel(order);
    // Opened, granted, cancelled; then granted to the same user again, and to another one.
    bench.granted(sale.one(&first));
    bench.granted(sale.one(&second));
    quarantine(bench, 0, 2).await;
    bench.settle_all(0).await;
    let aside = bench.ledger().count_quarantined(bench.partition(0)).await;
    assert_eq!(aside, Ok(count(1, 3)));
    for seq in [2, 3, 4, 5] {
        assert_eq!(redrive(bench, 0, seq).await, Ok(true));
    }
    bench.settle_all(1).await;
    bench.settle_all(2).await;
    bench.compare().await;
}

/// What is set aside survives a restart, is set aside once, and only behind the position.
pub async fn what_is_set_aside_is_kept<L: LedgerSubject>(bench: &mut Bench<L>) {
    let sale = bench.open(&sale(9)).await;
    for part in [0, 1] {
        for n in 0..3 {
            let user = bench.somebody(part, n);
            bench.granted(sale.one(&user));
        }
        quarantine(bench, part, 2).await;
    }
    bench.restart().await;
    let (partition, log) = (bench.partition(0), bench.log(0).to_vec());
    for old in &log[..2] {
        let kept = bench.ledger().quarantine(partition, old, "again").await;
        assert_eq!(kept, Ok(2), "nothing changes");
    }
    let gap = bench
        .ledger()
        .quarantine(partition, &log[3], "too early")
        .await;
    assert!(matches!(gap, Err(LedgerError::Damaged { .. })), "{gap:?}");
    let all = bench.ledger().list_quarantined(None, 10).await;
    let all = all.expect("the ledger lists what is set aside");
    assert_eq!(all.len(), 2);
    let mut pages = Vec::new();
    while pages.len() < 3 {
        let after = pages
            .last()
            .map(|row: &qiang_core::ports::QuarantinedEntry| (row.partition, row.entry.seq));
        let page = bench.ledger().list_quarantined(after, 1).await;
        match page.expect("a page").pop() {
            Some(row) => pages.push(row),
            None => break,
        }
    }
    assert_eq!(pages, all);
    for part in [0, 1, 2] {
        bench.settle_all(part).await;
    }
    for part in [0, 1] {
        assert_eq!(redrive(bench, part, 2).await, Ok(true));
    }
    bench.compare().await;
}

/// An entry that contradicts the books is refused and changes nothing, neither in a run nor when it is driven again.
pub async fn a_refused_entry_stays_aside<L: LedgerSubject>(bench: &mut Bench<L>) {
    let packet = bench.open(&red_packet(900, 9, SplitRule::Equal)).await;
    let user = bench.somebody(0, 0);
    bench.granted(packet.one(&user));
    bench.settle(0, 1, 0).await;
    let mut bad = bench.log(0)[1].clone();
    if let Event::Granted { amount_minor, .. } = &mut bad.event {
        *amount_minor += 1;
    }
    let partition = bench.partition(0);
    let refused = bench.ledger().settle(partition, &[bad.clone()]).await;
    assert!(
        matches!(refused, Err(LedgerError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(bench.settled(0).await, 1);
    assert_eq!(bench.ledger().quarantine(partition, &bad, WHY).await, Ok(2));
    let again = redrive(bench, 0, 2).await;
    assert!(
        matches!(again, Err(LedgerError::Damaged { .. })),
        "{again:?}"
    );
    assert_eq!(bench.balance(&user).await, 0);
    let aside = bench.ledger().count_quarantined(partition).await;
    assert_eq!(aside, Ok(count(1, 0)));
}

/// All entries of a campaign that the ledger does not have wait for the first, and hold up no other campaign.
pub async fn an_unknown_campaign_holds_up_no_other<L: LedgerSubject>(bench: &mut Bench<L>) {
    let partition = bench.partition(0);
    let entry = |seq, number| Entry {
        seq,
        at: crate::campaign::OPENS,
        campaign: id(77),
        event: Event::Cancelled { number },
    };
    let first = [entry(1, 1)];
    let refused = bench.ledger().settle(partition, &first).await;
    assert!(
        matches!(refused, Err(LedgerError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(
        bench.ledger().quarantine(partition, &first[0], WHY).await,
        Ok(1)
    );
    let more = [entry(2, 2), entry(3, 3)];
    assert_eq!(bench.ledger().settle(partition, &more).await, Ok(3));
    let aside = bench.ledger().count_quarantined(partition).await;
    assert_eq!(aside, Ok(count(1, 2)));
    assert!(redrive(bench, 0, 1).await.is_err());
}
