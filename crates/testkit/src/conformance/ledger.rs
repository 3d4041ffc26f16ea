//! Settlement cases. Every case compares rows and balances with the log at its end; these test only the ledger's own
//! work.

use std::time::Duration;

use qiang_core::{
    book::CampaignAction,
    campaign::{AckLevel, Phase, Requirement},
    money::{AMOUNT_MINOR_MAX, Money},
    order::OrderState,
    ports::LedgerError,
    split::SplitRule,
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, OWNER, Target, currency, id, red_packet, sale, user};

/// A history with entries of every kind.
async fn varied_history(case: &mut Scenario) -> [Target; 2] {
    let packet = red_packet(10_001, 30, SplitRule::DoubleAverage { min: 1 });
    let packet = case.open(packet.owner("sender")).await;
    let sale = case.open(sale(30).limit(3)).await;
    for n in 0..12 {
        let name = format!("u{n}");
        case.granted(packet.one(&name)).await;
        case.granted(sale.keyed(&name, 1 + n % 3, "k")).await;
    }
    for number in 1..=4 {
        case.pay(case.nth(sale, number), "p").await;
        case.pay(case.nth(sale, number), "q").await;
    }
    for number in 5..=7 {
        case.try_cancel(case.nth(sale, number)).await.unwrap();
    }
    case.pay(case.nth(sale, 9), "p").await;
    case.try_return(case.nth(sale, 9)).await.unwrap();
    case.act(sale.id, CampaignAction::Pause).await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.act(sale.id, CampaignAction::Resume).await;
    case.pay(case.nth(sale, 8), "late").await;
    case.act(packet.id, CampaignAction::Close).await;
    [packet, sale]
}

/// Phases, counts and balances in the ledger equal those of the log.
pub async fn the_ledger_follows_the_log(case: &mut Scenario) {
    let targets = varied_history(case).await;
    case.settle().await;
    for target in targets {
        let tally = case.tally(target.id).await;
        let record = case.ledger().campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.granted, tally.granted);
        assert_eq!(record.returned, tally.returned);
        assert_eq!(record.refunded_minor, tally.refunded_minor);
        assert_eq!(record.phase == Phase::Closed, tally.phase == Phase::Closed);
    }
    let settled = case.balance(OWNER).await;
    // Orders 1 to 4, of 1, 2, 3 and 1 units, were paid, and order 8, of 2 units, at 100 each.
    assert_eq!(settled, (900, 0));
    assert_eq!(case.balance("u3").await.1, 100);
}

/// Entries that arrive twice, or in overlapping runs, count once.
pub async fn settling_again_changes_nothing(case: &mut Scenario) {
    varied_history(case).await;
    let partitions = case.log().partitions();
    let logs: Vec<_> = partitions.into_iter().zip(case.logs().await).collect();
    for (partition, log) in &logs {
        let head = log.last().map_or(0, |entry| entry.seq);
        let mut from = 0;
        while from < log.len() {
            let to = (from + 7).min(log.len());
            // Three entries that were settled before, and the whole run again. Another consumer may be ahead: then all
            // of it was settled before.
            for run in [&log[from.saturating_sub(3)..to], &log[..to]] {
                let settled = case.ledger().settle(*partition, run).await;
                assert!(settled.is_ok_and(|seq| seq >= to as u64 && seq <= head));
            }
            from = to;
        }
    }
    let before = (case.balance("sender").await, case.balance(OWNER).await);
    for (partition, log) in &logs {
        let head = log.last().map_or(0, |entry| entry.seq);
        for run in [&log[..], &[]] {
            let settled = case.ledger().settle(*partition, run).await;
            assert_eq!(settled, Ok(head));
        }
        assert_eq!(case.ledger().settled(*partition).await, Ok(head));
        let after = (case.balance("sender").await, case.balance(OWNER).await);
        assert_eq!(before, after);
    }
}

/// Entries that do not follow the settled position are refused, and the engine continues to grant.
pub async fn settling_with_a_gap_is_refused(case: &mut Scenario) {
    let target = case.open(sale(10)).await;
    case.granted(target.one("a")).await;
    case.settle().await;
    for (partition, log) in case.log().partitions().into_iter().zip(case.logs().await) {
        let Some(last) = log.last() else { continue };
        let mut later = last.clone();
        later.seq += 2;
        let settled = case.ledger().settle(partition, &[later]).await;
        assert!(settled.is_err(), "{settled:?}");
        assert_eq!(case.ledger().settled(partition).await, Ok(last.seq));
    }
    case.granted(target.one("b")).await;
}

/// Without the money, no packet is created, no debt arises and no row is written.
pub async fn a_sender_without_the_money_sends_nothing(case: &mut Scenario) {
    case.deposit("sender", 999).await;
    let n = case.next_id();
    let setup = red_packet(1_000, 10, SplitRule::Equal)
        .owner("sender")
        .setup(n);
    let money = |minor| Money::new(minor, currency());
    let (held, needed) = (money(999), money(1_000));
    let refused = Err(LedgerError::InsufficientFunds { held, needed });
    assert_eq!(case.ledger().create(&setup).await, refused);
    assert_eq!(case.ledger().campaign(setup.campaign.id).await, Ok(None));
    assert_eq!(case.balance("sender").await, (999, 0));

    let n = case.next_id();
    let setup = red_packet(1, 1, SplitRule::Equal).owner("nobody").setup(n);
    let (held, needed) = (money(0), money(1));
    let refused = Err(LedgerError::InsufficientFunds { held, needed });
    assert_eq!(case.ledger().create(&setup).await, refused);
}

/// A campaign refused for lack of money can be entered later under the same id.
pub async fn a_failed_campaign_can_be_entered_later(case: &mut Scenario) {
    let n = case.next_id();
    let setup = red_packet(1_000, 10, SplitRule::Equal)
        .owner("sender")
        .setup(n);
    assert!(case.ledger().create(&setup).await.is_err());
    case.deposit("sender", 1_000).await;
    assert_eq!(case.ledger().create(&setup).await, Ok(()));
    case.entered(&setup);
    case.open_entered(&setup).await;
    case.granted(Target::of(&setup).one("a")).await;
    assert_eq!(case.balance("sender").await, (0, 0));
}

/// A packet is funded once, even if it is entered several times.
pub async fn entering_again_changes_nothing(case: &mut Scenario) {
    case.deposit("sender", 500).await;
    let packet = red_packet(1_000, 10, SplitRule::Equal).owner("sender");
    let setup = case.enter(packet).await;
    assert_eq!(case.ledger().create(&setup).await, Ok(()));
    case.open_entered(&setup).await;
    case.granted(Target::of(&setup).one("a")).await;
    assert_eq!(case.ledger().create(&setup).await, Ok(()));
    assert_eq!(case.balance("sender").await, (500, 0));
}

/// The requirements of claims are stored with the campaign, from the draft on. The engine ignores them.
pub async fn requirements_are_kept(case: &mut Scenario) {
    use Requirement::{OrderCheck, Ticket};
    for needed in [&[][..], &[Ticket], &[OrderCheck, Ticket]] {
        let n = case.next_id();
        let mut setup = sale(2).setup(n);
        setup.campaign.requirements = needed.iter().copied().collect();
        assert_eq!(case.ledger().create(&setup).await, Ok(()));
        let entered = case.ledger().setup(setup.campaign.id).await;
        assert_eq!(entered, Ok(Some(setup.clone())));
        case.entered(&setup);
        case.open_entered(&setup).await;
        case.granted(Target::of(&setup).one("a")).await;
        case.settle().await;
        let record = case.ledger().campaign(setup.campaign.id).await;
        let record = record.expect("the ledger answers");
        assert_eq!(record.map(|it| it.campaign), Some(setup.campaign));
    }
}

/// A deposit is identified by its id: repeated, it counts once, also after other deposits.
pub async fn a_deposit_counts_once(case: &mut Scenario) {
    let first = Uuid::from_u128(1 << 90);
    let amount = Money::new(70, currency());
    for other in 0..3 {
        let made = case.ledger().deposit(first, &user("a"), amount).await;
        assert_eq!(made, Ok(()));
        assert_eq!(case.balance("a").await, (70 + 5 * other, 0));
        case.deposit("a", 5).await;
    }
    // Zero, negative amounts, and amounts above the maximum are refused.
    for minor in [i64::MIN, -1, 0, AMOUNT_MINOR_MAX + 1, i64::MAX] {
        let amount = Money::new(minor, currency());
        let made = case
            .ledger()
            .deposit(Uuid::from_u128(2 << 90), &user("a"), amount)
            .await;
        assert_eq!(made, Err(LedgerError::AmountOutOfRange), "{minor}");
    }
    assert_eq!(case.balance("a").await, (85, 0));
    assert_eq!(case.ledger().money_in(currency()).await, Ok(85));
    let other = "USD".parse().unwrap();
    assert_eq!(case.ledger().money_in(other).await, Ok(0));
    let gone = case.ledger().balances(&user("b")).await;
    assert_eq!(gone, Ok(Vec::new()));
    case.deposited("a", 70);
}

/// Campaigns that were entered but not opened are found as drafts and can be opened unchanged.
pub async fn drafts_are_found_until_they_are_opened(case: &mut Scenario) {
    assert_eq!(case.ledger().drafts(None, 9).await, Ok(Vec::new()));
    let rules = [
        SplitRule::Lazy { min: 1 },
        SplitRule::Normal { min: 1, max: 90 },
    ];
    let mut setups = vec![case.enter(sale(4)).await];
    for rule in rules {
        setups.push(case.enter(red_packet(100, 5, rule)).await);
    }
    // Page by page, in the order of entry.
    let ids: Vec<_> = setups.iter().map(|setup| setup.campaign.id).collect();
    let mut after = None;
    for draft in &ids {
        assert_eq!(case.ledger().drafts(after, 1).await, Ok(vec![*draft]));
        after = Some(*draft);
    }
    assert_eq!(case.ledger().drafts(after, 9).await, Ok(Vec::new()));
    assert_eq!(case.ledger().setup(id(4_711)).await, Ok(None));
    while let Some(setup) = setups.pop() {
        let last = setup.campaign.id;
        let kept = case.ledger().setup(last).await;
        assert_eq!(kept, Ok(Some(setup.clone())));
        case.open_entered(&setup).await;
        case.settle().await;
        let left = Ok(ids[..setups.len()].to_vec());
        assert_eq!(case.ledger().drafts(None, 9).await, left);
        // The campaign is no longer a draft, but its id still works as a page's start.
        assert_eq!(case.ledger().drafts(Some(last), 9).await, Ok(Vec::new()));
    }
}

/// Grants are listed by number, in any pages.
pub async fn grants_are_read_in_pages(case: &mut Scenario) {
    let packet = red_packet(1_000, 10, SplitRule::Equal);
    for target in [case.open(packet).await, case.open(sale(10)).await] {
        let mut numbers = Vec::new();
        for n in 0..7 {
            numbers.push(case.granted(target.one(&format!("u{n}"))).await.number);
        }
        numbers.sort_unstable();
        case.settle().await;
        let mut after = 0;
        for expected in numbers.chunks(3).chain([&[][..]]) {
            let page = case
                .ledger()
                .grants(target.id, after, 3)
                .await
                .unwrap()
                .into_iter();
            let page = page.map(|grant| (grant.number, grant.state));
            assert!(page.eq(expected.iter().map(|number| (*number, OrderState::Held))));
            after = expected.last().copied().unwrap_or(after);
        }
    }
    let unknown = sale(1).setup(1_000_000).campaign.id;
    assert_eq!(case.ledger().grants(unknown, 0, 3).await, Ok(Vec::new()));
    assert_eq!(case.ledger().campaign(unknown).await, Ok(None));
}

/// If an engine offers the level `ledger`, a grant at that level is in the ledger when it is answered. The same holds
/// for a replay.
pub async fn the_level_of_the_ledger_is_answered_from_the_ledger(case: &mut Scenario) {
    if !case.engine().ack_levels().contains(&AckLevel::Ledger) {
        return;
    }
    let packet = red_packet(10_000, 100, SplitRule::Lazy { min: 1 });
    let packet = case.open(packet.ack(AckLevel::Ledger)).await;
    let sale = case.open(sale(100).ack(AckLevel::Ledger)).await;
    for target in [packet, sale] {
        let claims = (0..200).map(|n| target.one(&format!("u{}", n % 50)));
        let claims: Vec<_> = claims.collect();
        let ask = |claim: &_| case.engine().claim(Clone::clone(claim));
        let tickets: Vec<_> = claims.iter().map(ask).collect();
        for ticket in tickets {
            let claimed = ticket.await.unwrap();
            let grant = claimed.outcome.grant().expect("there is enough");
            assert_eq!(claimed.ack, AckLevel::Ledger);
            let after = grant.number - 1;
            let rows = case.ledger().grants(target.id, after, 1).await.unwrap();
            assert_eq!(rows.first().map(|row| row.number), Some(grant.number));
        }
    }
    case.answers_may_be_lost();
}

/// Each acknowledgement level that an engine offers is reached when it is required.
pub async fn the_level_asked_for_is_reached(case: &mut Scenario) {
    for level in case.engine().ack_levels() {
        let target = case.open(sale(3).ack(*level)).await;
        for name in ["granted", "already_granted"] {
            let claimed = case.engine().claim(target.one("a")).await.unwrap();
            assert_eq!(claimed.outcome.name(), name);
            assert!(
                claimed.ack >= *level,
                "{level} was required, not {}",
                claimed.ack
            );
        }
    }
    case.answers_may_be_lost();
}

/// Any run of the log is in order and without gaps, and ends at the head.
pub async fn the_log_is_read_without_gaps(case: &mut Scenario) {
    varied_history(case).await;
    for (partition, log) in case.log().partitions().into_iter().zip(case.logs().await) {
        let head = log.len() as u64;
        assert!(log.iter().map(|entry| entry.seq).eq(1..=head));
        for after in 0..head + 2 {
            for limit in [1, 5, 1_000] {
                let run = case.log().read(partition, after, limit).await;
                let from = (after as usize).min(log.len());
                let to = (from + limit).min(log.len());
                assert_eq!(run.as_deref(), Ok(&log[from..to]));
            }
        }
        let reached = case
            .ledger()
            .await_settled(partition, head + 1, Duration::ZERO)
            .await;
        assert_eq!(
            reached,
            Ok(false),
            "a position after the head is not settled"
        );
    }
    case.settle().await;
    for (partition, log) in case.log().partitions().into_iter().zip(case.logs().await) {
        let seq = log.len() as u64;
        let reached = case
            .ledger()
            .await_settled(partition, seq, Duration::from_secs(5))
            .await;
        assert_eq!(reached, Ok(true));
    }
}

/// A settled share is money that its user can send in another packet.
pub async fn claimed_money_can_be_sent_on(case: &mut Scenario) {
    let first = case.open(red_packet(1_000, 1, SplitRule::Equal)).await;
    case.granted(first.one("a")).await;
    case.settle().await;
    let n = case.next_id();
    let setup = red_packet(1_000, 2, SplitRule::Equal).owner("a").setup(n);
    assert_eq!(case.ledger().create(&setup).await, Ok(()));
    case.entered(&setup);
    case.open_entered(&setup).await;
    let second = Target::of(&setup);
    case.granted(second.one("b")).await;
    case.act(second.id, CampaignAction::Close).await;
    case.settle().await;
    assert_eq!(case.balance("a").await, (500, 0));
    assert_eq!(case.balance("b").await, (500, 0));
}

/// A waiting room is added once, also before its campaign is entered.
pub async fn a_waiting_room_is_added_once(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    let ledger = case.ledger();
    assert_eq!(ledger.has_waiting_room(target.id).await, Ok(false));
    let to_come = id(77);
    for _ in 0..2 {
        assert_eq!(ledger.add_waiting_room(to_come).await, Ok(()));
        assert_eq!(ledger.has_waiting_room(to_come).await, Ok(true));
    }
    assert_eq!(ledger.has_waiting_room(target.id).await, Ok(false));
}
