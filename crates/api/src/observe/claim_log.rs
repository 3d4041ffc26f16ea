//! Log of claims: one line of JSON per claim, in a file or on standard output.
//!
//! A claim puts its event into a bounded queue and never waits. A thread formats and writes the events. If the queue is
//! full, or the file cannot be written, events are dropped and counted. No line has a token, an address or a body.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::http::StatusCode;
use qiang_core::{
    event::PartitionId,
    id::{CampaignId, UserId},
    outcome::{Grant, Outcome},
    time::Timestamp,
};
use serde::Serialize;

use crate::{
    config::ClaimLogConfig,
    http::{request_id::RequestId, wire::ToWire as _},
};

/// Name of standard output in `claim_log.file`.
const STDOUT: &str = "-";

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimEnd {
    /// Granted, now or before.
    Granted,
    /// Refused by a rule, or put into a queue.
    Refused,
    /// Not decided.
    Failed,
}

/// A claim, as far as it has been followed.
pub(crate) struct ClaimTrail {
    pub(crate) campaign: CampaignId,
    pub(crate) partition: Option<PartitionId>,
    /// Outcome; empty before the end.
    pub(crate) outcome: &'static str,
    pub(crate) grant: Option<Grant>,
    begun: Instant,
}

impl ClaimTrail {
    pub(crate) fn begin(campaign: CampaignId) -> Self {
        Self {
            campaign,
            partition: None,
            outcome: "",
            grant: None,
            begun: Instant::now(),
        }
    }

    /// Records the outcome.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        self.outcome = outcome.name();
        self.grant = outcome.grant().copied();
    }
}

/// An event in the queue.
struct ClaimEvent {
    at: Timestamp,
    request: Option<RequestId>,
    trail: ClaimTrail,
    status: StatusCode,
    problem: Option<String>,
    user: Option<UserId>,
    took: Duration,
}

/// Counts of events.
#[derive(Debug, Default)]
pub(crate) struct ClaimLogCounts {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl ClaimLogCounts {
    /// Written and dropped events.
    pub(crate) fn get(&self) -> [(&'static str, u64); 2] {
        [
            ("written", self.written.load(Ordering::Relaxed)),
            ("dropped", self.dropped.load(Ordering::Relaxed)),
        ]
    }
}

/// The log.
pub(crate) struct ClaimLog {
    queue: SyncSender<ClaimEvent>,
    pub(crate) counts: Arc<ClaimLogCounts>,
    refusals_ratio: f64,
    names_users: bool,
}

impl ClaimLog {
    /// Opens the configured file and starts the writer; `None` if no file is configured.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn start(config: &ClaimLogConfig) -> anyhow::Result<Option<Self>> {
        let file: Box<dyn Write + Send> = match config.file.as_str() {
            "" => return Ok(None),
            STDOUT => Box::new(io::stdout()),
            path => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.with_context(|| format!("open {path} (claim_log.file)"))?)
            }
        };
        let (queue, events) = sync_channel(config.queue_max);
        let counts = Arc::<ClaimLogCounts>::default();
        let counted = Arc::clone(&counts);
        let thread = thread::Builder::new().name("claim-log".to_owned());
        thread.spawn(move || write(&events, file, &counted))?;
        Ok(Some(Self {
            queue,
            counts,
            refusals_ratio: config.refusals_ratio,
            names_users: config.users,
        }))
    }

    /// Adds a claim that has ended, if it is one to write.
    pub(crate) fn add(
        &self,
        end: ClaimEnd,
        trail: ClaimTrail,
        (status, problem): (StatusCode, Option<&str>),
        user: &UserId,
        at: Timestamp,
    ) {
        if end == ClaimEnd::Refused && rand::random::<f64>() >= self.refusals_ratio {
            return;
        }
        let took = trail.begun.elapsed();
        let event = ClaimEvent {
            at,
            request: RequestId::current(),
            trail,
            status,
            problem: problem.map(str::to_owned),
            user: self.names_users.then(|| user.clone()),
            took,
        };
        if self.queue.try_send(event).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A line. Absent values are left out.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    campaign: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u16>,
    outcome: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    duration_us: u64,
}

impl ClaimEvent {
    fn line(&self) -> serde_json::Result<Vec<u8>> {
        let trace = self.request.as_ref().and_then(RequestId::trace);
        let line = Line {
            at: self.at.to_wire().to_string(),
            request_id: self.request.as_ref().map(RequestId::as_str),
            trace_id: trace.map(ToString::to_string),
            campaign: self.trail.campaign.to_string(),
            partition: self.trail.partition.map(|partition| partition.0),
            outcome: self.trail.outcome,
            status: self.status.as_u16(),
            problem: self.problem.as_deref(),
            number: self.trail.grant.map(|grant| grant.number),
            user: self.user.as_ref().map(UserId::as_str),
            duration_us: u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
        };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Writes events until the log is dropped. Flushes whenever no event waits.
fn write(events: &Receiver<ClaimEvent>, file: impl Write, counts: &ClaimLogCounts) {
    let (mut file, mut has_failed) = (BufWriter::new(file), false);
    while let Ok(event) = events.recv() {
        let mut result = append(&mut file, &event, counts);
        while let Ok(event) = events.try_recv() {
            result = result.and(append(&mut file, &event, counts));
        }
        match result.and_then(|()| file.flush()) {
            Ok(()) => has_failed = false,
            Err(_) if has_failed => {}
            Err(error) => {
                tracing::error!(%error, "claims cannot be written to claim_log.file");
                has_failed = true;
            }
        }
    }
}

fn append(file: &mut impl Write, event: &ClaimEvent, counts: &ClaimLogCounts) -> io::Result<()> {
    let line = event.line().map_err(io::Error::from);
    let written = line.and_then(|line| file.write_all(&line));
    let count = match written {
        Ok(()) => &counts.written,
        Err(_) => &counts.dropped,
    };
    count.fetch_add(1, Ordering::Relaxed);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u32) -> ClaimEvent {
        let campaign = uuid::Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        let campaign = CampaignId::new(campaign).unwrap();
        ClaimEvent {
            at: Timestamp::from_millis(0),
            request: None,
            trail: ClaimTrail {
                outcome: "granted",
                partition: Some(PartitionId(3)),
                ..ClaimTrail::begin(campaign)
            },
            status: StatusCode::CREATED,
            problem: None,
            user: None,
            took: Duration::from_micros(u64::from(number)),
        }
    }

    /// A disk without room.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_and_a_full_disk_drop_events_and_count_them() {
        let (queue, events) = sync_channel(2);
        let log = ClaimLog {
            queue,
            counts: Arc::default(),
            refusals_ratio: 0.0,
            names_users: false,
        };
        let user = UserId::new("ann").unwrap();
        for _ in 0..5 {
            let trail = event(0).trail;
            let answer = (StatusCode::CREATED, None);
            log.add(
                ClaimEnd::Granted,
                trail,
                answer,
                &user,
                Timestamp::from_millis(0),
            );
        }
        assert_eq!(log.counts.get(), [("written", 0), ("dropped", 3)]);
        let counts = ClaimLogCounts::default();
        // More than the buffer holds.
        let (queue, more) = sync_channel(1_000);
        (0..1_000).for_each(|n| queue.send(event(n)).unwrap());
        drop(queue);
        write(&more, Full, &counts);
        assert!(counts.get()[1].1 > 0, "{counts:?}");
        assert_eq!(events.try_iter().count(), 2);
    }

    #[test]
    fn a_line_names_what_is_known_and_no_user() {
        let line = String::from_utf8(event(7).line().unwrap()).unwrap();
        let expected = "{\"at\":\"1970-01-01T00:00:00.000Z\",\
            \"campaign\":\"01900000-0000-7000-8000-000000000001\",\"partition\":3,\"outcome\":\"granted\",\
            \"status\":201,\"duration_us\":7}\n";
        assert_eq!(line, expected);
    }
}
