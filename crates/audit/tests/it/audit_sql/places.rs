//! Audits of engines that are not on a single server: the audit finds them, and reads every partition.

use std::collections::BTreeSet;

use qiang_audit::{self as audit, EnginePlace};
use qiang_redis::{RedisOptions, Topology};
use qiang_testkit::servers::redis::{
    Cluster, Options as ServerOptions, SentinelSet, key_of_partition, slot_of_partition,
};

use super::beside::{PARTITIONS, World, history};

/// The audit finds the Cluster through some of its nodes, and reads each partition on its node.
#[test]
fn a_cluster_is_audited() {
    let cluster = Cluster::start(&ServerOptions::new());
    let options = RedisOptions {
        // One of them is a replica, which redirects to the primary.
        urls: cluster.urls().into_iter().rev().take(2).collect(),
        topology: Topology::Cluster,
        ..RedisOptions::default()
    };
    let world = World::on(None, options);
    assert_eq!(world.broken(), (vec![], 0), "before the first campaign");
    history(&world);
    let left = world.settle(4);
    assert_eq!(world.broken(), (vec![], left as u64));

    // A breach on one of the nodes is detected.
    let tag = |partition: u16| {
        let key = key_of_partition(&world.prefix, partition, PARTITIONS, "log");
        let slot = slot_of_partition(partition, PARTITIONS);
        (key, cluster.primary_of_slot(slot))
    };
    let nodes: BTreeSet<_> = (0..PARTITIONS).map(|p| tag(p).1.addr()).collect();
    assert!(nodes.len() > 1, "the partitions are on several nodes");
    for partition in 0..PARTITIONS {
        let (key, primary) = tag(partition);
        primary.call(&["XTRIM", &key, "MAXLEN", "0"]).unwrap();
        let (broken, _) = world.broken();
        let begin = format!("partition {partition}: entry ");
        let missing = |line: &String| line.contains(&begin) && line.contains("nor in the log");
        let seen = world.lines("engine_positions").iter().any(missing);
        assert!(seen, "{broken:#?}");
    }
    // As a single server, the node lacks most of the engine.
    let alone = EnginePlace {
        urls: cluster.urls(),
        topology: audit::ServerKind::Standalone,
        ..world.place.clone()
    };
    crate::outcome::refusal(world.audit(&alone));
}

#[test]
fn what_sentinels_watch_is_audited() {
    let watched = SentinelSet::start(&ServerOptions::new());
    let master = watched.master_name();
    let options = RedisOptions {
        urls: watched.sentinel_urls(),
        topology: Topology::Sentinel {
            master: master.to_owned(),
        },
        ..RedisOptions::default()
    };
    let world = World::on(None, options);
    history(&world);
    let left = world.settle(4);
    assert_eq!(world.broken(), (vec![], left as u64));

    let unknown = EnginePlace {
        topology: audit::ServerKind::Sentinel {
            master: "who".to_owned(),
        },
        ..world.place.clone()
    };
    let text = crate::outcome::refusal(world.audit(&unknown));
    assert!(text.contains("the Sentinels know no primary who"), "{text}");
}
