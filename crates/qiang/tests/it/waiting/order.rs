//! A short queue whose first user clicks twice. The node is killed soon after the sale is resumed, again and again, and
//! grants have the order of places. `QIANG_KILLS` says how many queues are tried. It prints how many of the kills came
//! before the first user was answered, and how many before the last.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use qiang_testkit::servers::redis::{Options, Standalone};
use rand::RngExt as _;
use serde_json::json;
use tokio::task::block_in_place;

use super::{DECIDED_MAX, Served, act, ask};
use crate::common::{call, sale};

const QUEUES: u32 = 5;
/// Users of each queue.
const PLACES: u32 = 30;
/// Queues between two printed lines.
const PROGRESS: u32 = 100;
/// Longer than the node needs to decide the queue.
const KILLED_AFTER_MS: std::ops::Range<u64> = 0..60;

/// From this number of queues on, some kills come before the first user is answered, and some between the first and the
/// last.
const MANY_QUEUES: u32 = 100;

/// Kills by their time.
#[derive(Debug, Default)]
struct Kills {
    before_the_first: u32,
    before_the_last: u32,
    after_the_last: u32,
}

/// Decides one queue and kills the node at the same time. Returns the order numbers by place.
async fn numbers_after_a_kill(served: &Served, kills: &mut Kills) -> BTreeMap<u64, u64> {
    let addr = served.nodes[0].addr();
    let mut body = sale(PLACES);
    body["waiting_room"] = json!(true);
    body["hold_seconds"] = json!(3_600);
    let opened = act(addr, "/v1/sales", Some(body)).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let id = opened.text("id");
    let campaign = format!("/v1/campaigns/{id}");
    assert_eq!(
        act(addr, &format!("{campaign}/pause"), None).await.status,
        200
    );
    let orders = format!("/v1/sales/{id}/orders");
    let mut places = BTreeMap::new();
    for user in [0].into_iter().chain(0..PLACES) {
        let reply = ask(addr, "POST", &orders, user).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        places.insert(reply.json()["place"].as_u64().unwrap(), user);
    }
    assert_eq!(places.len(), PLACES as usize);
    assert_eq!(
        act(addr, &format!("{campaign}/resume"), None).await.status,
        200
    );
    let wait = rand::rng().random_range(KILLED_AFTER_MS);
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let entry = format!("{campaign}/queue-entry");
    let is_granted = async |user| {
        let reply = ask(addr, "GET", &entry, user).await;
        reply.json()["state"] == "granted"
    };
    // The last is asked first, so that a queue that moves counts as not decided.
    match (is_granted(PLACES - 1).await, is_granted(0).await) {
        (true, _) => kills.after_the_last += 1,
        (false, true) => kills.before_the_last += 1,
        (false, false) => kills.before_the_first += 1,
    }
    block_in_place(|| {
        served.nodes[0].kill();
        served.nodes[0].start_again();
    });
    let mut numbers = BTreeMap::new();
    for (place, user) in places {
        let began = Instant::now();
        let number = loop {
            let reply = ask(addr, "GET", &entry, user).await;
            if reply.json()["state"] == "granted" {
                break reply.json()["order"]["number"].as_u64().unwrap();
            }
            assert_eq!(reply.json()["state"], "waiting", "{reply:?}");
            assert!(began.elapsed() < DECIDED_MAX, "place {place} waits still");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        numbers.insert(place, number);
    }
    let state = call(addr, "GET", &format!("{campaign}/state"), None, &[], None).await;
    assert_eq!(state.json()["granted"], json!(PLACES));
    numbers
}

async fn grants_have_the_order_of_places(served: Served) {
    let queues = std::env::var("QIANG_KILLS").ok();
    let queues = queues.map_or(QUEUES, |queues| queues.parse().unwrap());
    let (mut broken, mut kills) = (Vec::new(), Kills::default());
    for done in 0..queues {
        if done > 0 && done % PROGRESS == 0 {
            println!("{done} queues, {} out of order: {kills:?}", broken.len());
        }
        let numbers = numbers_after_a_kill(&served, &mut kills).await;
        let order: Vec<u64> = numbers.into_values().collect();
        if !order.is_sorted() {
            broken.push(order);
        }
    }
    let first = broken.first();
    assert!(
        broken.is_empty(),
        "{} of {queues} queues, such as {first:?}",
        broken.len()
    );
    println!("{queues} queues have the order of their places: {kills:?}");
    let in_time = kills.before_the_first.min(kills.before_the_last);
    assert!(queues < MANY_QUEUES || in_time > 0, "{kills:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_file() {
    grants_have_the_order_of_places(Served::start(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let redis = block_in_place(|| Standalone::start(&Options::new().fsync_always()));
    grants_have_the_order_of_places(Served::start(Some(redis))).await;
}
