//! Random histories, settled in random order. At any cut, the ledger follows from the settled entries.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use qiang_core::{
    book::CampaignAction,
    event::{Entry, Seq},
    payment::{PaymentPolicy, ReceivedMoney},
    ports::LedgerError,
    split::SplitRule,
};

use super::{Fixture, LedgerSubject, any_ledger::start_ledger, fixture::PARTS};
use crate::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPENS, Target, red_packet, sale},
    conformance::to_its_end,
    histories::{self, CommandDraft, Request},
};

/// Maximum steps of a history.
const STEPS_MAX: usize = 120;
/// Number of users. They claim repeatedly.
const USERS: u8 = 12;
/// Maximum entries settled at once.
const RUN_MAX: u64 = 30;

/// A command, a time step, or a settlement.
#[derive(Debug, Clone)]
enum Step {
    Command(CommandDraft),
    Later {
        millis: i64,
    },
    /// Settles some entries of one shard, and some that were settled before.
    Settle {
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
        sale(9)
            .limit(3)
            .owner("ann")
            .payment_policy(PaymentPolicy::AcceptOver),
        sale(5)
            .owner("cleo")
            .payment_policy(PaymentPolicy::AcceptOver),
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
            |(campaign, user, quantity, key)| Step::Command(CommandDraft::Claim {
                campaign,
                mistaken: false,
                user,
                quantity,
                key: Some(key),
            })
        ),
        5 => (2..4_usize, 1..=20_u32, 0_u8..3, histories::received(), histories::cancelled())
            .prop_map(|(campaign, number, payment, received, cancelled)| Step::Command(CommandDraft::Pay {
                campaign,
                number,
                payment,
                paid_at: None,
                received: match received {
                    ReceivedMoney::Price if cancelled > 0 => histories::enough(),
                    received => received,
                },
                cancelled,
            })),
        5 => (2..4_usize, 1..=20_u32, histories::part()).prop_map(|(campaign, number, part)| {
            Step::Command(CommandDraft::Cancel { campaign, number, part })
        }),
        3 => (2..4_usize, 1..=20_u32, histories::extension_ms()).prop_map(|(campaign, number, extension_ms)| {
            Step::Command(CommandDraft::ExtendHold { campaign, number, extension_ms })
        }),
        5 => (2..4_usize, 1..=20_u32, histories::part()).prop_map(|(campaign, number, part)| {
            Step::Command(CommandDraft::Return { campaign, number, part })
        }),
        2 => (2..4_usize, 1..14_u32).prop_map(|(campaign, stock)| {
            Step::Command(CommandDraft::SetStock { campaign, stock })
        }),
        2 => (2..4_usize, histories::terms_change(-HOLD_MS..20 * HOLD_MS)).prop_map(|(campaign, change)| {
            Step::Command(CommandDraft::SetTerms { campaign, change })
        }),
        2 => (campaign, actions).prop_map(|(campaign, action)| Step::Command(CommandDraft::Act { campaign, action })),
        2 => (0..2 * HOLD_MS).prop_map(|millis| Step::Later { millis }),
        14 => (0..usize::from(PARTS), 1..=RUN_MAX, 0_u64..6)
            .prop_map(|(part, entries, overlap)| Step::Settle { part, entries, overlap }),
        1 => Just(Step::Restart),
    ]
}

/// Any history settles, however the shards' logs are settled: twice, overlapping, one far ahead of another, and with
/// restarts between.
///
/// # Panics
/// If a history fails. The message contains the shortest one.
pub fn any_history_settles_in_any_order<L: LedgerSubject>() {
    let steps = proptest::collection::vec(step(), 1..STEPS_MAX);
    for_any::<L, _>(L::HISTORIES, &steps, async |fixture, steps| {
        play(fixture, &steps).await;
    });
}

/// Runs `case` on `cases` values, each with its own ledger.
fn for_any<L: LedgerSubject, V: std::fmt::Debug>(
    cases: u32,
    values: &impl Strategy<Value = V>,
    case: impl AsyncFn(&mut Fixture, V),
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let tried = TestRunner::new(config).run(values, |value| {
        to_its_end(async {
            let mut fixture = Fixture::start(start_ledger::<L>, ManualClock::new(OPENS)).await;
            case(&mut fixture, value).await;
            fixture.stop().await;
        });
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

async fn open_all(fixture: &mut Fixture) -> Vec<Target> {
    let mut targets = Vec::new();
    for builder in campaigns() {
        targets.push(fixture.open(&builder).await);
    }
    targets
}

async fn play(fixture: &mut Fixture, steps: &[Step]) {
    let targets = open_all(fixture).await;
    for step in steps {
        perform(fixture, &targets, step).await;
    }
    // The rest, a few entries of each shard in turn, and then all again.
    let parts = usize::from(PARTS);
    for round in 0.. {
        let part = round % parts;
        settle(fixture, part, RUN_MAX, 0).await;
        let mut left = 0;
        for part in 0..parts {
            left += fixture.log(part).len() as Seq - fixture.settled(part).await;
        }
        if left == 0 {
            break;
        }
    }
    fixture.compare().await;
    for part in 0..parts {
        fixture
            .settle(part, fixture.log(part).len() as Seq, Seq::MAX)
            .await;
    }
    fixture.compare().await;
}

async fn perform(fixture: &mut Fixture, targets: &[Target], step: &Step) {
    match step {
        Step::Command(draft) => match draft.request(|campaign| targets[campaign]) {
            Request::Claim(claim) => drop(fixture.claim(&claim)),
            Request::Command(command) => drop(fixture.play(command)),
        },
        Step::Later { millis } => fixture.later(*millis),
        Step::Settle {
            part,
            entries,
            overlap,
        } => {
            settle(fixture, *part, *entries, *overlap).await;
            fixture.compare().await;
        }
        Step::Restart => {
            fixture.restart().await;
            fixture.compare().await;
        }
    }
}

/// One of this many entries is refused at random.
const UNLUCKY: u8 = 12;
/// Entries after which the random refusals repeat.
const LUCK: usize = 61;

/// If any entries of a history are refused, the rest is settled. When the refused entries are redriven in order, each
/// succeeds at the first attempt. The ledger then equals one without refusals. If they are not redriven, the ledger
/// still conserves units and money; the subject may check that in its `stop`.
///
/// # Panics
/// If a history fails. The message contains the shortest one.
pub fn any_history_survives_refusals<L: LedgerSubject>() {
    let steps = proptest::collection::vec(step(), 1..STEPS_MAX);
    let luck = proptest::collection::vec(0..UNLUCKY, LUCK);
    let values = (steps, luck, any::<bool>());
    // Each case starts a ledger and settles it twice.
    let cases = L::HISTORIES.div_ceil(2);
    for_any::<L, _>(cases, &values, async |fixture, (steps, luck, mended)| {
        refuse(fixture, &steps, &luck).await;
        if mended {
            redrive_all(fixture).await;
            fixture.compare().await;
        }
    });
}

async fn refuse(fixture: &mut Fixture, steps: &[Step], luck: &[u8]) {
    let targets = open_all(fixture).await;
    for step in steps {
        match step {
            Step::Settle { part, entries, .. } => settle_some(fixture, *part, *entries, luck).await,
            Step::Restart => fixture.restart().await,
            step => perform(fixture, &targets, step).await,
        }
    }
    for part in 0..usize::from(PARTS) {
        settle_some(fixture, part, Seq::MAX, luck).await;
    }
}

/// Settles some entries of a shard, and quarantines the random ones and the refused ones.
async fn settle_some(fixture: &Fixture, part: usize, entries: u64, luck: &[u8]) {
    let (ledger, partition) = (fixture.ledger(), fixture.partition(part));
    let from = fixture.settled(part).await as usize;
    let left = &fixture.log(part)[from..];
    let left = &left[..left
        .len()
        .min(usize::try_from(entries).unwrap_or(usize::MAX))];
    let unlucky = |entry: &Entry| luck[(entry.seq as usize * 3 + part) % luck.len()] == 0;
    for run in left.chunk_by(|one, next| unlucky(one) == unlucky(next)) {
        let refused = unlucky(&run[0]);
        if !refused && ledger.settle(partition, run).await.is_ok() {
            continue;
        }
        // The same as settlement does, without its bisection.
        for entry in run {
            let settled = match refused {
                true => Err("random refusal".to_owned()),
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

/// Redrives all quarantined entries, partition by partition.
async fn redrive_all(fixture: &Fixture) {
    let ledger = fixture.ledger();
    let listed = ledger.list_quarantined(None, u32::MAX).await;
    for row in listed.expect("the ledger lists quarantined entries") {
        let driven = ledger.redrive(row.partition, row.entry.seq).await;
        assert_eq!(driven, Ok(true), "{row:?}");
    }
}

async fn settle(fixture: &Fixture, part: usize, entries: u64, overlap: u64) {
    let head = fixture.log(part).len() as Seq;
    let upto = (fixture.settled(part).await + entries).min(head);
    fixture.settle(part, upto, overlap).await;
}
