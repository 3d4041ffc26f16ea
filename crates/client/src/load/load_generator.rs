//! Load generator: many claims over a fixed number of connections, as fast as answers arrive or at a fixed rate.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::{StatusCode, header::HeaderValue};

use crate::load::{
    client::{LoadClient, Response},
    ticket,
};

/// Time limit of a load. Later clicks are skipped.
const LOAD_MAX: Duration = Duration::from_secs(120);
/// Maximum recorded latency, in microseconds.
const LATENCY_US_MAX: u64 = 120_000_000;

/// User with the token that identifies it.
pub struct User {
    /// The value of the header `Authorization`.
    pub token: HeaderValue,
}

/// Plan of a load.
pub struct LoadPlan {
    /// The service.
    pub addr: SocketAddr,
    /// Path of every click's `POST`.
    pub path: String,
    /// Body of every click's `POST`.
    pub body: Bytes,
    /// Path of grab tickets, if users need one for each click. Getting it counts as part of the click.
    pub tickets: Option<String>,
    /// The users.
    pub users: Arc<Vec<User>>,
    /// Index of the user of each click, in order. A user may click several times.
    pub clicks: Arc<Vec<u32>>,
    /// Number of connections that all users share.
    pub connections: usize,
    /// Rate of an open loop: clicks start at this rate, independent of answers, and latency counts from the due time of
    /// a click. `None` for a closed loop, as fast as answers arrive.
    pub per_second: Option<f64>,
    /// Time after which no new click starts.
    pub time_max: Option<Duration>,
    /// Whether to keep the bodies of successes for a later check.
    pub keep_grants: bool,
}

impl LoadPlan {
    async fn click(
        &self,
        client: &mut LoadClient,
        token: &HeaderValue,
    ) -> anyhow::Result<Response> {
        let body = self.body.clone();
        match &self.tickets {
            None => client.post(&self.path, token, body).await,
            Some(tickets) => match ticket::get(client, tickets, token).await? {
                Ok(ticket) => {
                    client
                        .post_with_ticket(&self.path, token, &ticket, body)
                        .await
                }
                Err(refused) => Ok(refused),
            },
        }
    }
}

/// Success that a user saw.
pub struct SeenGrant {
    /// Index of the user.
    pub user: u32,
    /// 201 or 200.
    pub status: StatusCode,
    /// The grant as JSON.
    pub body: Bytes,
}

/// Results of a load.
pub struct LoadResults {
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of clicks.
    pub requests: u64,
    /// Number of answers by status.
    pub statuses: std::collections::BTreeMap<u16, u64>,
    /// The successes, if `keep_grants` is set.
    pub seen: Vec<SeenGrant>,
    /// Number of requests without an answer.
    pub errors: u64,
    /// Latencies in microseconds.
    pub latency_us: Histogram<u64>,
}

impl LoadResults {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            seconds: 0.0,
            requests: 0,
            statuses: std::collections::BTreeMap::new(),
            seen: Vec::new(),
            errors: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
        })
    }

    /// Clicks per second.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Number of answers with this status.
    pub fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

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

/// Generates the load. Calls `progress` with the number of clicks answered since the last call.
///
/// # Errors
/// If the connections cannot be opened.
pub fn run(plan: LoadPlan, progress: impl Fn(u64) + Send + Sync + 'static) -> Running {
    start(plan, Arc::new(progress))
}

/// Running load.
pub type Running = Pin<Box<dyn Future<Output = anyhow::Result<LoadResults>> + Send>>;

type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Boxing compiles the load here, with this crate's optimization, and not in each program that uses it.
fn start(plan: LoadPlan, progress: Progress) -> Running {
    Box::pin(make(plan, progress))
}

async fn make(plan: LoadPlan, progress: Progress) -> anyhow::Result<LoadResults> {
    let mut clients = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        clients.push(LoadClient::connect(plan.addr).await?);
    }
    let connection = LoadConnection {
        plan: Arc::new(plan),
        next: Arc::default(),
        started: Instant::now(),
    };
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (connection, progress) = (connection.clone(), Arc::clone(&progress));
            tokio::spawn(async move { connection.run(client, &*progress).await })
        })
        .collect();
    let mut results = LoadResults::new()?;
    for task in tasks {
        results.add(task.await??)?;
    }
    results.seconds = connection.started.elapsed().as_secs_f64();
    Ok(results)
}

/// Number of answers of a connection between two progress reports.
const PROGRESS_EVERY: u64 = 16;

/// One connection's share of the load.
#[derive(Clone)]
struct LoadConnection {
    plan: Arc<LoadPlan>,
    next: Arc<AtomicUsize>,
    started: Instant,
}

impl LoadConnection {
    async fn run(
        self,
        client: LoadClient,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> anyhow::Result<LoadResults> {
        let plan = &self.plan;
        let mut client = Some(client);
        let mut results = LoadResults::new()?;
        loop {
            let click = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(user) = plan.clicks.get(click).copied() else {
                break;
            };
            let due = self.due(click).await;
            let elapsed = self.started.elapsed();
            if elapsed > LOAD_MAX || plan.time_max.is_some_and(|max| elapsed > max) {
                break;
            }
            let token = &plan.users[user as usize].token;
            results.requests += 1;
            let answer = match &mut client {
                Some(client) => plan.click(client, token).await,
                None => Err(anyhow::anyhow!("no connection")),
            };
            match answer {
                Ok(answer) => {
                    *results.statuses.entry(answer.status.as_u16()).or_default() += 1;
                    results
                        .latency_us
                        .saturating_record(due.elapsed().as_micros() as u64);
                    if plan.keep_grants && answer.status.is_success() {
                        // Copies the body, because it is a slice of the connection's whole read buffer.
                        let body = Bytes::copy_from_slice(&answer.body);
                        results.seen.push(SeenGrant {
                            user,
                            status: answer.status,
                            body,
                        });
                    }
                }
                Err(_) => {
                    results.errors += 1;
                    client = LoadClient::connect(plan.addr).await.ok();
                }
            }
            if results.requests.is_multiple_of(PROGRESS_EVERY) {
                progress(PROGRESS_EVERY);
            }
        }
        progress(results.requests % PROGRESS_EVERY);
        Ok(results)
    }

    /// Waits until a click is due. Returns the due time.
    async fn due(&self, click: usize) -> Instant {
        let Some(per_second) = self.plan.per_second else {
            return Instant::now();
        };
        due_at(self.started, click, per_second).await
    }
}

/// Waits until a click of an open loop is due. Returns the due time.
pub(crate) async fn due_at(started: Instant, click: usize, per_second: f64) -> Instant {
    let due = started + Duration::from_secs_f64(click as f64 / per_second);
    tokio::time::sleep_until(due.into()).await;
    due
}
