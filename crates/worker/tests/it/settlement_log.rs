//! Log lines of settlement: one when it becomes stuck, and one when it recovers. This test has its own process, because
//! other tests would reach the same lines while its subscriber is installed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::fakes::{FakeLedger, FakeLog};
use qiang_core::{
    event::PartitionId,
    ports::{EventLog, Ledger},
};
use qiang_worker::settlement::{Settlement, SettlementOptions};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_change_of_state_is_logged_once() {
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(logged.clone());
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    log.ends_at(1, 5);
    ledger.refused.lock().unwrap().push(PartitionId(1));
    let settlement = Settlement::start(
        Arc::clone(&log) as Arc<dyn EventLog>,
        Arc::clone(&ledger) as Arc<dyn Ledger>,
        SettlementOptions::new(Box::new(|_, _, _| {})),
    );
    sleep(Duration::from_secs(60)).await;
    assert!(ledger.attempts.lock().unwrap().len() > 10);
    assert_eq!(logged.count(), 1);
    ledger.refused.lock().unwrap().clear();
    sleep(Duration::from_secs(60)).await;
    assert_eq!((ledger.at(1), logged.count()), (5, 2));
    log.ends_at(1, 3);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(logged.count(), 3);
    settlement.stop().await;
}

/// Counts log lines.
#[derive(Clone, Default)]
struct Logged(Arc<AtomicUsize>);

impl Logged {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl tracing::Subscriber for Logged {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("qiang_worker")
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
