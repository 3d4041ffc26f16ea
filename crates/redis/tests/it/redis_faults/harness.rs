//! Harness: engine handles ("nodes") on one Redis, concurrent users that claim until they get an answer, and the audit
//! of all answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Claim, Command, Reply, Setup},
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    outcome::{Grant, Outcome},
    ports::{Claimed, Engine as _, EngineError, EventLog as _},
    time::Timestamp,
};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    auditor::{Exchange, ExpectedLedger, History, assert_sound},
    campaign::{Builder, Target},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};

/// Maximum concurrent claims.
const WORKERS: usize = 48;
/// Maximum time of a user's retries. After it, the test fails.
pub(crate) const INSIST_MAX: Duration = Duration::from_secs(60);
/// Pause between two attempts of one user.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Pause between two claims of one worker, for a load that must last.
pub(crate) const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// Maximum time until replicas have the log.
const LOG_MAX: Duration = Duration::from_secs(30);
/// Entries read from a log at a time.
const READ_MAX: usize = 1_000;

/// Sets a window that is open for any usual time of Redis: 20 years from 2020.
pub(crate) fn open_now(builder: Builder) -> Builder {
    builder.window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
}

/// A server for all tests that break nothing.
pub(crate) fn shared() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

/// A prefix for keys that no other test uses.
pub(crate) fn prefix() -> String {
    static HARNESSES: AtomicU64 = AtomicU64::new(0);
    format!("faults{}", HARNESSES.fetch_add(1, Ordering::Relaxed))
}

/// Options for two partitions on one server, with short timeouts for connections.
pub(crate) fn options(url: String) -> RedisOptions {
    RedisOptions {
        urls: vec![url],
        prefix: prefix(),
        partitions: 2,
        call_timeout: Duration::from_millis(500),
        ..RedisOptions::default()
    }
}

/// Options for tests in which no request may fail. On a busy machine a request may take longer than the default allows.
pub(crate) fn patient(url: String) -> RedisOptions {
    RedisOptions {
        claim_timeout: Duration::from_secs(50),
        ..options(url)
    }
}

pub(crate) async fn node(options: &RedisOptions, settled: &[(PartitionId, Seq)]) -> RedisEngine {
    let connected = RedisEngine::connect(options.clone(), settled).await;
    connected.unwrap_or_else(|error| panic!("{error:?}"))
}

/// Probes every partition on the path of a grant.
pub(crate) async fn probe(node: &RedisEngine) -> Result<(), EngineError> {
    for partition in node.partitions() {
        node.probe(partition).await?;
    }
    Ok(())
}

/// The n-th user.
pub(crate) fn name(n: usize) -> String {
    format!("user-{n}")
}

/// A claim and its answer.
pub(crate) type Answered = (Claim, Claimed);

/// All requests and answers.
#[derive(Default)]
pub(crate) struct Record {
    exchanges: Mutex<Vec<Exchange>>,
    errors: AtomicUsize,
}

impl Record {
    fn exchanges(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of errors that reached clients.
    pub(crate) fn errors(&self) -> usize {
        self.errors.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, command: Command, reply: Result<Reply, EngineError>) {
        if reply.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.exchanges().push(Exchange::Command(command, reply));
    }

    pub(crate) fn note_claim(&self, claim: &Claim, answer: &Result<Claimed, EngineError>) {
        if answer.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let outcome = answer.clone().map(|claimed| claimed.outcome);
        self.exchanges()
            .push(Exchange::Claim(claim.clone(), outcome));
    }

    /// Makes one attempt.
    pub(crate) async fn ask(
        &self,
        node: &RedisEngine,
        claim: &Claim,
    ) -> Result<Claimed, EngineError> {
        let answer = node.claim(claim.clone()).await;
        self.note_claim(claim, &answer);
        answer
    }

    /// Claims on one node after the other until one decides.
    pub(crate) async fn insist(
        &self,
        nodes: &[RedisEngine],
        first: usize,
        claim: &Claim,
    ) -> Claimed {
        let until = Instant::now() + INSIST_MAX;
        for attempt in first.. {
            let error = match self.ask(&nodes[attempt % nodes.len()], claim).await {
                Ok(claimed) => return claimed,
                Err(error) => error,
            };
            assert!(!matches!(error, EngineError::Refused(_)), "{error:?}");
            assert!(Instant::now() < until, "no decision in a minute: {error}");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        unreachable!("attempts do not end")
    }
}

pub(crate) struct Harness {
    pub(crate) options: RedisOptions,
    pub(crate) nodes: Vec<RedisEngine>,
    pub(crate) record: Arc<Record>,
    pub(crate) setups: Vec<Setup>,
}

impl Harness {
    /// Creates two nodes.
    pub(crate) async fn new(options: RedisOptions) -> Self {
        let nodes = vec![node(&options, &[]).await, node(&options, &[]).await];
        Self {
            options,
            nodes,
            record: Arc::default(),
            setups: Vec::new(),
        }
    }

    /// Opens a campaign. It is open at once, unless it has its own window.
    pub(crate) async fn open(&mut self, builder: Builder) -> Target {
        let setup = builder.setup(self.setups.len() as u64 + 1);
        self.setups.push(setup.clone());
        let opened = self.nodes[0]
            .submit(Command::Open(Box::new(setup.clone())))
            .await;
        assert_eq!(opened, Ok(Reply::Opened));
        Target::of(&setup)
    }

    /// Submits a command and records it.
    pub(crate) async fn submit(&self, node: usize, command: Command) -> Result<Reply, EngineError> {
        let reply = self.nodes[node].submit(command.clone()).await;
        self.record.note(command, reply.clone());
        reply
    }

    /// All users claim, a bounded number at a time, on both nodes, until they get an answer.
    pub(crate) async fn ask_all(&self, claims: Vec<Claim>) -> Vec<Answered> {
        let count = claims.len();
        let claims = Arc::new(claims);
        let made = move |n: usize| claims.get(n).cloned();
        let answers = self.start(made, Duration::ZERO).join().await;
        assert_eq!(answers.len(), count);
        answers
    }

    /// The same, but each user claims once and gives up at an error.
    pub(crate) fn start_once(
        &self,
        made: impl Fn(usize) -> Option<Claim> + Send + Sync + 'static,
    ) -> Load {
        self.start_with(made, SHORT_PAUSE, false)
    }

    /// Starts a load: the n-th user claims `made(n)`, until that is `None` or the load is stopped. Each of a bounded
    /// number of workers pauses between two claims.
    pub(crate) fn start(
        &self,
        made: impl Fn(usize) -> Option<Claim> + Send + Sync + 'static,
        pause: Duration,
    ) -> Load {
        self.start_with(made, pause, true)
    }

    fn start_with(
        &self,
        made: impl Fn(usize) -> Option<Claim> + Send + Sync + 'static,
        pause: Duration,
        insist: bool,
    ) -> Load {
        let (made, next, stop) = (
            Arc::new(made),
            Arc::new(AtomicUsize::new(0)),
            Arc::default(),
        );
        let work = |worker: usize| {
            let (made, next, stop) = (Arc::clone(&made), Arc::clone(&next), Arc::clone(&stop));
            let (nodes, record) = (self.nodes.clone(), Arc::clone(&self.record));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while !AtomicBool::load(&stop, Ordering::Acquire) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(claim) = made(n) else { break };
                    let claimed = if insist {
                        Ok(record.insist(&nodes, worker + n, &claim).await)
                    } else {
                        record.ask(&nodes[(worker + n) % nodes.len()], &claim).await
                    };
                    answers.extend(claimed.ok().map(|claimed| (claim, claimed)));
                    tokio::time::sleep(pause).await;
                }
                answers
            })
        };
        let workers = (0..WORKERS).map(work).collect();
        Load {
            next,
            stop,
            workers,
        }
    }

    /// The logs of all partitions, up to their heads.
    pub(crate) async fn logs(&self) -> Vec<Vec<Entry>> {
        let mut logs = Vec::new();
        for partition in self.nodes[0].partitions() {
            let mut log: Vec<Entry> = Vec::new();
            let until = Instant::now() + LOG_MAX;
            let head = self.nodes[0].head(partition).await.unwrap();
            while log.len() < head as usize {
                let after = log.last().map_or(0, |entry| entry.seq);
                // Entries that replicas do not have yet are not shown.
                log.extend(
                    self.nodes[0]
                        .read(partition, after, READ_MAX)
                        .await
                        .unwrap(),
                );
                assert!(Instant::now() < until, "the log stops at {after} of {head}");
            }
            logs.push(log);
        }
        logs
    }

    /// Audits the history, and checks that every grant is in an answer to its user.
    pub(crate) async fn audit(&self) -> ExpectedLedger {
        let logs = self.logs().await;
        self.audit_logs(logs, true).await
    }

    pub(crate) async fn audit_logs(&self, logs: Vec<Vec<Entry>>, tallied: bool) -> ExpectedLedger {
        let mut history = History {
            setups: self.setups.clone(),
            exchanges: self.record.exchanges().clone(),
            logs,
            ..History::default()
        };
        for setup in self.setups.iter().filter(|_| tallied) {
            let id = setup.campaign.id;
            let tally = self.nodes[0].tally(id).await.unwrap().unwrap();
            assert!(tally.conserves(), "{tally:?}");
            history.tallies.push((id, tally));
        }
        let expected = assert_sound(&history);
        let answers = self.grants();
        for (id, account) in &expected.accounts {
            for (number, row) in &account.rows {
                let known = answers.get(&(*id, *number));
                let known = known
                    .unwrap_or_else(|| panic!("{:?} got no answer with grant {number}", row.user));
                assert_eq!(known.0, row.user.as_str());
            }
        }
        expected
    }

    /// All answered grants with their users. A grant must be the same in every answer.
    pub(crate) fn grants(&self) -> HashMap<(CampaignId, u32), (String, Grant)> {
        let mut answers: HashMap<_, (String, Grant)> = HashMap::new();
        for exchange in self.record.exchanges().iter() {
            let Exchange::Claim(claim, Ok(outcome)) = exchange else {
                continue;
            };
            if let Outcome::Granted(grant) | Outcome::AlreadyGranted(grant) = outcome {
                let this = (claim.user.as_str().to_owned(), *grant);
                let key = (grant.campaign, grant.number);
                let known = answers.entry(key).or_insert_with(|| this.clone());
                assert_eq!(*known, this, "one grant has two different answers");
            }
        }
        answers
    }

    /// Every user with a grant claims again on both nodes, and gets the same grant.
    pub(crate) async fn replay(&self, answers: &[Answered]) {
        self.replay_each(answers, false).await;
    }

    /// As [`replay`](Self::replay), but users retry: a node may notice damage late, and then halts until the repair.
    pub(crate) async fn replay_with_retries(&self, answers: &[Answered]) {
        self.replay_each(answers, true).await;
    }

    async fn replay_each(&self, answers: &[Answered], is_retried: bool) {
        let granted: Vec<_> = answers
            .iter()
            .filter_map(|(claim, claimed)| Some((claim, grant_of(claimed)?)))
            .collect();
        assert!(!granted.is_empty(), "no claim was granted");
        for node in &self.nodes {
            let tickets: Vec<_> = granted
                .iter()
                .map(|(claim, _)| node.claim((*claim).clone()))
                .collect();
            for (ticket, (claim, grant)) in tickets.into_iter().zip(&granted) {
                let mut again = ticket.await;
                if is_retried && again.is_err() {
                    let node = std::slice::from_ref(node);
                    again = Ok(self.record.insist(node, 0, claim).await);
                }
                let again = again.map(|claimed| claimed.outcome);
                assert_eq!(again, Ok(Outcome::AlreadyGranted(*grant)), "{claim:?}");
            }
        }
    }
}

/// The grant of an outcome, if there is one.
pub(crate) fn grant_of(claimed: &Claimed) -> Option<Grant> {
    match claimed.outcome {
        Outcome::Granted(grant) | Outcome::AlreadyGranted(grant) => Some(grant),
        _ => None,
    }
}

/// Number of claims with a grant.
pub(crate) fn winners(answers: &[Answered]) -> usize {
    answers
        .iter()
        .filter(|(_, claimed)| grant_of(claimed).is_some())
        .count()
}

/// Users that claim in the background, each until answered.
pub(crate) struct Load {
    next: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    workers: Vec<tokio::task::JoinHandle<Vec<Answered>>>,
}

impl Load {
    /// Claims so far.
    pub(crate) fn size(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Waits for this many more claims.
    pub(crate) async fn more(&self, count: usize) {
        let from = self.size();
        wait_for("more claims", || self.size() >= from + count).await;
    }

    /// Stops new claims, and waits for all answers.
    pub(crate) async fn stop(self) -> Vec<Answered> {
        self.stop.store(true, Ordering::Release);
        self.join().await
    }

    /// Waits for all answers.
    pub(crate) async fn join(self) -> Vec<Answered> {
        let mut answers = Vec::new();
        for worker in self.workers {
            answers.extend(worker.await.unwrap());
        }
        answers
    }
}

/// A runtime with one thread for blocking work, which is busy until `go_on`. A ledger in a file on it does not answer,
/// and everything else continues.
pub(crate) struct Stuck {
    runtime: Option<tokio::runtime::Runtime>,
    busy: Option<std::sync::mpsc::Sender<()>>,
}

impl Stuck {
    pub(crate) fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).max_blocking_threads(1);
        let runtime = builder.enable_all().build().unwrap();
        let (busy, until) = std::sync::mpsc::channel();
        drop(runtime.spawn_blocking(move || until.recv()));
        Self {
            runtime: Some(runtime),
            busy: Some(busy),
        }
    }

    /// A node on this runtime.
    pub(crate) async fn node(&self, options: &RedisOptions) -> RedisEngine {
        let (runtime, options) = (self.runtime.as_ref().unwrap(), options.clone());
        let connecting = runtime.spawn(async move { node(&options, &[]).await });
        connecting.await.unwrap()
    }

    /// Lets blocking work run from now on.
    pub(crate) fn go_on(&mut self) {
        self.busy = None;
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Polls until a condition holds, for a bounded time.
pub(crate) async fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let until = Instant::now() + INSIST_MAX;
    while !look() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Stops replication from the primary and prevents reconnections of its replicas. Sentinels and other nodes still reach
/// the primary.
pub(crate) fn detach_replicas(primary: &Server) {
    blocking(|| {
        let denied = ["ACL", "SETUSER", "default", "-psync", "-sync"];
        primary.call(&denied).unwrap();
        primary
            .call(&["CLIENT", "KILL", "TYPE", "replica"])
            .unwrap();
    });
}

/// Calls of a command so far.
pub(crate) fn calls_of(server: &Server, command: &str) -> u64 {
    let line = server.info("commandstats", &format!("cmdstat_{command}"));
    let line = line.unwrap_or_default();
    let calls = line
        .strip_prefix("calls=")
        .and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Runs a synchronous fixture.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
