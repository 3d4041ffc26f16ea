//! Configurations of servers that a node refuses, at its start and later.

use qiang_core::ports::{Engine as _, EventLog as _};
use qiang_redis::{ConnectError, PartitionHealth, RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    campaign::sale,
    servers::redis::{Cluster, Options as ServerOptions, Server, Standalone},
};

use crate::redis_faults::{
    harness::{Harness, blocking, grant_of, node, open_now, options, wait_for},
    terms::Books,
};

/// Enough partitions for every primary of a Cluster.
const PARTITIONS: u16 = 16;

/// The node's message about this configuration, if it refuses it.
async fn refusal(options: &RedisOptions) -> Option<String> {
    match RedisEngine::connect(options.clone(), &[]).await {
        Ok(engine) => {
            engine.close().await;
            None
        }
        Err(error @ ConnectError::Evicts { .. }) => Some(error.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

fn set_policy(server: &Server, policy: &str) {
    blocking(|| {
        server
            .call(&["CONFIG", "SET", "maxmemory-policy", policy])
            .unwrap()
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_is_refused_by_the_name_of_the_setting() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let options = options(server.url());
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        set_policy(server.primary(), policy);
        let refused = refusal(&options).await.unwrap();
        for part in [
            "maxmemory-policy noeviction",
            policy,
            &server.addr().port().to_string(),
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    set_policy(server.primary(), "noeviction");
    assert_eq!(refusal(&options).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_primary_of_a_cluster_is_looked_at() {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let options = RedisOptions {
        urls: cluster.urls(),
        topology: Topology::Cluster,
        partitions: PARTITIONS,
        ..options(String::new())
    };
    node(&options, &[]).await.close().await;
    let is_primary =
        |server: &&Server| server.info("replication", "role").as_deref() == Some("master");
    let primaries: Vec<&Server> = blocking(|| cluster.nodes().iter().filter(is_primary).collect());
    assert_eq!(primaries.len(), 3);
    for primary in primaries {
        set_policy(primary, "allkeys-lfu");
        let refused = refusal(&options).await;
        let port = primary.addr().port().to_string();
        assert!(refused.is_some_and(|text| text.contains(&port)), "{port}");
        set_policy(primary, "noeviction");
    }
    assert_eq!(refusal(&options).await, None);
}

/// A replica that evicts keys becomes the primary. It grants nothing until its policy is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_primary_that_evicts_grants_nothing() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        urls: vec![servers.url(), servers.replica(0).url()],
        claim_timeout: std::time::Duration::from_secs(1),
        ..options(String::new())
    })
    .await;
    let target = harness.open(open_now(sale(100))).await;
    let replica = servers.replica(0);
    set_policy(replica, "allkeys-lru");
    blocking(|| {
        servers.wait_for_replicas();
        servers.kill();
        replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
    });
    for node in &harness.nodes {
        for partition in node.partitions() {
            wait_for("the reason", || {
                matches!(node.state(partition), PartitionHealth::Unreachable { reason }
                    if reason.contains("maxmemory-policy noeviction"))
            })
            .await;
        }
        let answer = node.claim(target.one("early")).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    set_policy(replica, "noeviction");
    let claimed = harness
        .record
        .insist(&harness.nodes, 0, &target.one("late"))
        .await;
    assert!(grant_of(&claimed).is_some(), "{claimed:?}");
}

/// The policy changes under running nodes, and no partition grants after their next presence calls. Grants resume with
/// the right policy, although the ledger has entries of the last term and a node is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_begins_to_evict_grants_nothing() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(RedisOptions {
        claim_timeout: std::time::Duration::from_secs(1),
        ..options(server.url())
    })
    .await;
    let target = harness.open(open_now(sale(100))).await;
    let books = Books::new(&harness).await;
    for user in ["first", "second", "third"] {
        let claimed = harness.nodes[0].claim(target.one(user)).await.unwrap();
        assert!(grant_of(&claimed).is_some(), "{claimed:?}");
    }
    books.settle_all(&harness.nodes[0]).await;
    set_policy(server.primary(), "volatile-lru");
    for node in &harness.nodes {
        for partition in node.partitions() {
            wait_for("the reason", || {
                matches!(node.state(partition), PartitionHealth::Unreachable { reason }
                    if reason.contains("maxmemory-policy noeviction"))
            })
            .await;
        }
        let answer = node.claim(target.one("early")).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let gone = harness.nodes.pop().unwrap();
    gone.close().await;
    drop(gone);
    set_policy(server.primary(), "noeviction");
    let claimed = harness
        .record
        .insist(&harness.nodes, 0, &target.one("late"))
        .await;
    assert!(grant_of(&claimed).is_some(), "{claimed:?}");
    let first = harness.nodes[0].claim(target.one("first")).await.unwrap();
    assert_eq!(first.outcome.name(), "already_granted");
}
