//! Load: users who claim from a sale and a packet, and pay. Each repeats a request until it is answered.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Claim, Command, PaymentOutcome, Reply},
    id::PaymentRef,
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{Engine as _, EngineError},
};
use qiang_redis::RedisEngine;
use qiang_testkit::campaign::Target;
use tokio::task::JoinHandle;

use crate::crash_matrix::harness::{WAIT_MAX, wait_for};

/// Number of users at a time, and in all.
const AT_A_TIME: usize = 8;
const USERS_MAX: usize = 30_000;
/// Pause between two users of one task, and between two attempts of one user.
const PAUSE: Duration = Duration::from_millis(8);
/// Pause between two users of one task after `MANY` users, so that a slow machine does not run out of users.
const LONG_PAUSE: Duration = Duration::from_millis(80);
const MANY: usize = 6_000;
/// Users per claim of the packet, and buyers per payment.
const PACKET_EVERY: usize = 8;
const PAYS_EVERY: usize = 4;

struct Shared {
    engine: RedisEngine,
    sale: Target,
    packet: Target,
    next: AtomicUsize,
    stop: AtomicBool,
    unknown: AtomicUsize,
    answers: Mutex<Vec<Answer>>,
}

/// A user with a grant.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) claim: Claim,
    pub(crate) grant: Grant,
    pub(crate) paid: bool,
}

/// Running load of users.
pub(crate) struct Users {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Users {
    pub(crate) fn start(engine: RedisEngine, sale: Target, packet: Target) -> Self {
        let shared = Arc::new(Shared {
            engine,
            sale,
            packet,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            unknown: AtomicUsize::new(0),
            answers: Mutex::default(),
        });
        let tasks = (0..AT_A_TIME)
            .map(|_| tokio::spawn(Arc::clone(&shared).ask()))
            .collect();
        Self { shared, tasks }
    }

    /// Waits until `count` more users have come.
    pub(crate) async fn more(&self, count: usize) {
        let upto = self.shared.next.load(Ordering::Relaxed) + count;
        assert!(upto <= USERS_MAX, "there are too few users");
        wait_for("more users", async || {
            self.shared.next.load(Ordering::Relaxed) >= upto
        })
        .await;
    }

    /// Waits until another user gets no decision.
    pub(crate) async fn unknown(&self) {
        let before = self.shared.unknown.load(Ordering::Relaxed);
        wait_for("an unknown outcome", async || {
            self.shared.unknown.load(Ordering::Relaxed) > before
        })
        .await;
    }

    /// Stops new users, and waits until all are answered.
    pub(crate) async fn dismiss(self) -> Vec<Answer> {
        self.shared.stop.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
        let mut answers = self
            .shared
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *answers)
    }
}

impl Shared {
    async fn ask(self: Arc<Self>) {
        while !self.stop.load(Ordering::Acquire) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= USERS_MAX {
                return;
            }
            let target = match n % PACKET_EVERY {
                0 => self.packet,
                _ => self.sale,
            };
            let claim = target.one(&format!("user-{n}"));
            let claimed = self.insist(|| self.engine.claim(claim.clone())).await;
            match claimed.outcome {
                Outcome::Granted(grant) | Outcome::AlreadyGranted(grant) => {
                    let paid = target == self.sale && n % PAYS_EVERY == 1;
                    if paid {
                        self.pay(n, grant).await;
                    }
                    let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.push(Answer { claim, grant, paid });
                }
                Outcome::SoldOut { .. } if target == self.packet => {}
                other => panic!("a new user was answered {other:?}"),
            }
            let pause = if n < MANY { PAUSE } else { LONG_PAUSE };
            tokio::time::sleep(pause).await;
        }
    }

    async fn pay(&self, n: usize, grant: Grant) {
        let order = grant.order_id();
        let payment = PaymentRef::new(&format!("pay-{n}")).expect("a plain reference");
        let pay = || {
            let payment = payment.clone();
            self.engine.submit(Command::Pay {
                order,
                payment,
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            })
        };
        let reply = self.insist(pay).await;
        let paid = matches!(reply, Reply::Payment(PaymentOutcome::Paid, _));
        assert!(paid, "a payment in time came to {reply:?}");
    }

    async fn insist<T, F: Future<Output = Result<T, EngineError>>>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> T {
        let until = Instant::now() + WAIT_MAX;
        loop {
            let error = match ask().await {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            let passes = matches!(
                error,
                EngineError::Uncertain { .. } | EngineError::Unavailable { .. }
            );
            assert!(passes && Instant::now() < until, "{error}");
            self.unknown.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Grants of one campaign by number. Fails if two grants have one number.
pub(crate) fn by_number(answers: &[Answer], target: Target) -> BTreeMap<u32, &Answer> {
    let mut grants = BTreeMap::new();
    for answer in answers
        .iter()
        .filter(|answer| answer.grant.campaign == target.id)
    {
        let twice = grants.insert(answer.grant.number, answer);
        assert!(twice.is_none(), "granted to two: {answer:?} and {twice:?}");
    }
    grants
}
