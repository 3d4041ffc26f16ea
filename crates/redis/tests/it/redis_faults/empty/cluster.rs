//! A Cluster loses a primary together with its replica. Its partitions stop, the others grant. They grant again once
//! the slots are served again: by the same nodes without their data, or by new nodes that an operator puts in their
//! place.

use qiang_core::{
    event::PartitionId,
    ports::{Engine as _, EventLog as _},
};
use qiang_redis::{PartitionHealth, RedisOptions, Topology};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Cluster, Options as ServerOptions, slot_of_partition},
};

use super::World;
use crate::redis_faults::harness::{
    Answered, blocking, grant_of, name, open_now, options, wait_for,
};

/// Partitions: each primary has two of them.
const PARTITIONS: u16 = 6;
/// Sales, so that each partition has some.
const SALES: usize = 24;
const STOCK: u32 = 100;
/// Claims of each sale before the loss that are settled, and claims that are not.
const SETTLED: usize = 4;
const UNSETTLED: usize = 3;
/// Index of the primary that is lost.
const LOST: usize = 1;

/// How the slots of a lost pair are served again.
#[derive(Debug, Clone, Copy)]
enum Return {
    /// The same nodes start again, without their data.
    SameNodes,
    /// New nodes replace them.
    NewNodes,
}

async fn start() -> (World<Cluster>, Vec<Target>) {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let options = RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: PARTITIONS,
        shard_supply_min: u32::MAX,
        ..options(String::new())
    };
    let mut world = World::over(cluster, options).await;
    let mut targets = Vec::new();
    for _ in 0..SALES {
        targets.push(world.open(open_now(sale(STOCK)).hold_ms(3_600_000)).await);
    }
    (world, targets)
}

/// Makes claims of each sale. No user claims in two sales.
async fn claim(
    world: &World<Cluster>,
    targets: &[Target],
    users: std::ops::Range<usize>,
) -> Vec<Answered> {
    let claims = users.flat_map(|user| {
        let targets = targets.iter().enumerate();
        targets.map(move |(sale, target)| target.one(&name(1_000 * user + sale)))
    });
    world.harness.ask_all(claims.collect()).await
}

async fn loses_a_pair(then: Return) {
    let (mut world, targets) = start().await;
    let mut answers = claim(&world, &targets, 0..SETTLED).await;
    world.settle_all().await;
    answers.extend(claim(&world, &targets, SETTLED..SETTLED + UNSETTLED).await);
    let (lost, kept): (Vec<PartitionId>, Vec<PartitionId>) = {
        let primary = world.server.node(LOST).addr();
        let of = |id: &PartitionId| {
            let slot = slot_of_partition(id.0, PARTITIONS);
            blocking(|| world.server.primary_of_slot(slot)).addr() == primary
        };
        world.harness.nodes[0]
            .partitions()
            .into_iter()
            .partition(of)
    };
    assert_eq!((lost.len(), kept.len()), (2, 4));
    let (gone, left): (Vec<Target>, Vec<Target>) = targets.iter().partition(|target| {
        let home = world.harness.nodes[0].partition_of(&target.one("a"));
        lost.contains(&home)
    });
    assert!(
        gone.len() > 2 && left.len() > 2,
        "{} {}",
        gone.len(),
        left.len()
    );
    world.run();
    blocking(|| world.server.kill_pair(LOST));
    blocking(|| world.server.wait_until_pair_failed(LOST));
    // Others grant while the pair is gone, and its own partitions grant nothing.
    answers.extend(claim(&world, &left, 30..32).await);
    let refused = world.harness.nodes[0].claim(gone[0].one("early")).await;
    assert!(refused.is_err(), "{refused:?}");
    match then {
        Return::SameNodes => blocking(|| {
            for index in [LOST, LOST + 3] {
                world.server.node(index).start_again_empty();
            }
            world.server.wait_until_whole();
        }),
        Return::NewNodes => {
            let server = &mut world.server;
            blocking(|| server.replace_pair(LOST));
        }
    }
    let nodes = &world.harness.nodes;
    let is_open = |id: &PartitionId| {
        nodes
            .iter()
            .all(|node| node.state(*id) == PartitionHealth::Open)
    };
    wait_for("all partitions", || lost.iter().chain(&kept).all(is_open)).await;
    answers.extend(claim(&world, &targets, 20..22).await);
    if let Some(settling) = world.settling.take() {
        settling.abort();
    }
    assert!(
        answers
            .iter()
            .all(|(_, claimed)| grant_of(claimed).is_some())
    );
    for target in &targets {
        world.check(*target, STOCK, 0).await;
    }
    world.harness.replay(&answers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_and_its_replica_come_back_empty() {
    loses_a_pair(Return::SameNodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_and_its_replica_are_replaced_by_new_nodes() {
    loses_a_pair(Return::NewNodes).await;
}
