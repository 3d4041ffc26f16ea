//! Read replicas answer reads of campaigns. The primary answers if no replica does.

use std::time::Duration;

use qiang_core::{book::Command, ports::Engine as _};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
    servers::{
        redis::{Options as ServerOptions, Server, Standalone},
        wait_for,
    },
};

/// Number of read-only scripts that a server has executed.
fn reads(server: &Server) -> u64 {
    let answers = server.info("commandstats", "cmdstat_eval_ro");
    let calls = answers.and_then(|answers| {
        let calls = answers.split(',').next()?.strip_prefix("calls=")?;
        calls.parse().ok()
    });
    calls.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_come_from_a_replica_while_it_answers() {
    let servers = Standalone::start(&ServerOptions::new().replicas(1));
    let replica = servers.replica(0);
    let options = RedisOptions {
        urls: vec![servers.url()],
        read_urls: vec![replica.url()],
        partitions: 2,
        call_timeout: Duration::from_millis(500),
        clock: Some(ManualClock::new(OPENS)),
        ..RedisOptions::default()
    };
    let engine = RedisEngine::connect(options, &[]).await.unwrap();
    let setup = sale(5).setup(1);
    let target = Target::of(&setup);
    engine.submit(Command::Open(Box::new(setup))).await.unwrap();
    engine.claim(target.one("a")).await.unwrap();
    wait_for("the replicated grant", Duration::from_secs(10), || {
        servers.primary().is_acknowledged_by(1).then_some(())
    });

    let before = reads(replica);
    let tally = engine.tally(target.id).await.unwrap().unwrap();
    assert_eq!((tally.granted, tally.remaining), (1, 4));
    assert_eq!(
        reads(replica),
        before + 1,
        "the replica did not get the read"
    );
    assert_eq!(reads(servers.primary()), 0);

    replica.kill();
    let tally = engine.tally(target.id).await.unwrap().unwrap();
    assert_eq!((tally.granted, tally.remaining), (1, 4));
    engine.close().await;
}
