//! A race: many clicks, taken by a bounded number of connections as fast as they are answered, or at set times.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::{StatusCode, header::HeaderValue};

use super::client::Client;

/// How long a race may take before what is left of it counts as failed.
const RACE_MAX: Duration = Duration::from_secs(120);
/// Latencies are recorded up to this, in microseconds.
const LATENCY_US_MAX: u64 = 120_000_000;

/// A user and the token that proves it.
pub(crate) struct Racer {
    pub(crate) token: HeaderValue,
}

/// What a race is about.
pub(crate) struct Course {
    pub(crate) addr: SocketAddr,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) racers: Arc<Vec<Racer>>,
    /// Which racer makes which click, in order; a racer may click more than once.
    pub(crate) clicks: Arc<Vec<u32>>,
    pub(crate) connections: usize,
    /// Closed loop: as fast as answers come. Open loop: clicks start at this rate whatever the answers do, and
    /// latency counts from when a click was due.
    pub(crate) per_second: Option<f64>,
    /// No new click after this long.
    pub(crate) time_max: Option<Duration>,
    /// Keep the bodies of successes, to be checked afterwards.
    pub(crate) keep_grants: bool,
}

/// A success that a user saw.
pub(crate) struct Seen {
    pub(crate) racer: u32,
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// What came of a race.
pub(crate) struct Results {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    /// How many answers had each status.
    pub(crate) statuses: std::collections::BTreeMap<u16, u64>,
    pub(crate) seen: Vec<Seen>,
    /// Requests that got no answer.
    pub(crate) errors: u64,
    pub(crate) latency_us: Histogram<u64>,
}

impl Results {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            seconds: 0.0,
            requests: 0,
            statuses: std::collections::BTreeMap::new(),
            seen: Vec::new(),
            errors: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
        })
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    pub(crate) fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Adds what another race, or another connection of this one, came to.
    pub(crate) fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.requests += other.requests;
        self.errors += other.errors;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.seen.extend(other.seen);
        self.latency_us.add(other.latency_us)?;
        Ok(())
    }
}

/// Runs the race. `progress` is told of answered clicks, now and then.
pub(crate) async fn run(
    course: Course,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> anyhow::Result<Results> {
    let course = Arc::new(course);
    let progress = Arc::new(progress);
    let mut clients = Vec::with_capacity(course.connections);
    for _ in 0..course.connections {
        clients.push(Client::connect(course.addr).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let lane = Lane {
                course: Arc::clone(&course),
                next: Arc::clone(&next),
                started,
            };
            let progress = Arc::clone(&progress);
            tokio::spawn(async move { lane.run(client, &*progress).await })
        })
        .collect();
    let mut results = Results::new()?;
    for task in tasks {
        results.add(task.await??)?;
    }
    results.seconds = started.elapsed().as_secs_f64();
    Ok(results)
}

/// Progress is told once for this many answers of a lane.
const PROGRESS_EVERY: u64 = 16;

/// One connection's part in a race.
struct Lane {
    course: Arc<Course>,
    next: Arc<AtomicUsize>,
    started: Instant,
}

impl Lane {
    async fn run(
        self,
        client: Client,
        progress: &(impl Fn(u64) + Sync),
    ) -> anyhow::Result<Results> {
        let course = &self.course;
        let mut client = Some(client);
        let mut results = Results::new()?;
        loop {
            let click = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(racer) = course.clicks.get(click).copied() else {
                break;
            };
            let due = self.due(click).await;
            let elapsed = self.started.elapsed();
            if elapsed > RACE_MAX || course.time_max.is_some_and(|max| elapsed > max) {
                break;
            }
            let token = &course.racers[racer as usize].token;
            results.requests += 1;
            let answer = match &mut client {
                Some(client) => client.post(&course.path, token, course.body.clone()).await,
                None => Err(anyhow::anyhow!("no connection")),
            };
            match answer {
                Ok(answer) => {
                    *results.statuses.entry(answer.status.as_u16()).or_default() += 1;
                    results
                        .latency_us
                        .saturating_record(due.elapsed().as_micros() as u64);
                    if course.keep_grants && answer.status.is_success() {
                        // A copy: the body is a slice of the connection's whole read buffer.
                        let body = Bytes::copy_from_slice(&answer.body);
                        results.seen.push(Seen {
                            racer,
                            status: answer.status,
                            body,
                        });
                    }
                }
                Err(_) => {
                    results.errors += 1;
                    client = Client::connect(course.addr).await.ok();
                }
            }
            if results.requests.is_multiple_of(PROGRESS_EVERY) {
                progress(PROGRESS_EVERY);
            }
        }
        progress(results.requests % PROGRESS_EVERY);
        Ok(results)
    }

    /// Waits until a click is due, and tells when that was.
    async fn due(&self, click: usize) -> Instant {
        let Some(per_second) = self.course.per_second else {
            return Instant::now();
        };
        let due = self.started + Duration::from_secs_f64(click as f64 / per_second);
        tokio::time::sleep_until(due.into()).await;
        due
    }
}
