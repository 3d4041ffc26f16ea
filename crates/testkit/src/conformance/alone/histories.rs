//! Random histories, settled in random order: at any cut the ledger is what the settled entries make of it.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use qiang_core::{
    book::CampaignAction,
    event::{Entry, Seq},
    ports::LedgerError,
    split::SplitRule,
};

use super::{Bench, LedgerSubject, bench::PARTS};
use crate::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPENS, Target, red_packet, sale},
    conformance::to_its_end,
};

/// Steps of a history.
const STEPS_MAX: usize = 120;
/// Users who come again and again.
const USERS: u8 = 12;
/// Entries that one settlement carries, at most.
const CARRIED_MAX: u64 = 30;

/// Something that happens, or is settled.
#[derive(Debug, Clone)]
enum Step {
    Claim {
        campaign: usize,
        user: u8,
        quantity: u32,
        key: u8,
    },
    Pay {
        campaign: usize,
        number: u32,
        payment: u8,
    },
    Cancel {
        campaign: usize,
        number: u32,
    },
    Act {
        campaign: usize,
        action: CampaignAction,
    },
    Later {
        millis: i64,
    },
    /// Some entries of one part, and some again that were settled before.
    Carry {
        part: usize,
        entries: u64,
        overlap: u64,
    },
    Restart,
}

fn campaigns() -> [Builder; 4] {
    [
        red_packet(1_000, 8, SplitRule::DoubleAverage { min: 1 }).owner("ann"),
        red_packet(500, 7, SplitRule::Lazy { min: 10 }).owner("ben"),
        sale(9).limit(3).owner("ann"),
        sale(5).owner("cleo"),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let campaign = 0..campaigns().len();
    let actions = prop_oneof![
        4 => Just(CampaignAction::Pause),
        4 => Just(CampaignAction::Resume),
        1 => Just(CampaignAction::Close),
    ];
    prop_oneof![
        24 => (campaign.clone(), 0..USERS, 1_u32..=2, 0_u8..3).prop_map(
            |(campaign, user, quantity, key)| Step::Claim { campaign, user, quantity, key }
        ),
        5 => (2..4_usize, 1..=20_u32, 0_u8..3)
            .prop_map(|(campaign, number, payment)| Step::Pay { campaign, number, payment }),
        5 => (2..4_usize, 1..=20_u32).prop_map(|(campaign, number)| Step::Cancel { campaign, number }),
        2 => (campaign, actions).prop_map(|(campaign, action)| Step::Act { campaign, action }),
        2 => (0..2 * HOLD_MS).prop_map(|millis| Step::Later { millis }),
        14 => (0..usize::from(PARTS), 1..=CARRIED_MAX, 0_u64..6)
            .prop_map(|(part, entries, overlap)| Step::Carry { part, entries, overlap }),
        1 => Just(Step::Restart),
    ]
}

/// Whatever happens, and however the parts' logs are settled: twice, overlapping, one far ahead of another, with
/// restarts between.
///
/// # Panics
/// With the shortest history that fails.
pub fn any_history_settles_in_any_order<L: LedgerSubject>() {
    let config = Config {
        cases: L::HISTORIES,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = proptest::collection::vec(step(), 1..STEPS_MAX);
    let tried = TestRunner::new(config).run(&steps, |steps| {
        to_its_end(async {
            let mut bench = Bench::<L>::start(ManualClock::new(OPENS)).await;
            play(&mut bench, &steps).await;
            bench.stop().await;
        });
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

async fn play<L: LedgerSubject>(bench: &mut Bench<L>, steps: &[Step]) {
    let mut targets = Vec::new();
    for builder in campaigns() {
        targets.push(bench.open(&builder).await);
    }
    for step in steps {
        take(bench, &targets, step).await;
    }
    // The rest, a little of each part in turn, and then all once again.
    let parts = usize::from(PARTS);
    for round in 0.. {
        let part = round % parts;
        carry(bench, part, CARRIED_MAX, 0).await;
        let mut left = 0;
        for part in 0..parts {
            left += bench.log(part).len() as Seq - bench.settled(part).await;
        }
        if left == 0 {
            break;
        }
    }
    bench.compare().await;
    for part in 0..parts {
        bench
            .settle(part, bench.log(part).len() as Seq, Seq::MAX)
            .await;
    }
    bench.compare().await;
}

async fn take<L: LedgerSubject>(bench: &mut Bench<L>, targets: &[Target], step: &Step) {
    match step {
        Step::Claim {
            campaign,
            user,
            quantity,
            key,
        } => {
            let claim =
                targets[*campaign].keyed(&format!("u{user}"), *quantity, &format!("k{key}"));
            bench.claim(&claim);
        }
        Step::Pay {
            campaign,
            number,
            payment,
        } => bench.pay(targets[*campaign].order(*number), &format!("p{payment}")),
        Step::Cancel { campaign, number } => bench.cancel(targets[*campaign].order(*number)),
        Step::Act { campaign, action } => bench.act(targets[*campaign].id, *action),
        Step::Later { millis } => bench.later(*millis),
        Step::Carry {
            part,
            entries,
            overlap,
        } => {
            carry(bench, *part, *entries, *overlap).await;
            bench.compare().await;
        }
        Step::Restart => {
            bench.restart().await;
            bench.compare().await;
        }
    }
}

/// Of so many entries one is refused without a reason of its own.
const UNLUCKY: u8 = 12;
/// Entries after which the unlucky ones repeat.
const LUCK: usize = 61;

/// Whatever is refused in a history: the rest is settled; what is left is settled after all, in the order of the places
/// and at the first attempt, and then the ledger is as if nothing had been refused. Where it is left, the books are
/// those of a history that conserves units and money, which whoever stops the ledger may look at.
///
/// # Panics
/// With the shortest history that fails.
pub fn any_history_survives_refusals<L: LedgerSubject>() {
    let config = Config {
        // Each sets up a ledger and settles it twice.
        cases: L::HISTORIES.div_ceil(2),
        failure_persistence: None,
        ..Config::default()
    };
    let steps = proptest::collection::vec(step(), 1..STEPS_MAX);
    let luck = proptest::collection::vec(0..UNLUCKY, LUCK);
    let case = (steps, luck, any::<bool>());
    let tried = TestRunner::new(config).run(&case, |(steps, luck, mended)| {
        to_its_end(async {
            let mut bench = Bench::<L>::start(ManualClock::new(OPENS)).await;
            refuse(&mut bench, &steps, &luck).await;
            if mended {
                redrive_all(&bench).await;
                bench.compare().await;
            }
            bench.stop().await;
        });
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

async fn refuse<L: LedgerSubject>(bench: &mut Bench<L>, steps: &[Step], luck: &[u8]) {
    let mut targets = Vec::new();
    for builder in campaigns() {
        targets.push(bench.open(&builder).await);
    }
    for step in steps {
        match step {
            Step::Carry { part, entries, .. } => carry_some(bench, *part, *entries, luck).await,
            Step::Restart => bench.restart().await,
            step => take(bench, &targets, step).await,
        }
    }
    for part in 0..usize::from(PARTS) {
        carry_some(bench, part, Seq::MAX, luck).await;
    }
}

/// Settles so many entries of a part, but sets those aside that are unlucky, and those that the ledger refuses.
async fn carry_some<L: LedgerSubject>(bench: &Bench<L>, part: usize, entries: u64, luck: &[u8]) {
    let (ledger, partition) = (bench.ledger(), bench.partition(part));
    let from = bench.settled(part).await as usize;
    let left = &bench.log(part)[from..];
    let left = &left[..left
        .len()
        .min(usize::try_from(entries).unwrap_or(usize::MAX))];
    let unlucky = |entry: &Entry| luck[(entry.seq as usize * 3 + part) % luck.len()] == 0;
    for run in left.chunk_by(|one, next| unlucky(one) == unlucky(next)) {
        let refused = unlucky(&run[0]);
        if !refused && ledger.settle(partition, run).await.is_ok() {
            continue;
        }
        // What settlement does about it, but for the halving.
        for entry in run {
            let settled = match refused {
                true => Err("bad luck".to_owned()),
                false => match ledger.settle(partition, std::slice::from_ref(entry)).await {
                    Err(LedgerError::Damaged { reason }) => Err(reason),
                    other => Ok(other),
                },
            };
            let settled = match settled {
                Ok(settled) => settled,
                Err(reason) => ledger.quarantine(partition, entry, &reason).await,
            };
            assert_eq!(settled, Ok(entry.seq));
        }
    }
}

/// Settles all that is set aside, partition by partition.
async fn redrive_all<L: LedgerSubject>(bench: &Bench<L>) {
    let ledger = bench.ledger();
    let listed = ledger.list_quarantined(None, u32::MAX).await;
    for aside in listed.expect("the ledger lists what is set aside") {
        let driven = ledger.redrive(aside.partition, aside.entry.seq).await;
        assert_eq!(driven, Ok(true), "{aside:?}");
    }
}

async fn carry<L: LedgerSubject>(bench: &Bench<L>, part: usize, entries: u64, overlap: u64) {
    let head = bench.log(part).len() as Seq;
    let upto = (bench.settled(part).await + entries).min(head);
    bench.settle(part, upto, overlap).await;
}
