//! Plans of runs of entries against known rows.

mod amounts;
mod returns;

use std::collections::HashMap;

use super::*;
use crate::{
    campaign::{CampaignKind, Phase},
    event::PartitionId,
    order::OrderState,
    ports::{LedgerError, QuarantineCount},
    quarantine::QuarantineBlockers,
    rows::{AccountPurpose, QuarantineRow},
};

const PACKET: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
const SALE: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81";

/// Entries from position 1 on, from pairs of campaign and event.
fn entries(texts: &[(&str, &str)]) -> Vec<Entry> {
    let entry = |(seq, (campaign, event)): (u64, &(&str, &str))| {
        Entry::from_text(&format!("{seq} {} {campaign} {event}", seq * 10)).expect("an entry")
    };
    (1..).zip(texts).map(entry).collect()
}

fn known(campaign_ref: i64, name: &str, kind: CampaignKind) -> KnownCampaign {
    KnownCampaign {
        campaign_ref,
        id: name.parse().unwrap(),
        name: name.to_owned(),
        kind,
        owner: "owner".to_owned(),
        currency: "CNY".parse().unwrap(),
        one_per_user: true,
        hold_ms: 1_000,
        parts: 1,
        phase: Phase::Scheduled,
        part: None,
        watched: false,
    }
}

fn both() -> [KnownCampaign; 2] {
    [
        known(7, PACKET, CampaignKind::RedPacket),
        known(3, SALE, CampaignKind::Sale),
    ]
}

fn order(number: i64, user: &str, state: OrderState) -> KnownOrder {
    KnownOrder {
        campaign: 3,
        number,
        user: user.to_owned(),
        quantity: 1,
        amount: 50,
        state,
        returned_in_parts: 0,
        cancelled_in_parts: 0,
        extension_ms: 0,
        paid_minor: None,
    }
}

fn refused(texts: &[(&str, &str)], campaigns: &[KnownCampaign], orders: &[KnownOrder]) -> String {
    let entries = entries(texts);
    let plan = SettlementPlan::new(PartitionId(0), &entries, campaigns, orders);
    plan.expect_err("a contradiction").reason
}

/// Accounts with the sums of their changes, as `owner purpose amount`.
fn moves(plan: &SettlementPlan<'_>) -> Vec<String> {
    let line = |(key, amount): &(crate::rows::AccountKey<'_>, i64)| {
        format!("{} {} {amount}", key.owner, key.purpose.name())
    };
    plan.accounts.iter().map(line).collect()
}

#[test]
fn a_packet_is_added_up() {
    let entries = entries(&[
        (PACKET, "granted 1 zoe 1 30"),
        (PACKET, "granted 2 alice 1 50"),
        (PACKET, "ended"),
        (PACKET, "closed 1 20"),
    ]);
    let campaigns = both();
    let mut plan = SettlementPlan::new(PartitionId(4), &entries, &campaigns, &[]).unwrap();
    let shares: Vec<_> = plan
        .shares
        .iter()
        .map(|share| (share.campaign, share.number, share.user, share.amount))
        .collect();
    assert_eq!(shares, [(7, 1, "zoe", 30), (7, 2, "alice", 50)]);
    let escrow = format!("{PACKET} escrow -100");
    let expected = ["alice user 50", "owner user 20", "zoe user 30", &escrow];
    assert_eq!(moves(&plan), expected);
    assert_eq!(plan.user_accounts, 3);
    let postings = |plan: &SettlementPlan<'_>| -> Vec<_> {
        let rows = plan.postings.iter();
        rows.map(|row| (row.source, row.seq, row.kind, row.debit, row.credit))
            .collect()
    };
    let expected = [
        (4, 1, "grant", 3, 2),
        (4, 2, "grant", 3, 0),
        (4, 4, "refund", 3, 1),
    ];
    assert_eq!(postings(&plan), expected, "places");
    plan.resolve_accounts(&[10, 20, 30, 40]);
    assert_eq!(postings(&plan)[0], (4, 1, "grant", 40, 30), "ids");
    let change = CampaignChange {
        granted: 2,
        returned: 1,
        refunded: 20,
        updated_at: Some(40),
        ..CampaignChange::to_phase(7, Phase::Closed)
    };
    assert_eq!(plan.campaigns, [change], "and nothing of the sale");
    let [close] = &plan.closes[..] else {
        panic!("{:?}", plan.closes)
    };
    assert_eq!((close.escrow, close.owner, close.is_spread), (3, 1, false));
    assert_eq!(close.escrow_key().purpose, AccountPurpose::Escrow);
}

#[test]
fn orders_take_their_last_state() {
    let texts = [
        (SALE, "expired 1"),
        (SALE, "granted 4 alice 1 50"),
        (SALE, "paid 4 p4"),
        (SALE, "cancelled 2"),
        (SALE, "reinstated 2 p2"),
        (SALE, "refund_due 1 p1"),
    ];
    let (entries, campaigns) = (entries(&texts), both());
    let wanted = wanted_orders(&entries, &campaigns);
    assert_eq!(wanted, [(3, 1), (3, 2)], "order 4 is made by these entries");
    let orders = [
        order(1, "alice", OrderState::Held),
        order(2, "bob", OrderState::Held),
    ];
    let plan = SettlementPlan::new(PartitionId(0), &entries, &campaigns, &orders).unwrap();
    let changes = |changes: &[OrderChange]| -> Vec<_> {
        let rows = changes.iter();
        rows.map(|row| (row.number, row.state, row.at.unwrap_or(0)))
            .collect()
    };
    assert_eq!(
        changes(&plan.leaving_orders),
        [(1, OrderState::Expired, 10)]
    );
    assert_eq!(changes(&plan.keeping_orders), [(2, OrderState::Paid, 50)]);
    let [new] = &plan.new_orders[..] else {
        panic!("{:?}", plan.new_orders)
    };
    assert_eq!((new.number, new.state), (4, OrderState::Paid));
    assert_eq!((new.granted_at, new.hold_until), (20, 1_020));
    let outcomes: Vec<_> = plan
        .payments
        .iter()
        .map(|row| (row.number, row.payment, row.outcome, row.amount))
        .collect();
    let expected = [
        (4, "p4", "paid", 50),
        (2, "p2", "reinstated", 50),
        (1, "p1", "refund_due", 50),
    ];
    assert_eq!(outcomes, expected);
    let expected = [
        "alice refunds_due 50",
        "owner user 100",
        "outside outside -150",
    ];
    assert_eq!(moves(&plan), expected);
    assert_eq!(plan.campaigns, [], "two came, two went");
}

#[test]
fn units_that_come_back_after_the_close_are_the_owners() {
    let campaigns = [KnownCampaign {
        phase: Phase::Closed,
        ..known(3, SALE, CampaignKind::Sale)
    }];
    let entries = entries(&[(SALE, "expired 1")]);
    let orders = [order(1, "alice", OrderState::Held)];
    let plan = SettlementPlan::new(PartitionId(0), &entries, &campaigns, &orders).unwrap();
    let change = plan.campaigns[0];
    assert_eq!((change.granted, change.returned), (-1, 1));
}

#[test]
fn what_is_closed_is_not_opened_again() {
    let in_phase = |phase| KnownCampaign {
        phase,
        ..known(3, SALE, CampaignKind::Sale)
    };
    let reason = refused(&[(SALE, "opened 1")], &[in_phase(Phase::Closed)], &[]);
    assert!(reason.contains("is opened again"), "{reason}");
    let campaigns = [in_phase(Phase::Draft)];
    let entries = entries(&[(SALE, "opened 1")]);
    assert!(SettlementPlan::new(PartitionId(0), &entries, &campaigns, &[]).is_ok());
}

#[test]
fn contradictions_are_refused() {
    let check = |texts: &[(&str, &str)], orders: &[KnownOrder], why: &str| {
        let reason = refused(texts, &both(), orders);
        assert!(reason.contains(why), "{reason}");
    };
    let granted = (SALE, "granted 4 alice 1 50");
    check(&[granted, granted], &[], "granted twice");
    let held = [order(1, "alice", OrderState::Held)];
    check(&[granted], &held, "one too many for its user");
    check(
        &[(SALE, "granted 5 bob 1 50"), (SALE, "granted 6 bob 1 50")],
        &held,
        "one too many for its user",
    );
    check(
        &[(SALE, "paid 9 p")],
        &held,
        "order 9 of #3 is not in the ledger",
    );
    check(
        &[(SALE, "expired 1"), (SALE, "expired 1")],
        &held,
        "order 1 of #3 is expired: it cannot become expired",
    );
    for state in [
        OrderState::Paid,
        OrderState::Cancelled,
        OrderState::Returned,
    ] {
        let orders = [order(1, "alice", state)];
        check(&[(SALE, "expired 1")], &orders, "it cannot become expired");
        check(
            &[(SALE, "cancelled 1")],
            &orders,
            "it cannot become cancelled",
        );
    }
    let amount = i64::MAX.to_string();
    let huge = [
        (PACKET, format!("granted 1 a 1 {amount}")),
        (PACKET, format!("granted 2 b 1 {amount}")),
    ];
    let huge = huge.each_ref().map(|(campaign, text)| (*campaign, &**text));
    check(&huge, &[], "moves more than there can be");
    let reason = refused(&[(SALE, "ended")], &[], &[]);
    assert_eq!(reason, format!("campaign {SALE} is not in the ledger"));
}

#[test]
fn a_part_lives_by_itself() {
    let spread = |part: Option<Phase>| {
        [KnownCampaign {
            parts: 2,
            phase: Phase::Draft,
            part,
            ..known(7, PACKET, CampaignKind::RedPacket)
        }]
    };
    let draft = [KnownCampaign {
        phase: Phase::Draft,
        ..known(7, PACKET, CampaignKind::RedPacket)
    }];
    let opening = entries(&[(PACKET, "opened 2"), (PACKET, "granted 1 alice 1 30")]);
    for campaigns in [&draft, &spread(None)] {
        let plan = SettlementPlan::new(PartitionId(1), &opening, campaigns, &[]).unwrap();
        let part = CampaignChange {
            campaign: 7,
            phase: Some(Phase::Scheduled),
            parts: Some(2),
            granted: 1,
            returned: 0,
            refunded: 0,
            supply: 0,
            terms: None,
            updated_at: Some(10),
        };
        assert_eq!(plan.parts, [part]);
        let change = plan.campaigns[0];
        assert_eq!(
            (change.phase, change.parts, change.granted),
            (None, Some(2), 1)
        );
        let [whole] = plan.spread[..] else {
            panic!("{:?}", plan.spread)
        };
        assert_eq!(whole.phase(&[Phase::Scheduled]), Ok(Phase::Draft));
        let both = [Phase::Paused, Phase::Scheduled];
        assert_eq!(whole.phase(&both), Ok(Phase::Paused));
        let reason = whole.phase(&[Phase::Paused; 3]).unwrap_err().reason;
        assert!(reason.contains("3 parts that are open"), "{reason}");
    }
    let granted = entries(&[(PACKET, "granted 1 alice 1 30")]);
    let campaigns = spread(Some(Phase::Scheduled));
    let plan = SettlementPlan::new(PartitionId(1), &granted, &campaigns, &[]).unwrap();
    assert_eq!(plan.campaigns[0].updated_at, None, "a grant is no update");
    assert_eq!(
        (plan.parts[0].parts.is_some(), plan.parts[0].phase),
        (false, None)
    );
    assert_eq!(plan.spread, [], "its phase is what it was");

    let check = |texts: &[(&str, &str)], campaigns: &[KnownCampaign], why: &str| {
        let reason = refused(texts, campaigns, &[]);
        assert!(reason.contains(why), "{reason}");
    };
    check(&[(PACKET, "ended")], &spread(None), "never opened");
    check(
        &[(PACKET, "granted 1 a 1 3")],
        &spread(None),
        "never opened",
    );
    check(&[(PACKET, "opened 3")], &spread(None), "as one of 3 parts");
    check(&[(PACKET, "opened 1")], &spread(None), "as one of 1 parts");
    let open = spread(Some(Phase::Paused));
    check(&[(PACKET, "opened 2")], &open, "this one is paused");
}

#[test]
fn entries_behind_the_position_are_fresh() {
    let all = entries(&[(SALE, "paused"), (SALE, "resumed"), (SALE, "ended")]);
    assert_eq!(fresh(&all, 0), Ok(&all[..]));
    assert_eq!(fresh(&all, 2), Ok(&all[2..]));
    assert_eq!(fresh(&all, 9), Ok(&[][..]));
    let gap = fresh(&all[1..], 0).unwrap_err();
    assert_eq!(gap.reason, "settlement at 0 was given entry 2");
    let two = entries(&[(SALE, "paused"), (PACKET, "paused"), (SALE, "resumed")]);
    assert_eq!(
        campaigns_of(&two),
        [PACKET, SALE].map(|id| id.parse().unwrap())
    );
}

#[test]
fn stand_ins_lie_in_the_gap() {
    let all = entries(&[(SALE, "paused"), (SALE, "resumed"), (SALE, "ended")]);
    let two = [all[0].clone(), all[2].clone()];
    assert_eq!(check_stand_ins(&two, 0, 3), Ok(()));
    assert_eq!(check_stand_ins(&[], 5, 9), Ok(()));
    let check = |entries: &[Entry], position, upto, bad: Seq| {
        let refused = check_stand_ins(entries, position, upto).unwrap_err();
        assert!(
            refused.reason.starts_with(&format!("entry {bad} ")),
            "{refused}"
        );
    };
    check(&two, 1, 3, 1);
    check(&two, 0, 2, 3);
    check(&[all[1].clone(), all[1].clone()], 0, 3, 2);
}

#[test]
fn what_waits_is_taken_out() {
    let run = entries(&[
        (SALE, "paid 1 p"),
        (PACKET, "ended"),
        (SALE, "refund_due 1 q"),
        (SALE, "expired 2"),
    ]);
    let SettlementTriage { now, later } = sort(&run, HashMap::new());
    assert_eq!((&*now, later), (&run[..], Vec::new()));

    let mut blockers = QuarantineBlockers::default();
    let kept = Entry::from_text(&format!("0 0 {SALE} granted 1 alice 1 50"));
    blockers.add(&kept.expect("an entry"));
    let SettlementTriage { now, later } =
        sort(&run, HashMap::from([(SALE.parse().unwrap(), blockers)]));
    assert_eq!(&*now, [run[1].clone(), run[3].clone()]);
    let waits = |row: &QuarantineRow| (row.seq, row.waits_for, row.reason.clone());
    let expected = [
        (1, Some(0), "it waits for entry 0".to_owned()),
        (3, Some(1), "it waits for entry 1".to_owned()),
    ];
    assert_eq!(later.iter().map(waits).collect::<Vec<_>>(), expected);

    let unknown = QuarantineBlockers::for_unknown_campaign(0);
    let SettlementTriage { now, later } =
        sort(&run, HashMap::from([(SALE.parse().unwrap(), unknown)]));
    assert_eq!(&*now, [run[1].clone()]);
    assert!(
        later.iter().all(|row| row.waits_for == Some(0)),
        "{later:?}"
    );
}

/// For any set of refused entries in a run, the entries before the first one are settled, and that one is named.
#[test]
fn the_first_refused_entry_is_found() {
    let damaged = || LedgerError::Damaged {
        reason: "bad".to_owned(),
    };
    let check = |length: usize, bad: &[u64]| {
        let run = entries(&vec![(SALE, "paused"); length]);
        let (mut bisect, mut position, mut attempts) = (QuarantineBisect::new(&run), 0, 0);
        let found = loop {
            attempts += 1;
            let part = bisect.part();
            assert_eq!(part[0].seq, position + 1);
            if part.iter().any(|entry| bad.contains(&entry.seq)) {
                if let Some((entry, reason)) = bisect.failed(damaged()).unwrap() {
                    assert_eq!(reason, "bad");
                    break Some(entry.seq);
                }
            } else {
                position = part.last().unwrap().seq;
                if !bisect.settled(position) {
                    break None;
                }
            }
        };
        assert_eq!(found, bad.first().copied(), "{length} {bad:?}");
        assert_eq!(position, bad.first().map_or(length as u64, |seq| seq - 1));
        assert!(
            attempts <= 2 * length.ilog2() + 2,
            "{attempts} for {length}"
        );
    };
    check(1, &[]);
    check(100, &[]);
    check(1, &[1]);
    for bad in 1..=33 {
        check(33, &[bad]);
    }
    check(512, &[300, 301, 512]);

    let run = entries(&[(SALE, "paused")]);
    let outage = LedgerError::Unavailable {
        reason: "it is away".to_owned(),
    };
    assert_eq!(
        QuarantineBisect::new(&run).failed(outage.clone()),
        Err(outage)
    );
    assert_eq!(QuarantineBisect::new(&[]).failed(damaged()), Err(damaged()));
    let count = |refused| QuarantineCount {
        refused,
        waiting: 9_999,
    };
    assert_eq!(check_refused(count(REFUSED_MAX - 1), "bad"), Ok(()));
    let full = check_refused(count(REFUSED_MAX), "bad").unwrap_err();
    assert!(
        full.to_string()
            .contains("in quarantine already, and now: bad")
    );
}

#[test]
fn a_changed_stock_is_the_campaigns_and_no_parts() {
    let campaigns = [KnownCampaign {
        parts: 2,
        part: Some(Phase::Scheduled),
        ..known(8, SALE, CampaignKind::Sale)
    }];
    let changed = entries(&[(SALE, "stock_changed 50"), (SALE, "stock_changed -8")]);
    let plan = SettlementPlan::new(PartitionId(0), &changed, &campaigns, &[]).unwrap();
    let supplies: Vec<i64> = plan.campaigns.iter().map(|change| change.supply).collect();
    assert_eq!(supplies, [42]);
    let unopened = [KnownCampaign {
        part: None,
        ..campaigns[0].clone()
    }];
    assert!(SettlementPlan::new(PartitionId(0), &changed, &unopened, &[]).is_err());
}

#[test]
fn a_discarded_order_leaves_its_payments_owed() {
    let campaigns = [known(3, SALE, CampaignKind::Sale)];
    // Steps of order 1, position of the close, units for the owner, and refund due; `None` if it is too early.
    let check = |events: &[&str], closed: Option<u64>, expected: Option<(i64, i64)>| {
        let texts: Vec<_> = events.iter().map(|event| (SALE, *event)).collect();
        let steps = entries(&texts);
        let plan =
            SettlementPlan::from_discard(PartitionId(0), &steps, &campaigns, closed).unwrap();
        let found = plan.map(|plan| {
            let returned = plan.campaigns.iter().map(|change| {
                assert_eq!((change.granted, change.refunded, change.supply), (0, 0, 0));
                change.returned
            });
            let owed = plan
                .accounts
                .iter()
                .filter(|(key, _)| key.purpose == AccountPurpose::RefundsDue);
            (returned.sum(), owed.map(|(_, amount)| amount).sum())
        });
        assert_eq!(found, expected, "{events:?} {closed:?}");
    };
    const GRANT: &str = "granted 1 ann 2 50";
    check(&[GRANT], None, None);
    check(&[GRANT, "paid 1 p"], None, None);
    check(&[GRANT, "cancelled 1"], None, Some((0, 0)));
    check(&[GRANT, "expired 1"], Some(9), Some((0, 0)));
    check(&[GRANT, "expired 1"], Some(1), Some((2, 0)));
    check(&[GRANT, "expired 1", "reinstated 1 p"], None, None);
    check(
        &[GRANT, "paid 1 p", "refund_due 1 q", "returned 1"],
        None,
        Some((0, 100)),
    );
    let steps = entries(&[(SALE, "paid 1 p")]);
    assert!(SettlementPlan::from_discard(PartitionId(0), &steps, &campaigns, None).is_err());
    assert!(
        SettlementPlan::from_discard(PartitionId(0), &entries(&[(SALE, GRANT)]), &[], None)
            .is_err()
    );
}
