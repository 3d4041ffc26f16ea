//! Grant timelines that were read a moment ago.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{id::CampaignId, ports::LedgerError};
use qiang_wire::answers::GrantTimeline;
use tokio::time::Instant;

use crate::protect::single_flight::SingleFlight;

/// Time for which a timeline is answered from memory.
const KEPT: Duration = Duration::from_secs(5);
/// Maximum number of timelines in memory, of up to 512 points each.
const TIMELINES_MAX: usize = 64;

/// Timelines by campaign. Concurrent readers of one share a read.
#[derive(Default)]
pub(crate) struct GrantTimelines {
    kept: Mutex<HashMap<CampaignId, (Instant, Arc<GrantTimeline>)>>,
    running: SingleFlight<CampaignId, Result<Arc<GrantTimeline>, LedgerError>>,
}

impl GrantTimelines {
    /// Timeline of a campaign, read by `read` unless it was read a moment ago.
    pub(crate) async fn get(
        &self,
        id: CampaignId,
        read: impl Future<Output = Result<GrantTimeline, LedgerError>>,
    ) -> Result<Arc<GrantTimeline>, LedgerError> {
        let is_fresh = |at: &Instant| at.elapsed() < KEPT;
        if let Some((at, timeline)) = self.kept.lock().get(&id)
            && is_fresh(at)
        {
            return Ok(Arc::clone(timeline));
        }
        let read = async { read.await.map(Arc::new) };
        let timeline = self.running.run(id, read).await?;
        let mut kept = self.kept.lock();
        kept.retain(|_, (at, _)| is_fresh(at));
        if kept.len() < TIMELINES_MAX {
            kept.insert(id, (Instant::now(), Arc::clone(&timeline)));
        }
        Ok(timeline)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use qiang_wire::ids;

    use super::*;
    use crate::http::wire::ToWire as _;

    fn id(n: u128) -> CampaignId {
        format!("01932c07-8e5a-7a3c-9f1e-{n:012x}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeline_is_read_once_per_five_seconds_and_few_are_kept() {
        let (timelines, reads) = (GrantTimelines::default(), AtomicUsize::new(0));
        let read = async |n: u128| {
            let campaign: ids::CampaignId = id(n).to_wire();
            let read = async {
                reads.fetch_add(1, Ordering::Relaxed);
                Ok(GrantTimeline {
                    campaign,
                    last_number: 0,
                    sampled: false,
                    points: Vec::new(),
                    settled: true,
                })
            };
            assert!(timelines.get(id(n), read).await.is_ok());
            reads.load(Ordering::Relaxed)
        };
        assert_eq!((read(1).await, read(1).await), (1, 1));
        tokio::time::advance(KEPT).await;
        assert_eq!((read(1).await, read(1).await), (2, 2));
        for n in 2..200 {
            read(n).await;
        }
        assert_eq!(timelines.kept.lock().len(), TIMELINES_MAX);
        // A campaign without room is read each time, and a failure is not kept.
        assert_eq!((read(300).await, read(300).await), (201, 202));
        let broken = async { Err(LedgerError::unavailable("broken")) };
        tokio::time::advance(KEPT).await;
        assert!(timelines.get(id(1), broken).await.is_err());
        assert_eq!(read(1).await, 203);
    }
}
