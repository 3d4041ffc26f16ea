//! Spread campaigns in a ledger that settles each shard's log separately.

use std::time::Duration;

use qiang_core::{
    book::CampaignAction,
    campaign::Phase,
    event::{Entry, Event, Seq},
    id::{CampaignId, IdempotencyKey},
    order::OrderState,
    ports::{CampaignOutline, RepairAttempt},
    split::SplitRule,
};

use super::{Fixture, fixture::PARTS};
use crate::campaign::{HOLD_MS, OPEN_MS, OPENS, red_packet, sale};

const ALL: usize = PARTS as usize;

/// A campaign is a draft until all shards have opened, paused while one is paused, and ended or closed when all are.
pub async fn the_phase_follows_the_parts(case: &mut Fixture) {
    let id = case.open(&sale(10)).await.id;
    let outline = case.ledger().campaign_outline(id).await;
    let unopened = CampaignOutline {
        parts: 1,
        is_draft: true,
    };
    assert_eq!(outline, Ok(Some(unopened)));
    for action in [
        CampaignAction::Pause,
        CampaignAction::Resume,
        CampaignAction::Close,
    ] {
        case.act(id, action);
    }
    // Each log contains: opened, paused, resumed, ended, closed.
    let expected = [
        ([1, 0, 0], Phase::Draft),
        ([3, 1, 0], Phase::Draft),
        ([3, 1, 1], Phase::Scheduled),
        ([3, 2, 1], Phase::Paused),
        ([4, 2, 3], Phase::Paused),
        ([4, 3, 3], Phase::Scheduled),
        ([5, 3, 4], Phase::Scheduled),
        ([5, 4, 4], Phase::Ended),
        ([5, 5, 4], Phase::Ended),
        ([5, 5, 5], Phase::Closed),
    ];
    for (settled, phase) in expected {
        for (part, upto) in settled.into_iter().enumerate() {
            case.settle(part, upto, 0).await;
        }
        assert_eq!(case.phase(id).await, phase, "{settled:?}");
        let outline = case.ledger().campaign_outline(id).await.unwrap();
        let is_draft = phase == Phase::Draft;
        assert_eq!(outline.map(|it| it.is_draft), Some(is_draft));
        assert_eq!(outline.map(|it| it.parts), Some(PARTS));
        case.compare().await;
    }
}

/// Units returned before the close of their order's shard are restocked; after the close they go to the owner. Closes
/// of other shards do not matter.
pub async fn units_given_back_count_where_their_part_stands(case: &mut Fixture) {
    let sale = case.open(&sale(9).limit(3).hold_ms(2 * OPEN_MS)).await;
    let mut orders = Vec::new();
    for part in 0..ALL {
        for n in 0..2 {
            let claim = sale.units(&case.somebody(part, n), 1);
            orders.push(case.granted(claim).order_id());
        }
    }
    case.cancel(orders[0]);
    case.act(sale.id, CampaignAction::Close);
    case.cancel(orders[2]);
    case.later(2 * OPEN_MS);
    // Four units were left at the close. The shards returned 2, 1 and 1 of them.
    case.settle_all(1).await;
    assert_eq!(case.counts(sale.id).await, (0, 3, 0));
    case.compare().await;
    case.settle(0, 4, 0).await; // opened, granted twice, cancelled
    assert_eq!(case.counts(sale.id).await, (1, 3, 0));
    case.settle(0, 6, 0).await; // ended, closed
    assert_eq!(case.counts(sale.id).await, (1, 5, 0));
    case.settle_all(0).await; // expired
    assert_eq!(case.counts(sale.id).await, (0, 6, 0));
    case.settle(2, 5, 0).await; // opened, granted twice, ended, closed
    assert_eq!(case.phase(sale.id).await, Phase::Closed);
    assert_eq!(case.counts(sale.id).await, (2, 7, 0));
    case.settle_all(2).await; // expired
    assert_eq!(case.counts(sale.id).await, (0, 9, 0));
    case.compare().await;
}

/// Money that no shard accounts for stays in escrow until the last shard has closed. Then it is refunded to the sender,
/// once.
pub async fn residue_goes_home_with_the_last_close(case: &mut Fixture) {
    let packet = red_packet(900, 9, SplitRule::Equal).owner("sender");
    let packet = case.open(&packet).await;
    case.act(packet.id, CampaignAction::Close);
    // Each shard has three shares of 100. One shard loses 30 of the money.
    for (part, sent_home) in [(0, 270), (1, 570), (2, 900)] {
        let mut log = case.log(part).to_vec();
        if let (0, Event::Closed { refunded_minor, .. }) = (part, &mut log[2].event) {
            *refunded_minor -= 30;
        }
        for _ in 0..2 {
            let settled = case.ledger().settle(case.partition(part), &log).await;
            assert_eq!(settled, Ok(3));
            assert_eq!(case.balance("sender").await, sent_home);
        }
        case.restart().await;
    }
    assert_eq!(case.phase(packet.id).await, Phase::Closed);
    assert_eq!(case.counts(packet.id).await, (0, 9, 870));
}

/// All shards have closed but a share is missing. It may still turn up, so its money stays in escrow.
pub async fn units_that_are_missing_keep_the_residue(case: &mut Fixture) {
    let packet = red_packet(900, 9, SplitRule::Equal).owner("sender");
    let packet = case.open(&packet).await;
    case.act(packet.id, CampaignAction::Close);
    for part in 0..ALL {
        let mut log = case.log(part).to_vec();
        if part == 1 {
            let (returned, refunded_minor) = (2, 200);
            log[2].event = Event::Closed {
                returned,
                refunded_minor,
            };
        }
        let settled = case.ledger().settle(case.partition(part), &log).await;
        assert_eq!(settled, Ok(3));
    }
    assert_eq!(case.counts(packet.id).await, (0, 8, 800));
    assert_eq!(case.balance("sender").await, 800);
}

/// A unit returns to one shard and is sold again in another, and the second sale is settled first. At the end, the
/// units sold do not exceed the stock.
pub async fn units_sold_again_elsewhere_may_be_settled_first(case: &mut Fixture) {
    let sale = case.open(&sale(3).limit(3)).await;
    let (first, second) = (case.somebody(0, 0), case.somebody(1, 0));
    case.granted(sale.units(&first, 3));
    case.later(HOLD_MS);
    case.granted(sale.units(&second, 3));
    case.act(sale.id, CampaignAction::Close);
    case.settle(0, 2, 0).await;
    case.settle_all(1).await;
    case.compare().await;
    case.restart().await;
    case.settle_all(2).await;
    case.compare().await;
    case.settle_all(0).await;
    case.compare().await;
    assert_eq!(case.counts(sale.id).await, (3, 0, 0));
    assert_eq!(case.phase(sale.id).await, Phase::Closed);
}

/// Grants are listed by number, with any gaps between the numbers.
pub async fn numbers_may_have_gaps(case: &mut Fixture) {
    let packet = red_packet(1_000, 10, SplitRule::DoubleAverage { min: 1 });
    for target in [case.open(&packet).await, case.open(&sale(10)).await] {
        let mut numbers: Vec<u32> = Vec::new();
        for part in [0, 1, 1, 1, 2] {
            let n = numbers.len();
            let claim = target.one(&case.somebody(part, n));
            let grant = case.granted(claim);
            numbers.extend((part == 1).then_some(grant.number));
        }
        case.settle_all(1).await;
        for after in 0..20 {
            let page = case
                .ledger()
                .grants(target.id, after, 2)
                .await
                .unwrap()
                .into_iter();
            let expected = numbers.iter().filter(|number| **number > after).take(2);
            assert!(
                page.map(|grant| grant.number).eq(expected.copied()),
                "{after}"
            );
        }
        case.compare().await;
    }
}

/// Campaigns that may still change are listed as live. A closed and settled sale leaves the list.
pub async fn what_is_closed_and_settled_is_not_live(case: &mut Fixture) {
    const DAY_MS: i64 = 86_400_000;
    let open = case.open(&sale(6)).await;
    let [held, paid, empty] = [
        case.open(&sale(6)).await,
        case.open(&sale(6)).await,
        case.open(&sale(6)).await,
    ];
    let packet = case.open(&red_packet(60, 6, SplitRule::Equal)).await;
    let order = case.granted(held.one("ann")).order_id();
    let other = case.granted(paid.one("ann")).order_id();
    case.pay(other, "payment");
    case.granted(packet.one("ann"));
    for target in [held, paid, empty, packet] {
        case.act(target.id, CampaignAction::Close);
    }
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    assert_eq!(live(case).await, [open.id, held.id]);
    // Campaigns a month later: holds that ended long before are no longer searched. Open campaigns stay listed.
    let after = OPENS.plus_millis(32 * DAY_MS);
    let later = sale(6).window(after, OPEN_MS);
    let later = case.open_created(&later, Some(after)).await;
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    assert_eq!(live(case).await, [open.id, later.id]);
    case.cancel(order);
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    case.compare().await;
}

/// Live campaigns, read in pages as a repair reads them.
async fn live(case: &Fixture) -> Vec<CampaignId> {
    let mut live: Vec<CampaignId> = Vec::new();
    loop {
        let page = case.ledger().live_campaigns(live.last().copied(), 1).await;
        let page = page.unwrap();
        if page.is_empty() {
            return live;
        }
        live.extend(page.iter().map(|live| live.id));
    }
}

/// Each partition has its own position, across restarts, and a wait for one partition does not depend on others.
pub async fn positions_are_kept_for_each_partition(case: &mut Fixture) {
    case.open(&sale(10)).await;
    case.open(&sale(10)).await;
    assert_eq!(case.ledger().positions().await, Ok(Vec::new()));
    case.settle(1, 1, 0).await;
    case.settle(2, 2, 0).await;
    for _ in 0..2 {
        let mut expected = [(case.partition(1), 1), (case.partition(2), 2)];
        expected.sort();
        let positions = case.ledger().positions().await;
        assert_eq!(positions.as_deref(), Ok(&expected[..]));
        for (part, at) in [(0, 0), (1, 1), (2, 2)] {
            assert_eq!(case.settled(part).await, at);
            for seq in 0..3 {
                let partition = case.partition(part);
                let reached = case.ledger().await_settled(partition, seq, Duration::ZERO);
                assert_eq!(reached.await, Ok(seq <= at), "shard {part} up to {seq}");
            }
        }
        case.restart().await;
    }
    let wait_max = Duration::from_secs(20);
    let waits = case.ledger().await_settled(case.partition(0), 2, wait_max);
    let (reached, ()) = tokio::join!(waits, case.settle_all(0));
    assert_eq!(reached, Ok(true));
}

/// Entries that do not follow the position of their partition are refused. Other partitions continue.
pub async fn a_gap_is_refused_in_its_partition_alone(case: &mut Fixture) {
    let target = case.open(&sale(10)).await;
    for part in [0, 0, 0, 1] {
        let n = case.log(part).len();
        let claim = target.one(&case.somebody(part, n));
        case.granted(claim);
    }
    case.settle(0, 1, 0).await;
    let (partition, log) = (case.partition(0), case.log(0));
    let gap = [log[0].clone(), log[1].clone(), log[3].clone()];
    for run in [&log[2..], &gap] {
        let settled = case.ledger().settle(partition, run).await;
        assert!(settled.is_err(), "{settled:?}");
        assert_eq!(case.settled(0).await, 1);
        case.compare().await;
    }
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    case.compare().await;
}

/// Entries lost from the log are settled through replacements, in another order and with fewer positions. Then the log
/// continues.
pub async fn stand_ins_count_for_what_is_gone(case: &mut Fixture) {
    let target = case.open(&sale(10)).await;
    for n in 0..6 {
        let claim = target.one(&case.somebody(0, n));
        case.granted(claim);
    }
    case.settle(0, 1, 0).await;
    let (partition, log) = (case.partition(0), case.log(0).to_vec());
    let stand_ins: Vec<Entry> = [(2, 3), (3, 1), (4, 2)]
        .map(|(seq, from)| Entry {
            seq,
            ..log[from].clone()
        })
        .into();
    let attempt = RepairAttempt {
        partition,
        number: 1,
        repairer: "r".to_owned(),
    };
    case.ledger().claim_repair(&attempt).await.unwrap();
    let past = async |position, entries: &[Entry], upto| {
        let ledger = case.ledger();
        ledger.settle_past(&attempt, position, entries, upto).await
    };
    assert_eq!(
        past(0, &stand_ins, 4).await,
        Ok(1),
        "the attempt names another position"
    );
    assert!(
        past(1, &stand_ins, 3).await.is_err(),
        "more entries than positions"
    );
    assert_eq!(case.settled(0).await, 1);
    assert_eq!(past(1, &stand_ins, 4).await, Ok(4));
    assert_eq!(
        past(1, &stand_ins, 4).await,
        Ok(4),
        "a repetition changes nothing"
    );
    for part in 0..ALL {
        case.settle_all(part).await;
    }
    case.compare().await;
}

/// Repeated entries count once, in every shard, also after restarts.
pub async fn settling_again_changes_nothing_in_any_part(case: &mut Fixture) {
    let packet = red_packet(1_001, 30, SplitRule::Lazy { min: 1 }).owner("sender");
    let packet = case.open(&packet).await;
    let sale = case.open(&sale(30).limit(2)).await;
    for part in 0..ALL {
        for n in 0..5 {
            let name = case.somebody(part, n);
            case.granted(packet.one(&name));
            let order = case.granted(sale.units(&name, 2)).order_id();
            match n {
                0 => case.pay(order, "p"),
                1 => case.cancel(order),
                _ => {}
            }
        }
    }
    case.at(OPENS.plus_millis(OPEN_MS));
    for part in 0..ALL {
        let head = case.log(part).len() as Seq;
        for upto in (1..=head).step_by(4).chain([head]) {
            case.settle(part, upto, 6).await;
            case.settle(part, upto, Seq::MAX).await;
        }
    }
    case.compare().await;
    case.restart().await;
    for part in 0..ALL {
        case.settle(part, 5, Seq::MAX).await;
        case.settle(part, case.log(part).len() as Seq, Seq::MAX)
            .await;
    }
    case.compare().await;
}

/// All partitions are settled concurrently, with the same campaigns, users and sellers.
pub async fn partitions_are_settled_at_once(case: &mut Fixture) {
    let mut targets = Vec::new();
    for _ in 0..3 {
        let packet = red_packet(9_000, 60, SplitRule::DoubleAverage { min: 1 });
        targets.push(case.open(&packet.owner("sender")).await);
        targets.push(case.open(&sale(60).owner("sender")).await);
    }
    for (turn, target) in (0..).zip(&targets) {
        for part in 0..ALL {
            for n in 0..15 {
                // Each shard claims the campaigns in another order, so that transactions lock rows in different orders.
                let n = (n * 7 + turn) % 15;
                let grant = case.granted(target.one(&case.somebody(part, n)));
                if grant.order.is_some() {
                    case.pay(grant.order_id(), "p");
                }
            }
        }
    }
    case.at(OPENS.plus_millis(OPEN_MS));
    let together = |part: usize| {
        let case = &*case;
        async move {
            let head = case.log(part).len() as Seq;
            for upto in (1..=head).step_by(10).chain([head]) {
                case.settle(part, upto, 3).await;
            }
        }
    };
    tokio::join!(together(0), together(1), together(2));
    case.compare().await;
}

/// A user's orders in a sale, or share of a packet, are found in their order: of all shards, in any state, with their
/// keys. Other users' rows and other campaigns are left out.
pub async fn rows_of_a_user_are_found(case: &mut Fixture) {
    let builder = sale(9).limit(3);
    let sale = case.open(&builder).await;
    let other = case.open(&builder).await;
    let packet = red_packet(1_000, 10, SplitRule::DoubleAverage { min: 1 });
    let packet = case.open(&packet).await;
    let (user, stranger) = (case.somebody(0, 0), case.somebody(0, 1));
    let first = case.granted(sale.keyed(&user, 2, "first")).number;
    case.granted(sale.units(&stranger, 1));
    let second = case.granted(sale.units(&user, 1)).number;
    case.granted(other.one(&user));
    let share = case.granted(packet.one(&user));
    case.cancel(sale.order(first));
    case.settle_all(0).await;
    let rows = async |id, name: &str| {
        let user = crate::campaign::user(name);
        let rows = case.ledger().settled_rows_of_user(id, &user).await;
        rows.unwrap()
    };
    let all = case.ledger().settled_rows(sale.id, 0, 100).await.unwrap();
    let own: Vec<_> = all
        .into_iter()
        .filter(|row| {
            row.granted
                .as_ref()
                .is_some_and(|(it, _)| it.as_str() == user)
        })
        .collect();
    assert_eq!(rows(sale.id, &user).await, own);
    let numbers: Vec<_> = own.iter().map(|row| (row.number, row.state)).collect();
    assert_eq!(
        numbers,
        [(first, OrderState::Cancelled), (second, OrderState::Held)]
    );
    let shares = rows(packet.id, &user).await;
    let shares: Vec<_> = shares
        .iter()
        .map(|row| (row.number, row.amount_minor))
        .collect();
    assert_eq!(shares, [(share.number, Some(share.amount_minor))]);
    assert_eq!(rows(packet.id, &stranger).await, []);
    assert_eq!(rows(crate::campaign::id(99), &user).await, []);
}

/// The key of a claim is stored with its order. An order without a key has none.
pub async fn keys_of_orders_are_kept(case: &mut Fixture) {
    let sale = case.open(&sale(9).limit(3)).await;
    let (user, key) = (case.somebody(0, 0), "Key-\"1'");
    let keyed = case.granted(sale.keyed(&user, 1, key)).number;
    let other = case.granted(sale.units(&user, 1)).number;
    case.settle_all(0).await;
    case.restart().await;
    let rows = case.ledger().settled_rows(sale.id, 0, 100).await.unwrap();
    let last = case.ledger().last_order(sale.id).await;
    assert_eq!(last.ok(), rows.last().map(|row| row.number));
    let keys: Vec<_> = rows
        .iter()
        .map(|row| (row.number, row.key.as_ref().map(IdempotencyKey::as_str)))
        .collect();
    assert_eq!(keys, [(keyed, Some(key)), (other, None)]);
}
