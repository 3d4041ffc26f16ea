//! Sales that are started now, and starts that are moved, with lost answers and while other callers act.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{CampaignError, Phase, SaleSettingsChange, Tally},
    event::Event,
    id::CampaignId,
    outcome::Outcome,
    ports::{Engine as _, EngineError},
    time::Timestamp,
};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPEN_MS, OPENS, Target, sale},
    proxy::FaultProxy,
};

use crate::redis_faults::harness::{Harness, SHORT_PAUSE, name, node, options, shared};

const CALL_TIMEOUT: Duration = Duration::from_millis(100);
const CLAIM_TIMEOUT: Duration = Duration::from_millis(600);
const SHARD_SUPPLY_MIN: u32 = 1_000;
const INSIST_MAX: Duration = Duration::from_secs(60);
const USERS: usize = 20;

/// Sales of this stock have two shards.
const SPREAD: u32 = 2 * SHARD_SUPPLY_MIN;

fn two_shards(clock: &Arc<ManualClock>) -> RedisOptions {
    RedisOptions {
        clock: Some(clock.clone()),
        shard_supply_min: SHARD_SUPPLY_MIN,
        shards_max: 2,
        ..options(shared().url())
    }
}

fn start_at(campaign: CampaignId, at: Timestamp) -> Command {
    let change = SaleSettingsChange {
        starts_at: Some(at),
        ..SaleSettingsChange::default()
    };
    Command::SetTerms { campaign, change }
}

fn act(campaign: CampaignId, action: CampaignAction) -> Command {
    Command::Act { campaign, action }
}

/// Retries a command until it is decided.
async fn insist(harness: &Harness, node: usize, command: Command) -> Result<Tally, Refusal> {
    let until = Instant::now() + INSIST_MAX;
    loop {
        match harness.submit(node, command.clone()).await {
            Ok(Reply::Acted(tally)) => return Ok(tally),
            Err(EngineError::Refused(refusal)) => return Err(refusal),
            Err(EngineError::Unavailable { .. } | EngineError::Uncertain { .. }) => {}
            other => panic!("{command:?} retried: {other:?}"),
        }
        assert!(Instant::now() < until, "no answer in time");
        tokio::time::sleep(SHORT_PAUSE).await;
    }
}

/// Units that `USERS` users have after each has claimed. A node's gate may know of a pause for a moment longer.
async fn grants(harness: &Harness, target: Target) -> u64 {
    let until = Instant::now() + INSIST_MAX;
    for n in 0..USERS {
        let claim = target.one(&name(n));
        while harness
            .record
            .insist(&harness.nodes, n, &claim)
            .await
            .outcome
            == Outcome::Paused
        {
            assert!(Instant::now() < until, "the gate stays closed");
            tokio::time::sleep(SHORT_PAUSE).await;
        }
    }
    let tally = harness.nodes[0].present_tally(target.id).await.unwrap();
    tally.unwrap().granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_whose_answer_was_lost_is_made_once() {
    let proxy = FaultProxy::start(shared().addr()).await;
    let clock = ManualClock::new(OPENS);
    let direct = two_shards(&clock);
    let behind = RedisOptions {
        urls: vec![format!("redis://{}", proxy.addr())],
        call_timeout: CALL_TIMEOUT,
        claim_timeout: CLAIM_TIMEOUT,
        ..direct.clone()
    };
    let mut harness = Harness::new(direct).await;
    harness.nodes[0].close().await;
    harness.nodes.swap(0, 1);
    let later = OPENS.plus_millis(OPEN_MS);
    let targets = [
        harness.open(sale(100).window(later, OPEN_MS)).await,
        harness.open(sale(SPREAD).window(later, OPEN_MS)).await,
    ];
    harness.nodes.swap(0, 1);
    harness.nodes[0] = node(&behind, &[]).await;
    clock.set(OPENS.plus_millis(7));
    for target in targets {
        let start = act(target.id, CampaignAction::Start);
        // Redis starts the sale, but its answer is lost.
        proxy.drop_responses().await;
        let lost = harness.submit(0, start.clone()).await;
        assert!(
            matches!(
                lost,
                Err(EngineError::Uncertain { .. } | EngineError::Unavailable { .. })
            ),
            "{lost:?}"
        );
        proxy.pass().await;
        for node in [1, 0, 0] {
            let tally = insist(&harness, node, start.clone()).await.unwrap();
            let window = tally.terms.unwrap().window;
            assert_eq!(tally.phase, Phase::Live);
            assert_eq!(window.starts_at(), OPENS.plus_millis(7));
            assert_eq!(window.ends_at(), later.plus_millis(OPEN_MS));
        }
        assert_eq!(grants(&harness, target).await, USERS as u64);
    }
    let logs = harness.logs().await;
    for (target, parts) in targets.into_iter().zip([1, 2]) {
        let entries = logs.iter().flatten();
        let own = entries.filter(|entry| entry.campaign == target.id);
        let changed = own.filter(|entry| matches!(entry.event, Event::TermsChanged { .. }));
        assert_eq!(changed.count(), parts, "each shard starts once");
    }
    harness.audit_logs(logs, true).await;
}

/// The shards of a spread sale grant independently, so its start does not move once it has opened, even while it is
/// paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_of_a_spread_sale_moves_only_until_it_opens() {
    let clock = ManualClock::new(OPENS);
    let mut harness = Harness::new(two_shards(&clock)).await;
    let later = OPENS.plus_millis(100_000);
    let scheduled = harness.open(sale(SPREAD).window(later, OPEN_MS)).await;
    let moved = start_at(scheduled.id, later.plus_millis(1));
    insist(&harness, 0, moved).await.unwrap();
    let target = harness.open(sale(SPREAD)).await;
    let refused = Err(Refusal::Rules(CampaignError::HasOpened));
    let late = start_at(target.id, later);
    assert_eq!(insist(&harness, 0, late.clone()).await, refused);
    let pause = act(target.id, CampaignAction::Pause);
    insist(&harness, 0, pause).await.unwrap();
    assert_eq!(insist(&harness, 1, late).await, refused);
    let resume = act(target.id, CampaignAction::Resume);
    let resumed = insist(&harness, 1, resume).await.unwrap();
    assert_eq!(resumed.phase, Phase::Live);
    assert_eq!(grants(&harness, target).await, USERS as u64);
    harness.audit().await;
}
