//! Report of the costs of requests.

use serde::Serialize;

use crate::median;

/// Costs of one kind of request over all rounds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Processor time of the node per request, in µs.
    pub(super) node_us: Vec<f64>,
    /// The same divided by that of the no-op of its round.
    pub(super) ratios: Vec<f64>,
    /// Processor time of Redis per request, in µs.
    pub(super) redis_us: Vec<f64>,
}

impl Kind {
    pub(super) fn node_us(&self) -> f64 {
        median(self.node_us.iter().copied()).unwrap_or(f64::NAN)
    }

    pub(super) fn ratio(&self) -> f64 {
        median(self.ratios.iter().copied()).unwrap_or(f64::NAN)
    }

    pub(super) fn redis_us(&self) -> Option<f64> {
        median(self.redis_us.iter().copied())
    }
}

#[derive(Debug, Serialize)]
pub(super) struct CostReport {
    pub(super) engine: &'static str,
    pub(super) rounds: u32,
    pub(super) requests: u32,
    pub(super) kinds: Vec<Kind>,
    /// Memory of the node after its start.
    pub(super) node_bytes: u64,
    /// Memory of an open stream.
    pub(super) stream_bytes: f64,
    /// File per paid order; `None` if the ledger is in a database.
    pub(super) paid_order_bytes: Option<f64>,
    /// Node's time of a request of the mix, as measured and as the sum of the kinds.
    pub(super) mix_us: f64,
    pub(super) mix_model_us: f64,
}

impl CostReport {
    pub(super) fn print(&self) {
        println!(
            "medians of {} rounds of {} requests, engine {}",
            self.rounds, self.requests, self.engine
        );
        for kind in &self.kinds {
            print!(
                "{:<14} {:>8.1} µs of the node's CPU, {:>6.2} times a no-op",
                kind.name,
                kind.node_us(),
                kind.ratio()
            );
            match kind.redis_us() {
                Some(redis_us) => println!("; {redis_us:.1} µs of Redis'"),
                None => println!(),
            }
        }
        println!(
            "memory: {:.1} MB after the start, {:.1} KB per stream",
            self.node_bytes as f64 / 1e6,
            self.stream_bytes / 1e3
        );
        if let Some(bytes) = self.paid_order_bytes {
            println!("file: {bytes:.0} bytes per paid order");
        }
        println!(
            "mix of no-op, refusal, claim, payment: {:.1} µs per request, {:.1} by the sum of its kinds ({:.2})",
            self.mix_us,
            self.mix_model_us,
            self.mix_model_us / self.mix_us
        );
    }
}
