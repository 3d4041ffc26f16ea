//! The script cache is flushed continuously, and no client notices.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use qiang_core::split::SplitRule;
use qiang_testkit::{
    campaign::{red_packet, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, name, open_now, patient, wait_for, winners,
};

/// Flushes per connection.
const RUN: usize = 50;
/// Minimum flushes, and minimum claims.
const FLUSHES: usize = 2_000;
const CLAIMS: usize = 3_000;
const STOCK: u32 = 2_000;

/// A thread that flushes the script cache until this is dropped.
struct Flushing {
    count: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Flushing {
    fn start(server: &Arc<Standalone>) -> Self {
        let (count, stop): (Arc<AtomicUsize>, Arc<AtomicBool>) = (Arc::default(), Arc::default());
        let (server, counted, stopped) =
            (Arc::clone(server), Arc::clone(&count), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || {
            // Many flushes on one connection without a pause, so that one call meets several.
            let flush: &[&str] = &["SCRIPT", "FLUSH"];
            while !stopped.load(Ordering::Acquire) {
                server.primary().calls(&[flush; RUN]).unwrap();
                counted.fetch_add(RUN, Ordering::Relaxed);
            }
        });
        Self { count, stop }
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_script_cache_reaches_no_client() {
    let server = Arc::new(blocking(|| Standalone::start(&ServerOptions::new())));
    let mut harness = Harness::new(patient(server.url())).await;
    let flushing = Flushing::start(&server);
    let on_sale = harness.open(open_now(sale(STOCK))).await;
    let split = SplitRule::Lazy { min: 1 };
    let packet = harness
        .open(open_now(red_packet(1_000_000, STOCK, split)))
        .await;
    let made = move |n: usize| {
        Some(
            if n.is_multiple_of(2) {
                &on_sale
            } else {
                &packet
            }
            .one(&name(n / 2)),
        )
    };
    let load = harness.start(made, SHORT_PAUSE);
    load.more(CLAIMS).await;
    wait_for("flushes", || {
        flushing.count.load(Ordering::Relaxed) >= FLUSHES
    })
    .await;
    wait_for("the sell-out", || load.size() > 5 * STOCK as usize).await;
    let answers = load.stop().await;
    assert_eq!(harness.record.errors(), 0, "a flush reached a client");
    assert_eq!(winners(&answers), 2 * STOCK as usize);
    harness.replay(&answers).await;
    drop(flushing);
    harness.audit().await;
}
