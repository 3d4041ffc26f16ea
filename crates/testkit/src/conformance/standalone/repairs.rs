//! The ledger's record of repairs, and attempts that another process has superseded.

use qiang_core::{
    book::CampaignAction,
    campaign::CampaignKind,
    event::PartitionId,
    ports::{LedgerError, NumberRange, RepairAttempt, RepairRecord, WithheldRecord},
    reconcile::PartFacts,
};

use super::{Fixture, fixture::PARTS};
use crate::campaign::{HOLD_MS, OPENS, sale};

/// A repair and its withheld units are recorded until they are released or their shard closes. If a repair did not
/// finish, the next repair covers its loss too.
pub async fn repairs_are_written_down(case: &mut Fixture) {
    let sale = case.open(&sale(9).limit(3)).await;
    let (partition, another) = (case.partition(0), case.partition(1));
    let repair = |partition: PartitionId, epoch: &str, at: i64| RepairRecord {
        partition,
        epoch: epoch.to_owned(),
        follows: String::new(),
        at: OPENS.plus_millis(at),
        lost_from: 3,
        lost_to: 5,
        unnamed: 2,
        reason: "it's lost".to_owned(),
        upto: None,
    };
    let withheld = |repair: &RepairRecord, units: u32, numbers: &[u32]| WithheldRecord {
        partition: repair.partition,
        epoch: repair.epoch.clone(),
        campaign: sale.id,
        units: units.into(),
        amount_minor: i64::from(units) * 100,
        numbers: NumberRange::from_numbers(numbers.iter().copied(), 3),
        released_at: None,
    };
    let attempt = |partition: PartitionId, number: u64, repairer: &str| RepairAttempt {
        partition,
        number,
        repairer: repairer.to_owned(),
    };
    let (one, two) = (attempt(partition, 1, "one"), attempt(partition, 2, "two"));
    let (first, mut second) = (repair(partition, "a", 0), repair(partition, "b", 1));
    case.settle_all(0).await;
    let ledger = case.ledger();
    assert_eq!(ledger.last_attempt(partition).await, Ok(0));
    let stale_error = LedgerError::StaleRepairAttempt {
        partition: partition.0,
    };
    let stale = Err(stale_error.clone());
    assert_eq!(
        ledger.begin_repair(&first, &one).await,
        stale,
        "the attempt is not claimed"
    );
    assert_eq!(
        ledger.claim_repair(&two).await,
        stale,
        "the attempt is not the next one"
    );
    for _ in 0..2 {
        assert_eq!(
            ledger.claim_repair(&one).await,
            Ok(()),
            "a repetition succeeds too"
        );
    }
    ledger.begin_repair(&first, &one).await.unwrap();
    let of_first = withheld(&first, 1, &[4]);
    ledger.withhold(&of_first, &one).await.unwrap();
    ledger.claim_repair(&two).await.unwrap();
    ledger.begin_repair(&second, &two).await.unwrap();
    assert_eq!(ledger.last_attempt(partition).await, Ok(2));
    assert_eq!(ledger.withheld(partition).await, Ok(Vec::new()));
    // The last one of two records counts.
    for numbers in [&[4, 10][..], &[4, 7, 13]] {
        let said = withheld(&second, 2, numbers);
        ledger.withhold(&said, &two).await.unwrap();
    }
    let mut kept = withheld(&second, 2, &[4, 7, 13]);
    case.restart().await;
    let ledger = case.ledger();
    assert_eq!(ledger.withheld(partition).await, Ok(vec![kept.clone()]));
    // The first attempt was stopped, and its late steps are refused. This includes steps for a larger loss under a new
    // epoch, and steps under the epoch of the second attempt.
    let grown = RepairRecord {
        lost_to: 7,
        ..repair(partition, "c", 3)
    };
    for late in [&first, &second, &grown] {
        assert_eq!(ledger.begin_repair(late, &one).await, stale);
        assert_eq!(ledger.withhold(&withheld(late, 3, &[4]), &one).await, stale);
        assert_eq!(ledger.finish_repair(&late.epoch, 9, &one).await, stale);
    }
    assert_eq!(ledger.claim_repair(&one).await, stale);
    let position = case.settled(0).await;
    let upto = position + 3;
    let past = ledger.settle_past(&one, position, &[], upto).await;
    assert_eq!(
        (past, case.settled(0).await),
        (Err(stale_error.clone()), position)
    );
    let namesake = attempt(partition, 2, "another");
    assert_eq!(ledger.claim_repair(&namesake).await, stale);
    assert_eq!(ledger.begin_repair(&grown, &namesake).await, stale);
    assert_eq!(ledger.withhold(&kept, &namesake).await, stale);
    let part = PartFacts {
        campaign: sale.id,
        kind: CampaignKind::Sale,
        parts: PARTS,
        index: 0,
        limit: Some(3),
        hold_ms: HOLD_MS,
        currency: None,
        fixed_shares: false,
    };
    // The first attempt cannot change counts either.
    assert_eq!(ledger.recount(part, 1, &one).await, stale);
    assert_eq!(ledger.withheld(partition).await, Ok(vec![kept.clone()]));
    // A repair that begins again finds its withheld units recorded.
    let three = attempt(partition, 3, "three");
    ledger.claim_repair(&three).await.unwrap();
    ledger.begin_repair(&second, &three).await.unwrap();
    assert_eq!(ledger.finish_repair("b", 9, &two).await, stale);
    assert_eq!(ledger.withheld(partition).await, Ok(vec![kept.clone()]));
    // The repair before this one stays unfinished until this one finishes, because a loss in between needs the entries
    // that it misses.
    let both = Ok(vec![second.clone(), first.clone()]);
    assert_eq!(ledger.repairs(partition, 10).await, both);
    let ended = RepairRecord {
        upto: Some(5),
        ..first
    };
    ledger.finish_repair("b", 9, &three).await.unwrap();
    let begun = second.clone();
    second.upto = Some(9);
    let all = Ok(vec![second, ended.clone()]);
    assert_eq!(ledger.repairs(partition, 10).await, all);
    // This attempt finds the repair finished, because the engine's halt did not end. It changes nothing.
    let four = attempt(partition, 4, "four");
    ledger.claim_repair(&four).await.unwrap();
    ledger.begin_repair(&begun, &four).await.unwrap();
    let again = withheld(&begun, 3, &[4, 7, 10]);
    ledger.withhold(&again, &four).await.unwrap();
    ledger.finish_repair("b", 8, &four).await.unwrap();
    assert_eq!(ledger.withhold(&again, &three).await, stale);
    assert_eq!(ledger.repairs(partition, 10).await, all);
    assert_eq!(ledger.withheld(partition).await, Ok(vec![kept.clone()]));
    // A loss that has grown is repaired again.
    let grown = RepairRecord {
        lost_to: 6,
        ..begun
    };
    let five = attempt(partition, 5, "five");
    ledger.claim_repair(&five).await.unwrap();
    ledger.begin_repair(&grown, &five).await.unwrap();
    assert_eq!(ledger.repairs(partition, 10).await, Ok(vec![grown, ended]));
    ledger.withhold(&kept, &five).await.unwrap();
    ledger.finish_repair("b", 9, &five).await.unwrap();
    assert_eq!(ledger.repairs(another, 10).await, Ok(Vec::new()));

    // A release in one partition does not release units in another. A close releases the units of its own shard.
    let third = repair(another, "b", 2);
    let elsewhere = attempt(another, 1, "one");
    ledger.claim_repair(&elsewhere).await.unwrap();
    ledger.begin_repair(&third, &elsewhere).await.unwrap();
    let of_third = withheld(&third, 1, &[]);
    ledger.withhold(&of_third, &elsewhere).await.unwrap();
    ledger.release_withheld(another).await.unwrap();
    let given_back = ledger.withheld(another).await.unwrap();
    assert!(given_back[0].released_at.is_some());
    assert_eq!(ledger.withheld(partition).await, Ok(vec![kept.clone()]));
    case.later(1_000);
    case.act(sale.id, CampaignAction::Close);
    let closed = case.log(0).last().map(|entry| entry.at);
    case.settle_all(1).await;
    assert_eq!(case.ledger().withheld(another).await, Ok(given_back));
    assert_eq!(
        case.ledger().withheld(partition).await,
        Ok(vec![kept.clone()])
    );
    case.settle_all(0).await;
    kept.released_at = closed;
    assert_eq!(case.ledger().withheld(partition).await, Ok(vec![kept]));
}
