//! Tests of the Redis fixtures with real servers: data, roles and faults.

use std::time::{Duration, Instant};

use qiang_testkit::servers::redis::{Cluster, Options, Reply, SentinelSet, Server, Standalone};
use qiang_testkit::servers::wait_for;

const BOUND: Duration = Duration::from_secs(30);

fn set(server: &Server, value: &str) {
    let reply = server.call(&["SET", "key", value]).expect("a reply");
    assert_eq!(reply, Reply::Text("OK".to_owned()));
}

/// Sets the key and returns how many replicas had it within 500 ms. `WAIT` covers only writes of its own connection.
fn set_and_wait(server: &Server, value: &str, replicas: &str) -> i64 {
    let write = ["SET", "key", value];
    let wait = ["WAIT", replicas, "500"];
    let reply = server.calls(&[&write, &wait]).expect("a reply");
    reply.integer().expect("a reply")
}

fn get(server: &Server) -> Reply {
    server.call(&["GET", "key"]).expect("a reply")
}

fn text(value: &str) -> Reply {
    Reply::Text(value.to_owned())
}

#[test]
fn a_server_without_persistence_comes_back_empty_on_its_port() {
    let redis = Standalone::start(&Options::new());
    let (addr, pid) = (redis.addr(), redis.primary().pid());
    assert_eq!(redis.url(), format!("redis://{addr}"));
    set(redis.primary(), "1");
    redis.kill();
    assert!(!redis.primary().is_running());
    assert!(redis.primary().call(&["PING"]).is_err());
    redis.start_again();
    assert_eq!(redis.addr(), addr);
    assert_ne!(redis.primary().pid(), pid);
    assert_eq!(get(redis.primary()), Reply::Nil);
}

#[test]
fn an_append_only_file_keeps_what_was_acknowledged_until_it_is_wiped() {
    let redis = Standalone::start(&Options::new().fsync_always());
    set(redis.primary(), "1");
    redis.kill();
    redis.start_again();
    assert_eq!(get(redis.primary()), text("1"));
    redis.start_again_empty();
    assert_eq!(get(redis.primary()), Reply::Nil);
}

#[test]
fn replicas_acknowledge_unless_they_are_halted() {
    let redis = Standalone::start(&Options::new().fsync_everysec().replicas(2));
    assert_eq!(set_and_wait(redis.primary(), "1", "2"), 2);
    redis.replica(0).pause();
    assert_eq!(set_and_wait(redis.primary(), "2", "2"), 1);
    assert_eq!(get(redis.replica(1)), text("2"));
    assert!(redis.replica(0).call(&["PING"]).is_err());
    redis.replica(0).resume();
    wait_for("the halted replica", BOUND, || {
        (get(redis.replica(0)) == text("2")).then_some(())
    });
}

#[test]
fn a_password_is_asked_for_and_in_the_url() {
    let redis = Standalone::start(&Options::new().password("a-secret").replicas(1));
    assert_eq!(
        redis.url(),
        format!("redis://default:a-secret@{}", redis.addr())
    );
    set(redis.primary(), "1");
    let stranger = Standalone::start(&Options::new());
    let port = redis.addr().port().to_string();
    let knock = ["MIGRATE", "127.0.0.1", &port, "key", "0", "500"];
    set(stranger.primary(), "2");
    let refused = stranger.primary().call(&knock).unwrap_err().to_string();
    assert!(refused.contains("NOAUTH"), "{refused}");
}

#[test]
fn an_acl_file_is_obeyed() {
    let acl = "user default off\nuser boss on >word ~* &* +@all";
    let redis = Standalone::start(&Options::new().acl(acl, "boss", "word").replicas(1));
    set(redis.primary(), "1");
    assert_eq!(
        redis.primary().call(&["ACL", "WHOAMI"]).unwrap(),
        text("boss")
    );
}

#[test]
fn memory_is_bounded() {
    let redis = Standalone::start(&Options::new().memory_bytes_max(3_000_000));
    let value = "x".repeat(1_000_000);
    let refused = (0..8).find_map(|i| {
        let key = i.to_string();
        redis.primary().call(&["SET", &key, &value]).err()
    });
    assert!(refused.unwrap().to_string().contains("OOM"));
}

#[test]
#[should_panic(expected = "no-such-setting")]
fn a_server_that_cannot_start_says_why() {
    Standalone::start(&Options::new().line("no-such-setting 1"));
}

#[test]
fn sentinels_promote_a_replica_and_take_the_old_primary_back() {
    let started = Instant::now();
    let set_of_three = SentinelSet::start(&Options::new());
    println!("sentinels up after {:?}", started.elapsed());
    assert_eq!(set_of_three.sentinel_urls().len(), 3);
    let first = set_of_three.primary();
    assert_eq!(first.pid(), set_of_three.primary_pid());
    assert_eq!(set_and_wait(first, "1", "2"), 2);

    let started = Instant::now();
    let old = set_of_three.kill_primary();
    let new = set_of_three.wait_for_failover(old);
    println!("failover after {:?}", started.elapsed());
    assert_ne!(new.addr(), old.addr());
    assert_eq!(set_of_three.primary_addr(), new.addr());
    assert_eq!(get(new), text("1"));

    old.start_again();
    wait_for("the old primary to follow", BOUND, || {
        old.is_synced_replica().then_some(())
    });
    set_of_three.wait_until_watched();
    assert_eq!(get(old), text("1"));
}

#[test]
fn sentinels_know_the_password() {
    let set_of_three = SentinelSet::start(&Options::new().password("a-secret"));
    let old = set_of_three.kill_primary();
    set(set_of_three.wait_for_failover(old), "1");
}

#[test]
fn a_cluster_fails_over_and_takes_the_old_primary_back() {
    let started = Instant::now();
    let cluster = Cluster::start(&Options::new());
    println!("cluster up after {:?}", started.elapsed());
    assert_eq!(cluster.urls().len(), 6);
    for (slot, index) in [
        (0, 0),
        (5_460, 0),
        (5_461, 1),
        (10_922, 1),
        (10_923, 2),
        (16_383, 2),
    ] {
        let primary = cluster.primary_of_slot(slot);
        assert_eq!(primary.addr(), cluster.node(index).addr(), "{slot}");
    }
    let slot = cluster
        .node(0)
        .call(&["CLUSTER", "KEYSLOT", "key"])
        .unwrap();
    let slot = u16::try_from(slot.integer().unwrap()).unwrap();
    let primary = cluster.primary_of_slot(slot);
    assert_eq!(set_and_wait(primary, "1", "1"), 1);

    let started = Instant::now();
    let old = cluster.kill_primary_of_slot(slot);
    let new = cluster.wait_for_failover(slot, old);
    println!("failover after {:?}", started.elapsed());
    assert_eq!(get(new), text("1"));

    old.start_again();
    cluster.wait_until_whole();
    assert_eq!(cluster.primary_of_slot(slot).addr(), new.addr());
    assert!(old.is_synced_replica());
}

#[test]
fn a_cluster_with_a_password_and_persistence_comes_up() {
    let options = Options::new().password("a-secret").fsync_always();
    let cluster = Cluster::start(&options);
    assert!(cluster.urls()[5].starts_with("redis://default:a-secret@127.0.0.1:"));
}
