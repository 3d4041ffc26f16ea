//! A spread campaign sells out to the last unit, whichever node dies during a transfer of units.

use std::time::Duration;

use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{AckLevel, Phase},
    id::CampaignId,
    ports::{Engine as _, EngineError, EventLog as _},
    split::SplitRule,
};
use qiang_redis::{PartitionHealth, RedisOptions, Topology};
use qiang_testkit::{
    campaign::{Builder, Target, red_packet, sale},
    proxy::FaultProxy,
    servers::redis::{Cluster, Options as ServerOptions, Standalone, slot_of_partition},
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, detach_replicas, grant_of, name, node, open_now, patient,
    shared, wait_for, winners,
};

const PARTITIONS: u16 = 4;
const SUPPLY: u32 = 3_000;
/// Units of a campaign, few enough for one transfer at a time.
const FEW: u32 = 20;
/// Delay of responses to a node that is killed during a transfer.
const LATE: Duration = Duration::from_millis(200);

fn spread(partitions: u16) -> RedisOptions {
    RedisOptions {
        partitions,
        shard_supply_min: 2,
        shards_max: partitions,
        ..patient(shared().url())
    }
}

fn packet(supply: u32) -> Builder {
    let split = SplitRule::DoubleAverage { min: 1 };
    open_now(red_packet(1_000 * i64::from(supply), supply, split))
}

/// Entries in the journals of a campaign's shards, and the number of transfers that have arrived.
fn transfers(harness: &Harness, id: CampaignId) -> (i64, i64) {
    let (mut standing, mut arrived) = (0, 0);
    for partition in 0..harness.options.partitions {
        let key = format!("{}:{{p{partition:02}}}:c:{id}", harness.options.prefix);
        let server = shared().primary();
        let journal = format!("{key}:transfers");
        standing += server.call(&["HLEN", &journal]).unwrap().integer().unwrap();
        let fields = server.call(&["HKEYS", &key]).unwrap();
        let from = |field: &&str| field.starts_with("from:");
        let names = fields.array().iter().filter_map(|field| field.text());
        arrived += names.filter(from).count() as i64;
    }
    (standing, arrived)
}

/// Checks that no unit is left or in transfer.
async fn sold_out(harness: &Harness, target: Target) {
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert_eq!(
        (tally.remaining, tally.granted),
        (0, tally.supply),
        "{tally:?}"
    );
    assert_eq!(blocking(|| transfers(harness, target.id)).0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_packet_has_a_share_for_each_claimant() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    let target = harness.open(packet(SUPPLY)).await;
    let answers = harness
        .ask_all((0..SUPPLY as usize).map(|n| target.one(&name(n))).collect())
        .await;
    assert_eq!(winners(&answers), SUPPLY as usize);
    sold_out(&harness, target).await;
    harness.replay(&answers).await;
    harness.audit().await;
    assert_eq!(harness.record.errors(), 0);
}

/// Claims of one to three units each that together equal the supply.
fn in_quantities(target: Target) -> Vec<qiang_core::book::Claim> {
    let mut claims = Vec::new();
    let mut left = SUPPLY;
    for n in 0.. {
        let quantity = (1 + n as u32 % 3).min(left);
        if quantity == 0 {
            break;
        }
        left -= quantity;
        claims.push(target.keyed(&name(n), quantity, "key"));
    }
    claims
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_sale_in_quantities_sells_its_stock() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    let target = harness.open(open_now(sale(SUPPLY)).limit(3)).await;
    let answers = harness.ask_all(in_quantities(target)).await;
    assert_eq!(winners(&answers), answers.len());
    sold_out(&harness, target).await;
    harness.replay(&answers).await;
    harness.audit().await;
    assert_eq!(harness.record.errors(), 0);
}

/// More users claim than there are units. Exactly the excess users lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peak_load_on_a_spread_sale_leaves_no_unit() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    // No hold ends before all users have claimed, however slow the machine is.
    let target = harness.open(open_now(sale(100)).hold_ms(3_600_000)).await;
    let answers = harness
        .ask_all(
            (0..2 * SUPPLY as usize)
                .map(|n| target.one(&name(n)))
                .collect(),
        )
        .await;
    assert_eq!(winners(&answers), 100);
    sold_out(&harness, target).await;
    harness.replay(&answers).await;
    harness.audit().await;
    assert_eq!(harness.record.errors(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_die_strand_no_unit() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    for _ in 0..4 {
        harness.nodes.push(node(&harness.options, &[]).await);
    }
    let packet = harness.open(packet(SUPPLY)).await;
    let on_sale = harness.open(open_now(sale(SUPPLY)).limit(3)).await;
    let mut claims = in_quantities(on_sale);
    claims.extend((0..SUPPLY as usize).map(|n| packet.one(&name(n))));
    let count = claims.len();
    // Both kinds mixed. The last claims reach shards without units.
    let made = move |n: usize| claims.get((n * 7) % count).filter(|_| n < count).cloned();
    assert_ne!(count % 7, 0, "the steps reach every claim");
    let load = harness.start(made, SHORT_PAUSE / 4);
    for n in (2..harness.nodes.len()).rev() {
        let dead = (harness.nodes.len() - n) * count / 5;
        wait_for("the load", || load.size() >= dead.min(count)).await;
        harness.nodes[n].abort();
    }
    let answers = load.join().await;
    assert_eq!(winners(&answers), count);
    harness.nodes.truncate(2);
    sold_out(&harness, packet).await;
    sold_out(&harness, on_sale).await;
    harness.replay(&answers).await;
    harness.audit().await;
}

/// Step of a transfer after which a node dies.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Out,
    In,
}

/// A campaign with an unfinished transfer: its node was killed right after the step, while the response was in flight.
async fn stranded(builder: Builder, step: Step) -> (Harness, Target) {
    let mut harness = Harness::new(spread(2)).await;
    let target = harness.open(builder).await;
    let proxy = FaultProxy::start(shared().addr()).await;
    let slow = RedisOptions {
        urls: vec![format!("redis://{}", proxy.addr())],
        call_timeout: 20 * LATE,
        ..harness.options.clone()
    };
    let slow = node(&slow, &[]).await;
    proxy.delay(Duration::ZERO, LATE).await;
    let claims: Vec<_> = (0..FEW as usize)
        .map(|n| slow.claim(target.one(&name(n))))
        .collect();
    wait_for("a transfer", || {
        let (standing, arrived) = blocking(|| transfers(&harness, target.id));
        standing == 1 && (arrived == 1) == (step == Step::In)
    })
    .await;
    slow.abort();
    drop((claims, proxy));
    let now = blocking(|| transfers(&harness, target.id));
    assert_eq!(now, (1, i64::from(step == Step::In)));
    (harness, target)
}

async fn everybody(harness: &Harness, target: Target) {
    let answers = harness
        .ask_all((0..FEW as usize).map(|n| target.one(&name(n))).collect())
        .await;
    assert_eq!(winners(&answers), FEW as usize);
    sold_out(harness, target).await;
    harness.replay(&answers).await;
    harness.audit().await;
    assert_eq!(harness.record.errors(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_has_left_arrives_without_its_node() {
    for builder in [packet(FEW), open_now(sale(FEW))] {
        let (harness, target) = stranded(builder, Step::Out).await;
        everybody(&harness, target).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_has_arrived_arrives_once() {
    for builder in [packet(FEW), open_now(sale(FEW))] {
        let (harness, target) = stranded(builder, Step::In).await;
        everybody(&harness, target).await;
    }
}

async fn act(harness: &Harness, node: usize, target: Target, action: CampaignAction) -> Phase {
    let campaign = target.id;
    match harness
        .submit(node, Command::Act { campaign, action })
        .await
    {
        Ok(Reply::Acted(tally)) => tally.phase,
        other => panic!("{action:?} got the reply {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_returns_what_was_on_its_way() {
    for step in [Step::Out, Step::In] {
        for builder in [packet(FEW), open_now(sale(FEW))] {
            let (harness, target) = stranded(builder, step).await;
            // Users that were answered, or would have been.
            let claims = (0..FEW as usize / 2).map(|n| target.one(&name(n)));
            harness.ask_all(claims.collect()).await;
            assert_eq!(
                act(&harness, 0, target, CampaignAction::Close).await,
                Phase::Closed
            );
            let answers = harness
                .ask_all((0..FEW as usize).map(|n| target.one(&name(n))).collect())
                .await;
            let tally = harness.nodes[1].tally(target.id).await.unwrap().unwrap();
            assert_eq!(tally.granted + tally.returned, u64::from(FEW), "{tally:?}");
            assert_eq!(tally.granted as usize, winners(&answers), "{tally:?}");
            harness.audit().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_keeps_what_is_on_its_way() {
    let (harness, target) = stranded(packet(FEW), Step::Out).await;
    assert_eq!(
        act(&harness, 0, target, CampaignAction::Pause).await,
        Phase::Paused
    );
    let tally = harness.nodes[1].tally(target.id).await.unwrap().unwrap();
    assert_eq!(tally.supply, u64::from(FEW), "{tally:?}");
    let late = harness.ask_all(vec![target.one("late")]).await;
    assert_eq!(winners(&late), 0);
    assert_eq!(
        act(&harness, 1, target, CampaignAction::Resume).await,
        Phase::Live
    );
    everybody(&harness, target).await;
}

/// Pauses, resumes, and finally the close happen while shards run out of units and pull from each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acting_while_units_move_loses_none() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let load = harness.start(move |n| Some(target.one(&name(n))), SHORT_PAUSE);
    let most = SUPPLY as usize * 8 / 10;
    wait_for("most of the claims", || load.size() >= most).await;
    for n in 0..5 {
        act(&harness, n % 2, target, CampaignAction::Pause).await;
        act(&harness, n % 2, target, CampaignAction::Resume).await;
        load.more(50).await;
    }
    act(&harness, 0, target, CampaignAction::Close).await;
    load.more(200).await;
    let answers = load.stop().await;
    let tally = harness.nodes[1].tally(target.id).await.unwrap().unwrap();
    assert_eq!(
        tally.granted + tally.returned,
        u64::from(SUPPLY),
        "{tally:?}"
    );
    assert_eq!(tally.granted as usize, winners(&answers));
    harness.replay(&answers).await;
    harness.audit().await;
}

/// Users of the first and of the second shard of a campaign. The shards number their orders in turn.
async fn by_part(harness: &mut Harness) -> [Vec<String>; 2] {
    let probe = harness.open(open_now(sale(8 * FEW))).await;
    let answers = harness
        .ask_all((0..4 * FEW as usize).map(|n| probe.one(&name(n))).collect())
        .await;
    let mut users = [Vec::new(), Vec::new()];
    for (claim, claimed) in answers {
        let number = grant_of(&claimed).unwrap().number;
        users[(number as usize - 1) % 2].push(claim.user.as_str().to_owned());
    }
    users
}

/// Units leave a shard, and its primary dies before a replica has that entry. They must not have arrived elsewhere.
async fn never_left(ack: AckLevel) {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        replicas: 1,
        replica_timeout: LATE,
        ..spread(4)
    })
    .await;
    // The second campaign is on p02 and p03, which have different primaries.
    harness.options.shards_max = 2;
    for node in &mut harness.nodes {
        node.close().await;
        *node = crate::redis_faults::harness::node(&harness.options, &[]).await;
    }
    let users = by_part(&mut harness).await;
    let target = harness.open(open_now(sale(FEW)).ack(ack)).await;
    let half = FEW as usize / 2;
    let claims = |part: usize, count: usize| {
        users[part][..count]
            .iter()
            .map(|user| target.one(user))
            .collect()
    };
    assert_eq!(winners(&harness.ask_all(claims(0, half)).await), half);
    let giver = blocking(|| cluster.primary_of_slot(slot_of_partition(3, 4)));
    detach_replicas(giver);
    let hopeful = target.one(&users[0][half]);
    let answer = harness.record.ask(&harness.nodes[0], &hopeful).await;
    assert!(answer.is_err(), "{answer:?}");
    blocking(|| {
        giver.kill();
        cluster.wait_for_failover(slot_of_partition(3, 4), giver);
        giver.start_again();
        cluster.wait_until_whole();
    });
    let mut all: Vec<_> = claims(0, FEW as usize);
    all.extend(claims(1, FEW as usize));
    let answers = harness.ask_all(all).await;
    assert_eq!(winners(&answers), FEW as usize);
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert_eq!(
        (tally.supply, tally.remaining),
        (FEW.into(), 0),
        "{tally:?}"
    );
    harness.replay(&answers).await;
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_do_not_arrive_before_it_is_kept_that_they_left() {
    never_left(AckLevel::Replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_a_campaign_in_memory_do_not_either() {
    never_left(AckLevel::Memory).await;
}

/// The sender has lost only the entry that units left. Without replicas, they would be in two places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_a_failover_loses_is_noticed() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        urls: vec![servers.url(), servers.replica(0).url()],
        ..spread(2)
    })
    .await;
    let users = by_part(&mut harness).await;
    let target = harness
        .open(open_now(sale(FEW)).ack(AckLevel::Memory))
        .await;
    let half = FEW as usize / 2;
    let claims = users[0][..half].iter().map(|user| target.one(user));
    assert_eq!(winners(&harness.ask_all(claims.collect()).await), half);
    blocking(|| servers.wait_for_replicas());
    detach_replicas(servers.primary());
    // The shard has no units left, so they are pulled from the other one.
    let one_more = target.one(&users[0][half]);
    let claimed = harness.record.ask(&harness.nodes[0], &one_more).await;
    assert!(grant_of(&claimed.unwrap()).is_some());
    blocking(|| {
        servers.kill();
        let replica = servers.replica(0);
        replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
    });
    for node in &harness.nodes {
        for partition in node.partitions() {
            wait_for("the loss", || {
                let state = node.state(partition);
                matches!(state, PartitionHealth::Halted { lost: Some(_), .. })
            })
            .await;
        }
    }
}

/// The stock of a spread sale is changed in its first shard. New units are sold by any shard. Removed units are pulled
/// from any shard, also in a pause. Users keep their units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stock_of_a_spread_sale_is_changed_as_a_whole() {
    let mut harness = Harness::new(spread(PARTITIONS)).await;
    let target = harness.open(open_now(sale(400)).hold_ms(3_600_000)).await;
    let claims = |from: usize, to: usize| (from..to).map(|n| target.one(&name(n))).collect();
    let answers = harness.ask_all(claims(0, 100)).await;
    assert_eq!(winners(&answers), 100);
    let set = async |stock| {
        let campaign = target.id;
        match harness.nodes[1]
            .submit(Command::SetStock { campaign, stock })
            .await
        {
            Ok(Reply::Acted(tally)) => Ok((tally.supply, tally.remaining)),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("{other:?}"),
        }
    };
    // No single shard has 290 free units.
    assert_eq!(set(110).await, Ok((110, 10)));
    assert_eq!(set(110).await, Ok((110, 10)));
    assert_eq!(set(99).await, Err(Refusal::StockGranted { least: 100 }));
    let act = async |action| {
        let campaign = target.id;
        harness.nodes[0]
            .submit(Command::Act { campaign, action })
            .await
            .unwrap();
    };
    act(CampaignAction::Pause).await;
    assert_eq!(set(900).await, Ok((900, 800)));
    assert_eq!(set(105).await, Ok((105, 5)));
    act(CampaignAction::Resume).await;
    // Two concurrent changes result in one of the two.
    let (more, less) = tokio::join!(set(300), set(130));
    assert!(more.is_ok() && less.is_ok(), "{more:?} {less:?}");
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert!([130, 300].contains(&tally.supply), "{tally:?}");
    assert_eq!(set(160).await, Ok((160, 60)));
    let answers = harness.ask_all(claims(100, 260)).await;
    assert_eq!(winners(&answers), 60);
    sold_out(&harness, target).await;
    assert_eq!(set(161).await, Ok((161, 1)));
    let answers = harness.ask_all(claims(300, 310)).await;
    assert_eq!(winners(&answers), 1);
    harness.audit().await;
    assert_eq!(harness.record.errors(), 0);
}
