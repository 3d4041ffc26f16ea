//! Users that claim, pay and cancel, and retry with the same key until they are answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rand::RngExt as _;
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::{
    campaigns::Campaigns,
    client::{Nodes, Request},
    history::{Answer, Campaign, Grant, OperationId, Wish, paid_minor},
};

/// New users per second.
const USERS_PER_SECOND: u32 = 80;
/// Maximum users that wait for an answer at the same time.
const WAITING_MAX: usize = 600;
/// Pause between two requests of a user.
const AGAIN_AFTER: std::ops::Range<u64> = 100..500;
/// Interval of checks for missing, sold out or old campaigns.
const REFRESH_EVERY: Duration = Duration::from_millis(200);
/// Numbers of users, out of ten, that pay, that cancel, and that repeat an answered request.
const PAY: u32 = 4;
const CANCEL: u32 = 2;
const ASK_AGAIN: u32 = 4;
/// Number of ten paid orders of which some units are returned.
const RETURN: u32 = 5;
/// Number of ten paid orders of several units that lose a unit before.
const CANCEL_UNIT: u32 = 4;
/// Times that some units of an order are returned, at most.
const RETURNS_MAX: u32 = 3;

/// Continuous arrival of users.
pub(crate) struct Load {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    nodes: Nodes,
    campaigns: Arc<Campaigns>,
    stop: AtomicBool,
    /// Set when waiting users must give up.
    give_up: AtomicBool,
    waiting: Arc<Semaphore>,
}

impl Load {
    pub(crate) fn start(nodes: Nodes, campaigns: Arc<Campaigns>) -> Self {
        let shared = Arc::new(Shared {
            nodes,
            campaigns,
            stop: AtomicBool::new(false),
            give_up: AtomicBool::new(false),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        });
        let mut tasks = vec![tokio::spawn(Arc::clone(&shared).bring_users())];
        for slot in 0..Campaigns::slots() {
            tasks.push(tokio::spawn(Arc::clone(&shared).look_after(slot)));
        }
        Self { shared, tasks }
    }

    /// Stops the arrival of users.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
    }

    /// Waits until all users are answered, for at most this time; then the others give up.
    pub(crate) async fn finish(self, patience: Duration) {
        self.stop();
        let since = Instant::now();
        while self.shared.waiting.available_permits() < WAITING_MAX && since.elapsed() < patience {
            tokio::time::sleep(REFRESH_EVERY).await;
        }
        self.shared.give_up.store(true, Ordering::Release);
        for task in self.tasks {
            // A task that panicked has printed its panic.
            let _ = task.await;
        }
        let all = u32::try_from(WAITING_MAX).unwrap_or(u32::MAX);
        drop(self.shared.waiting.acquire_many(all).await);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    async fn look_after(self: Arc<Self>, slot: usize) {
        while !self.is_over() {
            // A failed creation prints its error, and the next attempt uses another name.
            let _ = self.campaigns.refresh(slot).await;
            tokio::time::sleep(REFRESH_EVERY).await;
        }
    }

    async fn bring_users(self: Arc<Self>) {
        let mut tick = tokio::time::interval(Duration::from_secs(1) / USERS_PER_SECOND);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.is_over() {
            tick.tick().await;
            let Some(campaign) = self.campaigns.pick() else {
                continue;
            };
            if let Ok(permit) = Arc::clone(&self.waiting).try_acquire_owned() {
                let shared = Arc::clone(&self);
                tokio::spawn(async move {
                    shared.user(campaign).await;
                    drop(permit);
                });
            }
        }
    }

    async fn user(&self, campaign: Campaign) {
        let user = self.campaigns.fresh_name("user");
        let quantity = match campaign.is_packet {
            true => 1,
            false => rand::rng().random_range(1..=campaign.limit),
        };
        let wish = Wish::Claim {
            user: user.clone(),
            quantity,
        };
        let operation = self.nodes.history().begin(&campaign.id, wish);
        let request = Request::claim(&campaign.id, campaign.is_packet, &user, quantity);
        let answer = self.insist(operation, &request).await;
        match &answer {
            Some(Answer::Refused(why)) if ["sold-out", "ended"].contains(&why.as_str()) => {
                self.campaigns.sold_out(&campaign.id);
            }
            Some(Answer::Granted { grant, .. }) => {
                let choice = rand::rng().random_range(0..10);
                if choice < ASK_AGAIN {
                    self.insist(operation, &request).await;
                }
                if !campaign.is_packet {
                    self.settle(&campaign, &user, grant).await;
                }
            }
            _ => {}
        }
    }

    /// Pays an order, cancels it, or leaves it unpaid.
    async fn settle(&self, campaign: &Campaign, user: &str, grant: &Grant) {
        let choice = rand::rng().random_range(0..10);
        let number = grant.number;
        let reduced;
        let (wish, request) = if choice < PAY {
            let Some(rest) = self.cancel_unit(campaign, user, grant).await else {
                return;
            };
            reduced = rest;
            let grant = &reduced;
            let reference = format!("payment-{}-{number}-{user}", campaign.id);
            let request = Request::pay(&campaign.id, grant, &reference, self.nodes.seller());
            let amount = paid_minor(grant);
            let wish = Wish::Pay {
                number,
                reference,
                amount,
            };
            (wish, request)
        } else if choice < PAY + CANCEL {
            let request = Request::cancel(&campaign.id, number, user);
            (Wish::Cancel { number }, request)
        } else {
            return;
        };
        let operation = self.nodes.history().begin(&campaign.id, wish);
        let answer = self.insist(operation, &request).await;
        let is_paid = matches!(&answer, Some(Answer::Payment(how)) if how != "refund_due");
        if is_paid && rand::rng().random_range(0..10) < RETURN {
            self.return_units(campaign, user, grant).await;
        }
    }

    /// Cancels a unit of some orders of several units, twice under the same key. Returns the order without it; `None`
    /// without an answer.
    async fn cancel_unit(&self, campaign: &Campaign, user: &str, grant: &Grant) -> Option<Grant> {
        let number = grant.number;
        if grant.quantity < 2 || rand::rng().random_range(0..10) >= CANCEL_UNIT {
            return Some(grant.clone());
        }
        let key = format!("cancel-{}-{number}-{user}", campaign.id);
        let request = Request::cancel_units(&campaign.id, (number, 1), user, &key);
        let wish = Wish::CancelUnits { number, units: 1 };
        let operation = self.nodes.history().begin(&campaign.id, wish);
        let mut answer = None;
        for _ in 0..2 {
            answer = self.insist(operation, &request).await;
        }
        Some(match answer? {
            Answer::UnitsCancelled(units) => grant.without(units),
            _ => grant.clone(),
        })
    }

    /// Returns some units of an order, and then some more under another key. Each request is made once more although it
    /// was answered.
    async fn return_units(&self, campaign: &Campaign, user: &str, grant: &Grant) {
        let number = grant.number;
        let times = rand::rng().random_range(1..=RETURNS_MAX);
        for n in 0..times {
            let units = rand::rng().random_range(1..=grant.quantity);
            let key = format!("return-{}-{number}-{user}-{n}", campaign.id);
            let seller = self.nodes.seller();
            let request = Request::return_units(&campaign.id, (number, units), seller, &key);
            let wish = Wish::ReturnUnits { number, units };
            let operation = self.nodes.history().begin(&campaign.id, wish);
            for _ in 0..2 {
                self.insist(operation, &request).await;
            }
        }
    }

    /// Repeats a request on alternating nodes until it is answered.
    async fn insist(&self, operation: OperationId, request: &Request) -> Option<Answer> {
        let mut node = rand::rng().random_range(0..crate::plan::NODES);
        loop {
            let answer = self.nodes.attempt(operation, node, request).await;
            if answer.is_final() {
                return Some(answer);
            }
            if self.give_up.load(Ordering::Acquire) {
                return None;
            }
            node += 1;
            let pause = rand::rng().random_range(AGAIN_AFTER);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}
