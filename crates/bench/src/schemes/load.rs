//! The two loads, and the queue in which their users wait: the same users in the same order for every scheme.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use qiang_core::{
    campaign::CampaignKind,
    outcome,
    ports::{Claimed, EngineError, PendingReply},
};
use serde::Serialize;
use tokio::task::JoinSet;

use super::scheme::{Client, Drive, Opened, Outcome};
use crate::fixture;

/// Time limit of one run of one scheme.
const RUN_MAX: Duration = Duration::from_secs(600);
/// Maximum recorded latency, in microseconds.
const LATENCY_US_MAX: u64 = 600_000_000;
/// Number of answers of a client between two progress reports.
const PROGRESS_EVERY: u64 = 256;

/// Size of a load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Load {
    pub(super) load: Name,
    pub(super) users: u32,
    pub(super) shares: u32,
    /// Number of waiting users; the next one joins when one gets an answer.
    pub(super) waiting: u32,
    pub(super) connections: u32,
    /// Every this many users, one clicks twice; 0 for none.
    pub(super) twice_every: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Name {
    Rush,
    Drain,
}

impl Name {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Rush => "rush",
            Self::Drain => "drain",
        }
    }
}

pub(super) struct Users {
    pub(super) names: Vec<String>,
    /// Users of the clicks, in order. A second click follows the first directly, so that two connections serve one
    /// user.
    clicks: Vec<u32>,
    waiting: usize,
}

impl Users {
    pub(super) fn new(load: &Load) -> Self {
        let clicks = (0..load.users).flat_map(|user| {
            let twice = load.twice_every > 0 && user % load.twice_every == 0;
            std::iter::repeat_n(user, if twice { 2 } else { 1 })
        });
        Self {
            names: (0..load.users).map(|user| format!("u{user}")).collect(),
            clicks: clicks.collect(),
            waiting: load.waiting as usize,
        }
    }

    pub(super) fn claims(&self) -> u64 {
        self.clicks.len() as u64
    }
}

/// Waiting users of one run.
struct WaitingQueue {
    users: Arc<Users>,
    started: Instant,
    next: AtomicUsize,
    answered: AtomicUsize,
    /// Time at which each click joined, in ns after the start. The first `waiting` clicks join at the start.
    joined_ns: Vec<AtomicU64>,
    progress: ProgressBar,
}

struct Turn {
    user: u32,
    joined_ns: u64,
}

/// Stands for a click that has not joined.
const NOT_YET: u64 = u64::MAX;

impl WaitingQueue {
    fn new(users: Arc<Users>, progress: ProgressBar) -> Self {
        let joined = |click| AtomicU64::new(if click < users.waiting { 0 } else { NOT_YET });
        let joined_ns = (0..users.clicks.len()).map(joined).collect();
        Self {
            users,
            started: Instant::now(),
            next: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            joined_ns,
            progress,
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn take(&self) -> Option<Turn> {
        let click = self.next.fetch_add(1, Ordering::Relaxed);
        let user = *self.users.clicks.get(click)?;
        // A click may be taken at the moment of joining. Then it has not waited.
        let joined_ns = self.joined_ns[click]
            .load(Ordering::Relaxed)
            .min(self.now_ns());
        Some(Turn { user, joined_ns })
    }

    /// Removes one user from the queue; the next one joins.
    fn answered(&self) -> u64 {
        let now = self.now_ns();
        let click = self.answered.fetch_add(1, Ordering::Relaxed) + self.users.waiting;
        if let Some(joined) = self.joined_ns.get(click) {
            joined.store(now, Ordering::Relaxed);
        }
        now
    }

    fn name(&self, turn: &Turn) -> &str {
        &self.users.names[turn.user as usize]
    }
}

pub(super) struct Answers {
    /// User and unit of each grant.
    pub(super) granted: Vec<(u32, Option<u64>)>,
    pub(super) already: u64,
    pub(super) sold_out: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) first_error: Option<String>,
    pub(super) latency_us: Histogram<u64>,
    pub(super) round_trips: u64,
}

impl Answers {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            granted: Vec::new(),
            already: 0,
            sold_out: 0,
            refused: 0,
            failed: 0,
            first_error: None,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
            round_trips: 0,
        })
    }

    pub(super) fn claims(&self) -> u64 {
        self.granted.len() as u64 + self.already + self.sold_out + self.refused + self.failed
    }

    fn record(&mut self, queue: &WaitingQueue, turn: &Turn, outcome: anyhow::Result<Outcome>) {
        let waited_ns = queue.answered().saturating_sub(turn.joined_ns);
        self.latency_us.saturating_record(waited_ns / 1_000);
        match outcome {
            Ok(Outcome::Granted { unit }) => self.granted.push((turn.user, unit)),
            Ok(Outcome::Already) => self.already += 1,
            Ok(Outcome::SoldOut) => self.sold_out += 1,
            Ok(Outcome::Refused) => self.refused += 1,
            Err(error) => {
                self.failed += 1;
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        let claims = self.claims();
        if claims.is_multiple_of(PROGRESS_EVERY) {
            queue.progress.inc(PROGRESS_EVERY);
        }
    }

    fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.granted.extend(other.granted);
        self.already += other.already;
        self.sold_out += other.sold_out;
        self.refused += other.refused;
        self.failed += other.failed;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latency_us.add(other.latency_us)?;
        self.round_trips += other.round_trips;
        Ok(())
    }
}

/// Answers of a run, and the time from the first claim to the last answer.
pub(super) struct Ran {
    pub(super) answers: Answers,
    pub(super) seconds: f64,
}

/// Sends the claims of all users, and waits for their answers.
pub(super) async fn run(
    drive: Drive,
    users: &Arc<Users>,
    engine_clients: usize,
    progress: ProgressBar,
) -> anyhow::Result<Ran> {
    let queue = Arc::new(WaitingQueue::new(Arc::clone(users), progress));
    let mut tasks = JoinSet::new();
    match drive {
        Drive::Clients(clients) => {
            for client in clients {
                tasks.spawn(serve(client, Arc::clone(&queue)));
            }
        }
        Drive::Engine(opened) => {
            let clients = engine_clients.min(users.waiting);
            for client in 0..clients {
                // The first clients take the remainder.
                let waiting =
                    users.waiting / clients + usize::from(client < users.waiting % clients);
                tasks.spawn(serve_tickets(opened.clone(), Arc::clone(&queue), waiting));
            }
        }
    }
    let mut answers = Answers::new()?;
    let all = async {
        while let Some(client) = tasks.join_next().await {
            answers.add(client??)?;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(RUN_MAX, all)
        .await
        .with_context(|| format!("some users got no answer within {RUN_MAX:?}"))??;
    let seconds = queue.started.elapsed().as_secs_f64();
    Ok(Ran { answers, seconds })
}

/// Serves one user after another on one connection.
async fn serve(mut client: Box<dyn Client>, queue: Arc<WaitingQueue>) -> anyhow::Result<Answers> {
    let mut answers = Answers::new()?;
    let before = client.round_trips();
    while let Some(turn) = queue.take() {
        let outcome = client.claim(queue.name(&turn)).await;
        answers.record(&queue, &turn, outcome);
    }
    answers.round_trips = client.round_trips() - before;
    Ok(answers)
}

/// Serves a part of the users on an engine, with all their claims in flight at once.
async fn serve_tickets(
    opened: Opened,
    queue: Arc<WaitingQueue>,
    waiting: usize,
) -> anyhow::Result<Answers> {
    let mut answers = Answers::new()?;
    let mut tickets: VecDeque<(Turn, PendingReply<Claimed>)> = VecDeque::with_capacity(waiting);
    loop {
        while tickets.len() < waiting
            && let Some(turn) = queue.take()
        {
            let claim =
                fixture::claim(opened.campaign, CampaignKind::RedPacket, queue.name(&turn))?;
            // As in the service: the gate first, then the engine.
            match opened.engine.try_gate_outcome(&claim) {
                Some(outcome) => answers.record(&queue, &turn, Ok(outcome_of(outcome))),
                None => tickets.push_back((turn, opened.engine.claim(claim))),
            }
        }
        let Some((turn, ticket)) = tickets.pop_front() else {
            return Ok(answers);
        };
        let answer: Result<Claimed, EngineError> = ticket.await;
        let outcome = answer.map(|claimed| outcome_of(claimed.outcome));
        answers.record(&queue, &turn, outcome.map_err(Into::into));
    }
}

fn outcome_of(outcome: outcome::Outcome) -> Outcome {
    match outcome {
        outcome::Outcome::Granted(grant) => Outcome::Granted {
            unit: Some(u64::from(grant.number)),
        },
        outcome::Outcome::AlreadyGranted(_) | outcome::Outcome::LimitReached { .. } => {
            Outcome::Already
        }
        outcome::Outcome::SoldOut { .. } => Outcome::SoldOut,
        outcome::Outcome::UnknownCampaign
        | outcome::Outcome::Paused
        | outcome::Outcome::NotStarted { .. }
        | outcome::Outcome::Ended => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;

    fn load(users: u32, waiting: u32, twice_every: u32) -> Load {
        Load {
            load: Name::Rush,
            users,
            shares: 2,
            waiting,
            connections: 3,
            twice_every,
        }
    }

    #[test]
    fn every_so_many_users_click_twice_in_a_row() {
        assert_eq!(Users::new(&load(5, 5, 2)).clicks, [0, 0, 1, 2, 2, 3, 4, 4]);
        assert_eq!(Users::new(&load(3, 3, 0)).clicks, [0, 1, 2]);
        assert_eq!(Users::new(&load(3, 3, 10)).claims(), 4);
    }

    #[test]
    fn users_beyond_the_first_join_when_others_are_answered() {
        let queue = WaitingQueue::new(Arc::new(Users::new(&load(4, 2, 0))), ProgressBar::hidden());
        let joined = |click: usize| queue.joined_ns[click].load(Ordering::Relaxed);
        assert_eq!(
            (joined(0), joined(1), joined(2), joined(3)),
            (0, 0, NOT_YET, NOT_YET)
        );
        let first = queue.take().unwrap();
        assert_eq!((first.user, first.joined_ns), (0, 0));
        let now = queue.answered();
        assert_eq!((joined(2), joined(3)), (now, NOT_YET));
        assert_eq!(queue.take().unwrap().joined_ns, 0);
        assert_eq!(queue.take().unwrap().joined_ns, now);
        // Taken before its joining is recorded, so it has not waited.
        assert!(queue.take().unwrap().joined_ns <= queue.now_ns());
        assert!(queue.take().is_none());
    }

    /// Grants two units and loses one claim.
    struct Toy(Arc<Mutex<Vec<String>>>);

    #[async_trait]
    impl Client for Toy {
        async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
            let mut asked = self.0.lock();
            asked.push(user.to_owned());
            match asked.len() {
                1 | 2 => Ok(Outcome::Granted { unit: None }),
                3 => anyhow::bail!("lost"),
                _ => Ok(Outcome::SoldOut),
            }
        }

        fn round_trips(&self) -> u64 {
            self.0.lock().len() as u64
        }
    }

    #[tokio::test]
    async fn everybody_is_served_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let clients = (0..1).map(|_| Box::new(Toy(Arc::clone(&asked))) as Box<dyn Client>);
        let users = Arc::new(Users::new(&load(20, 4, 0)));
        let drive = Drive::Clients(clients.collect());
        let ran = run(drive, &users, 1, ProgressBar::hidden()).await.unwrap();
        let answers = ran.answers;
        assert_eq!(
            (answers.granted.len(), answers.failed, answers.sold_out),
            (2, 1, 17)
        );
        assert_eq!(
            (
                answers.claims(),
                answers.latency_us.len(),
                answers.round_trips
            ),
            (20, 20, 20)
        );
        assert_eq!(answers.first_error.as_deref(), Some("lost"));
        assert_eq!(*asked.lock(), users.names);
    }
}
