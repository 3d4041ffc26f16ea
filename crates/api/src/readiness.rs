//! Whether claims can be granted, found out by trying it.

use std::time::{Duration, Instant};

use qiang_core::ports::Engine;
use tokio::sync::Mutex;

use crate::gauges::Gauges;

/// A probe costs a commit: its result serves for this long.
const PROBE_KEPT: Duration = Duration::from_secs(1);
/// A probe that takes longer has failed.
const PROBE_MAX: Duration = Duration::from_secs(3);

/// The last probe, and when it was made. The lock is held while probing, so that callers share one probe.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// Probes the engine, unless that was done a moment ago.
    ///
    /// # Errors
    /// Why nothing can be granted.
    pub(crate) async fn check(
        &self,
        gauges: &dyn Gauges,
        engine: &dyn Engine,
    ) -> Result<(), String> {
        if let Some(reason) = gauges.stopped() {
            return Err(reason);
        }
        let mut last = self.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < PROBE_KEPT
        {
            return result.clone();
        }
        let result = match tokio::time::timeout(PROBE_MAX, engine.probe()).await {
            Ok(probed) => probed.map_err(|error| error.to_string()),
            Err(_) => Err("the engine does not answer".to_owned()),
        };
        *last = Some((Instant::now(), result.clone()));
        result
    }
}
