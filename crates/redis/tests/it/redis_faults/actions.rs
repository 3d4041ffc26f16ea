//! Pauses, resumes and closes with lost answers. A retry gets the answer that the action is done, and it was done once.

use std::time::{Duration, Instant};

use qiang_core::{
    book::{CampaignAction, Command, Reply},
    campaign::{Phase, Tally},
    event::Event,
    id::CampaignId,
    ports::{Engine as _, EngineError, EventLog as _},
    split::SplitRule,
};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPEN_MS, OPENS, red_packet, sale},
    proxy::FaultProxy,
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, name, node, open_now, options, shared,
};

const CALL_TIMEOUT: Duration = Duration::from_millis(100);
const CLAIM_TIMEOUT: Duration = Duration::from_millis(600);
const SHARD_SUPPLY_MIN: u32 = 1_000;
const INSIST_MAX: Duration = Duration::from_secs(60);

/// Retries an action until the answer is neither unavailable nor uncertain.
async fn insist(
    harness: &Harness,
    node: usize,
    campaign: CampaignId,
    action: CampaignAction,
) -> Tally {
    let until = Instant::now() + INSIST_MAX;
    loop {
        match harness
            .submit(node, Command::Act { campaign, action })
            .await
        {
            Ok(Reply::Acted(tally)) => return tally,
            Err(EngineError::Unavailable { .. } | EngineError::Uncertain { .. }) => {}
            other => panic!("{action:?} retried: {other:?}"),
        }
        assert!(Instant::now() < until, "no answer in time");
        tokio::time::sleep(SHORT_PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_whose_answer_was_lost_is_done_when_it_is_asked_for_again() {
    let proxy = FaultProxy::start(shared().addr()).await;
    let direct = RedisOptions {
        shard_supply_min: SHARD_SUPPLY_MIN,
        shards_max: 2,
        ..options(shared().url())
    };
    let behind = RedisOptions {
        urls: vec![format!("redis://{}", proxy.addr())],
        call_timeout: CALL_TIMEOUT,
        claim_timeout: CLAIM_TIMEOUT,
        ..direct.clone()
    };
    let mut harness = Harness::new(direct).await;
    harness.nodes[0].close().await;
    let split = SplitRule::Lazy { min: 1 };
    // A sale on one shard, a sale on two, and a packet. The node that uses the proxy did not open them.
    harness.nodes.swap(0, 1);
    let targets = [
        harness.open(open_now(sale(100))).await,
        harness.open(open_now(sale(2 * SHARD_SUPPLY_MIN))).await,
        harness.open(open_now(red_packet(10_000, 50, split))).await,
    ];
    harness.nodes.swap(0, 1);
    harness.nodes[0] = node(&behind, &[]).await;
    for target in targets {
        for n in 0..20 {
            harness
                .record
                .insist(&harness.nodes, n, &target.one(&name(n)))
                .await;
        }
    }
    for target in targets {
        for (action, phase) in [
            (CampaignAction::Pause, Phase::Paused),
            (CampaignAction::Resume, Phase::Live),
            (CampaignAction::Pause, Phase::Paused),
            (CampaignAction::Close, Phase::Closed),
        ] {
            // Redis carries out the action, but its answer is lost.
            proxy.drop_responses().await;
            let campaign = target.id;
            let lost = harness.submit(0, Command::Act { campaign, action }).await;
            assert!(
                matches!(
                    lost,
                    Err(EngineError::Uncertain { .. } | EngineError::Unavailable { .. })
                ),
                "{lost:?}"
            );
            proxy.pass().await;
            for node in [1, 0, 0] {
                let tally = insist(&harness, node, campaign, action).await;
                assert_eq!((tally.phase, tally.conserves()), (phase, true), "{tally:?}");
            }
            let direct = &harness.nodes[1];
            let present = direct.present_tally(campaign).await.unwrap();
            assert_eq!(present.map(|tally| tally.phase), Some(phase));
            let grants = !direct.is_paused_throughout(campaign).await.unwrap();
            assert_eq!(grants, phase == Phase::Live, "{phase:?}");
        }
    }
    let logs = harness.logs().await;
    for (target, parts) in targets.into_iter().zip([1, 2, 1]) {
        let count = |wanted: &dyn Fn(&Event) -> bool| {
            let entries = logs.iter().flatten();
            let own = entries.filter(|entry| entry.campaign == target.id);
            own.filter(|entry| wanted(&entry.event)).count()
        };
        let counts = [
            count(&|event| matches!(event, Event::Paused)),
            count(&|event| matches!(event, Event::Resumed)),
            count(&|event| matches!(event, Event::Closed { .. })),
        ];
        assert_eq!(
            counts,
            [2 * parts, parts, parts],
            "each action was done once"
        );
    }
    harness.audit_logs(logs, true).await;
}

/// The answer to a pause is lost, and the retry arrives after the window. Claims and the retry meet the pause until the
/// campaign is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_done_also_when_the_window_is_over() {
    let clock = ManualClock::new(OPENS);
    let options = RedisOptions {
        clock: Some(clock.clone()),
        ..options(shared().url())
    };
    let mut harness = Harness::new(options).await;
    let target = harness.open(sale(100)).await;
    let campaign = target.id;
    let tally = insist(&harness, 0, campaign, CampaignAction::Pause).await;
    assert_eq!(tally.phase, Phase::Paused);
    clock.set(OPENS.plus_millis(OPEN_MS));
    // A tick may have closed the campaign already. Then a pause is refused.
    let action = CampaignAction::Pause;
    let again = harness.submit(1, Command::Act { campaign, action }).await;
    match again {
        Ok(Reply::Acted(tally)) => assert_eq!(tally.phase, Phase::Ended),
        Err(EngineError::Refused(refusal)) => {
            assert!(refusal.to_string().contains("closed"), "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    harness.audit().await;
}

/// A pause that reaches only some of the shards does not say that it was carried out. Its repetition does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_a_keyed_pause_is_not_logged_as_made() {
    let mut harness = Harness::new(RedisOptions {
        shard_supply_min: SHARD_SUPPLY_MIN,
        shards_max: 2,
        ..options(shared().url())
    })
    .await;
    for n in 1..=2 {
        let campaign = harness.open(open_now(sale(2 * SHARD_SUPPLY_MIN))).await.id;
        for partition in harness.nodes[0].partitions() {
            let pause = |id| {
                let action = CampaignAction::Pause;
                Command::Act { campaign, action }.keyed(uuid::Uuid::from_u128(id))
            };
            let id = n * 10 + u128::from(partition.0);
            let prefix = &harness.options.prefix;
            let hash = format!("{prefix}:{{p{:02}}}:c:{campaign}", partition.0);
            // An ended shard refuses the pause.
            let set = |phase: &str| {
                let words = ["HSET", &hash, "phase", phase];
                blocking(|| shared().primary().call(&words).unwrap());
            };
            set("e");
            let broken_off = harness.submit(0, pause(id)).await;
            assert!(broken_off.is_err(), "{broken_off:?}");
            assert_eq!(made(&harness, id).await, 0);
            set("s");
            insist_on(&harness, pause(id)).await;
            assert_eq!(made(&harness, id).await, 1);
            insist(&harness, 1, campaign, CampaignAction::Resume).await;
        }
    }
}

async fn insist_on(harness: &Harness, command: Command) {
    let until = Instant::now() + INSIST_MAX;
    while let Err(error) = harness.submit(0, command.clone()).await {
        assert!(Instant::now() < until, "no answer in time: {error}");
        tokio::time::sleep(SHORT_PAUSE).await;
    }
}

/// Number of entries that say that the change of this key was made.
async fn made(harness: &Harness, id: u128) -> usize {
    let id = uuid::Uuid::from_u128(id);
    let logs = harness.logs().await;
    let entries = logs.iter().flatten();
    entries
        .filter(|entry| entry.event == Event::ChangeMade { id })
        .count()
}
