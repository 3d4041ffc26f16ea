//! A slow, half-open or lossy connection: each request is decided exactly once, even if it is sent several times.
//!
//! On a sale with a limit above one, requests without a key differ only by the call's number. So the test can compare
//! the numbers of orders and requests.
//! without a key, and as many orders as requests.

use std::{collections::HashMap, time::Duration};

use qiang_core::{event::Event, ports::Engine as _, split::SplitRule};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    campaign::{red_packet, sale},
    proxy::FaultProxy,
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, grant_of, name, open_now, options, patient, probe, shared,
};

/// Time limit of a call before it is sent again. Faults last for several of these.
const CALL_TIMEOUT: Duration = Duration::from_millis(200);
const FAULT: Duration = Duration::from_millis(500);
/// Claims between two faults.
const CLAIMS: usize = 200;
/// Few users, so that each of them claims many times.
const USERS: usize = 50;
const STOCK: u32 = 50_000;

/// Claims through a proxy during a fault and some time after it.
async fn through(fault: impl AsyncFnOnce(&FaultProxy)) {
    let proxy = FaultProxy::start(shared().addr()).await;
    let mut harness = Harness::new(RedisOptions {
        call_timeout: CALL_TIMEOUT,
        ..patient(format!("redis://{}", proxy.addr()))
    })
    .await;
    let many = harness.open(open_now(sale(STOCK)).limit(STOCK)).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let packet = harness
        .open(open_now(red_packet(10_000_000, STOCK, split)))
        .await;
    let made = move |n: usize| {
        Some(match n % 4 {
            0 => packet.one(&name(n / 8)),
            1 => many.keyed(&name(n % USERS), 2, &format!("key-{}", n / 8)),
            _ => many.units(&name(n % USERS), 1),
        })
    };
    let load = harness.start(made, SHORT_PAUSE);
    load.more(CLAIMS).await;
    fault(&proxy).await;
    proxy.pass().await;
    load.more(CLAIMS).await;
    let answers = load.stop().await;

    assert_eq!(harness.record.errors(), 0, "an outcome was left unknown");
    assert!(
        answers
            .iter()
            .all(|(_, claimed)| grant_of(claimed).is_some())
    );
    // Packets in flight arrive before the log is read.
    tokio::time::sleep(3 * FAULT).await;
    harness.audit().await;
    let mut asked: HashMap<String, usize> = HashMap::new();
    for (claim, _) in answers
        .iter()
        .filter(|(claim, _)| claim.campaign == many.id && claim.key.is_none())
    {
        *asked.entry(claim.user.as_str().to_owned()).or_default() += 1;
    }
    let mut made: HashMap<String, usize> = HashMap::new();
    for entry in harness
        .logs()
        .await
        .into_iter()
        .flatten()
        .filter(|entry| entry.campaign == many.id)
    {
        if let Event::Granted {
            user, key: None, ..
        } = entry.event
        {
            *made.entry(user.as_str().to_owned()).or_default() += 1;
        }
    }
    assert!(!asked.is_empty());
    assert_eq!(asked, made, "requests and orders");
    let replayable: Vec<_> = answers
        .into_iter()
        .filter(|(claim, _)| claim.campaign == packet.id || claim.key.is_some())
        .collect();
    harness.replay(&replayable).await;
    for node in &harness.nodes {
        assert_eq!(probe(node).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_connection_is_slow() {
    through(async |proxy| {
        let late = Duration::from_millis(50);
        proxy.delay(late, late).await;
        tokio::time::sleep(FAULT).await;
        proxy.throttle(20_000).await;
        tokio::time::sleep(FAULT).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_given_up() {
    through(async |proxy| {
        proxy.half_open().await;
        tokio::time::sleep(3 * FAULT).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_responses_are_asked_for_again() {
    through(async |proxy| {
        for _ in 0..3 {
            proxy.drop_responses().await;
            tokio::time::sleep(FAULT).await;
            proxy.pass().await;
            tokio::time::sleep(FAULT / 5).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_are_made_again() {
    through(async |proxy| {
        for n in 0..20 {
            if n % 5 == 0 {
                proxy.refuse().await;
            }
            proxy.cut().await;
            tokio::time::sleep(FAULT / 20).await;
            proxy.pass().await;
            tokio::time::sleep(FAULT / 20).await;
        }
    })
    .await;
}

/// The call times out and is sent again on another connection. It gets an answer, other calls follow, and then the
/// first packet arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_that_arrives_after_its_repetition_decides_nothing() {
    through(async |proxy| {
        for _ in 0..3 {
            proxy.delay(3 * CALL_TIMEOUT, Duration::ZERO).await;
            tokio::time::sleep(CALL_TIMEOUT / 2).await;
            proxy.pass().await;
            tokio::time::sleep(2 * CALL_TIMEOUT).await;
        }
    })
    .await;
}

/// A slow script runs, and the server refuses all other calls as busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_script_is_waited_for() {
    const BUSY: &str = "for _ = 1, 20000000 do end";
    let threshold = ServerOptions::new().line("busy-reply-threshold 20");
    let server = blocking(|| Standalone::start(&threshold));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let answers = std::thread::scope(|scope| {
        // The script may run longer than the wait for its answer.
        scope.spawn(|| drop(server.primary().call(&["EVAL", BUSY, "0"])));
        blocking(|| {
            let refused = || server.primary().call(&["PING"]).is_err().then_some(());
            qiang_testkit::servers::wait_for("the script", FAULT, refused);
        });
        let claims = (0..USERS).map(|n| harness.nodes[n % 2].claim(target.one(&name(n))));
        claims.collect::<Vec<_>>()
    });
    for answer in answers {
        assert!(grant_of(&answer.await.unwrap()).is_some());
    }
}
