//! The audit beside an engine that is not on a single server: it is found, and read wherever it is.

use std::collections::BTreeSet;

use qiang_redis::{Options, Topology};
use qiang_testkit::servers::redis::{Cluster, Options as ServerOptions, SentinelSet};

use super::{
    audit,
    beside::{PARTITIONS, World, history},
};

/// Found through some of the nodes, and read where each partition is.
#[test]
fn a_cluster_is_audited() {
    let cluster = Cluster::start(&ServerOptions::new());
    let options = Options {
        // A replica among them: it sends whoever asks to the primary.
        urls: cluster.urls().into_iter().rev().take(2).collect(),
        topology: Topology::Cluster,
        ..Options::default()
    };
    let world = World::on(None, options, &["--topology", "cluster"]);
    assert_eq!(world.broken(), (vec![], 0), "before the first campaign");
    history(&world);
    let left = world.settle(4);
    assert_eq!(world.broken(), (vec![], left as u64));

    // What is wrong on one of the nodes is seen.
    let tag = |partition: u16| {
        let key = format!("{}:{{p{partition:02}}}:log", world.prefix);
        let slot = cluster.node(0).call(&["CLUSTER", "KEYSLOT", &key]);
        let slot = slot.unwrap().integer().unwrap();
        (key, cluster.primary_of_slot(u16::try_from(slot).unwrap()))
    };
    let nodes: BTreeSet<_> = (0..PARTITIONS).map(|p| tag(p).1.addr()).collect();
    assert!(nodes.len() > 1, "the partitions are on several nodes");
    for partition in 0..PARTITIONS {
        let (key, primary) = tag(partition);
        primary.call(&["XTRIM", &key, "MAXLEN", "0"]).unwrap();
        let (broken, _) = world.broken();
        let told = format!("partition {partition}: entry ");
        let told = |line: &String| line.contains(&told) && line.contains("nor in the log");
        let seen = world.lines("engine_positions").iter().any(told);
        assert!(seen, "{broken:#?}");
    }
    // Taken for a single server, most of it is elsewhere.
    let urls = cluster.urls().join(",");
    let alone = audit(&[
        "--db",
        world.file(),
        "--redis",
        &urls,
        "--prefix",
        &world.prefix,
    ]);
    let text = String::from_utf8(alone.stderr).unwrap();
    assert_eq!(alone.status.code(), Some(2), "{text}");
}

#[test]
fn what_sentinels_watch_is_audited() {
    let watched = SentinelSet::start(&ServerOptions::new());
    let master = watched.master_name();
    let options = Options {
        urls: watched.sentinel_urls(),
        topology: Topology::Sentinel {
            master: master.to_owned(),
        },
        ..Options::default()
    };
    let flags = ["--topology", "sentinel", "--master", master];
    let world = World::on(None, options, &flags);
    history(&world);
    let left = world.settle(4);
    assert_eq!(world.broken(), (vec![], left as u64));

    let urls = watched.sentinel_urls().join(",");
    let unknown = [
        "--redis",
        &urls,
        "--topology",
        "sentinel",
        "--master",
        "who",
    ];
    let unknown = audit(&[&["--db", world.file()], &unknown[..]].concat());
    let text = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{text}");
    assert!(text.contains("the Sentinels know no primary who"), "{text}");
}
