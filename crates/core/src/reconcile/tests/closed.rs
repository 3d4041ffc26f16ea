//! Parts that are closed in the ledger, and whose close the engine has lost.

use super::{super::*, at, entries, facts, rows};
use crate::campaign::{CampaignKind, Phase};

fn closed(text: &str) -> PartRows {
    PartRows {
        phase: Phase::Closed,
        ..rows(text)
    }
}

/// A part that the ledger has closed with the rows in `ledger`. It has returned `returned` units to the owner, of 10
/// minor units each.
fn survey<'a>(
    kind: CampaignKind,
    (engine, supply): (&str, u64),
    (ledger, returned): (&str, u64),
) -> Survey<'a> {
    let is_packet = kind == CampaignKind::RedPacket;
    let minor = |units: u64| if is_packet { 10 * units as i64 } else { 0 };
    Survey {
        facts: facts(kind, 2),
        engine: EnginePart {
            rows: rows(engine),
            shares: Vec::new(),
            supply,
            funded_minor: minor(supply),
            numbered: 0,
        },
        ledger: closed(ledger),
        closed: Some(OwnerReturn {
            units: returned,
            amount_minor: minor(returned),
        }),
        ledger_is_ahead: true,
        in_flight: &[],
        kept: &[],
        unnamed: 0,
        accounted: Default::default(),
        skips: None,
        withheld: 0,
        withheld_shares: Default::default(),
        now: at(9_000),
    }
}

fn numbers(repair: &Repair) -> (u64, u64, u64, i64, Phase) {
    let Repair {
        supply,
        granted,
        returned,
        refunded_minor,
        ..
    } = *repair;
    (supply, granted, returned, refunded_minor, repair.rows.phase)
}

/// Units that an earlier repair had withheld went back at the close. The engine's hash is older, so it does not show
/// that.
#[test]
fn what_was_withheld_has_gone_back() {
    let packet = survey(
        CampaignKind::RedPacket,
        ("1 ann 1 held", 3),
        ("1 ann 1 held", 4),
    );
    let repair = packet.repair();
    assert_eq!(numbers(&repair), (5, 1, 4, 40, Phase::Closed));
    assert_eq!((repair.remaining, repair.withheld.units), (0, 0));
    let sale = survey(
        CampaignKind::Sale,
        ("1 ann 1 paid p1", 3),
        ("1 ann 1 paid p1", 4),
    );
    assert_eq!(numbers(&sale.repair()), (5, 1, 4, 0, Phase::Closed));
}

/// Entries of a lost history do not change closed books: units have gone back, and only refunds become due.
#[test]
fn what_is_closed_takes_no_units() {
    let check = |engine: &str, kept: &str, conflicts: usize| {
        let kept = entries(kept);
        let survey = Survey {
            kept: &kept,
            ..survey(CampaignKind::Sale, (engine, 5), ("1 ann 1 expired", 5))
        };
        let repair = survey.repair();
        assert_eq!(
            numbers(&repair),
            (5, 0, 5, 0, Phase::Closed),
            "{engine} {kept:?}"
        );
        assert_eq!(repair.conflicts.len(), conflicts, "{engine} {kept:?}");
        super::appended(&repair)
    };
    assert_eq!(check("1 ann 1 held", "", 0), "");
    assert_eq!(check("1 ann 1 paid p1", "", 0), "refund_due 1 p1");
    assert_eq!(
        check("1 ann 1 held", "reinstated 1 p1", 0),
        "refund_due 1 p1"
    );
    assert_eq!(check("1 ann 1 expired, 2 bob 1 held", "", 1), "");
    assert_eq!(check("1 ann 1 expired", "granted 2 bob 1 10", 1), "");
}

/// Orders of a closed sale can still be paid and still expire. Their units go back to the owner as well.
#[test]
fn orders_go_on_after_the_close() {
    let kept = entries("paid 1 p1, cancelled 2");
    let survey = Survey {
        kept: &kept,
        ..survey(
            CampaignKind::Sale,
            ("", 5),
            ("1 ann 1 held, 2 bob 2 held", 2),
        )
    };
    let repair = survey.repair();
    assert_eq!(super::appended(&repair), "cancelled 2, paid 1 p1");
    assert_eq!(numbers(&repair), (5, 1, 4, 0, Phase::Closed));
}

/// Units had moved between parts, and back before the close. A closed part keeps the units of its close, and the rest
/// belongs to the open parts.
#[test]
fn parts_keep_what_they_closed_with() {
    for kind in [CampaignKind::Sale, CampaignKind::RedPacket] {
        let part = |index: u16, engine: (&str, u64), ledger: (&str, u64)| {
            let mut part = survey(kind, engine, ledger);
            (part.facts.parts, part.facts.index) = (3, index);
            part
        };
        let open = Survey {
            ledger: rows("3 cat 1 held"),
            closed: None,
            ..part(2, ("", 3), ("", 0))
        };
        let is_packet = kind == CampaignKind::RedPacket;
        let free = [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let repairs = SpreadSurvey {
            supply: 15,
            elsewhere: 0,
            elsewhere_shares: Default::default(),
            free: free
                .into_iter()
                .filter(|_| is_packet)
                .map(|n| (n, 10))
                .collect(),
            parts: vec![
                part(0, ("", 2), ("1 ann 1 held", 4)),
                part(1, ("", 8), ("", 5)),
                open,
            ],
        }
        .repair();
        let found: Vec<_> = repairs
            .iter()
            .map(|it| (it.supply, it.granted, it.remaining, it.returned))
            .collect();
        assert_eq!(
            found,
            [(5, 1, 0, 4), (5, 0, 0, 5), (5, 1, 4, 0)],
            "{kind:?}"
        );
    }
}
