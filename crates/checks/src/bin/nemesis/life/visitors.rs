//! Users and the seller. Each follows the plan and repeats requests until they are answered.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::plan::{Change, Course, Visit};
use crate::{
    client::{Nodes, Request},
    history::{Answer, Campaign, Grant, Wish, paid_minor},
};

/// Maximum time of repetitions without an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN_AFTER: Duration = Duration::from_millis(60);
/// Delay after the hold's end of payments that must be late.
const TOO_LATE: Duration = Duration::from_millis(300);

/// Environment of all visits.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) nodes: Nodes,
    /// `None` for a campaign that could not be created in time.
    pub(super) campaigns: Arc<Vec<Option<Campaign>>>,
    /// Hold of orders.
    pub(super) hold: Duration,
    /// Start of the campaigns, by the client's clock that never jumps.
    pub(super) start: Instant,
}

impl Stage {
    /// Waits until a time of the plan.
    pub(super) async fn at(&self, moment_ms: i64) {
        let distance = Duration::from_millis(moment_ms.unsigned_abs());
        let moment = match moment_ms < 0 {
            true => self.start.checked_sub(distance).unwrap_or(self.start),
            false => self.start + distance,
        };
        tokio::time::sleep_until(moment.into()).await;
    }

    /// Runs all visits and changes, and waits until all are answered.
    pub(super) async fn play(&self, visits: Vec<Visit>, changes: Vec<Change>) {
        let mut tasks = JoinSet::new();
        for (number, visit) in visits.into_iter().enumerate() {
            let stage = self.clone();
            tasks.spawn(async move { stage.visit(number, visit).await });
        }
        let stage = self.clone();
        tasks.spawn(async move {
            for change in changes {
                stage.at(change.at).await;
                let Some(campaign) = &stage.campaigns[change.campaign] else {
                    continue;
                };
                let id = &campaign.id;
                let request = Request::set_stock(id, change.stock, stage.nodes.seller());
                let wish = Wish::SetStock {
                    stock: change.stock,
                };
                stage.ask(id, wish, 0, &request, false).await;
            }
        });
        tasks.join_all().await;
    }

    async fn visit(&self, number: usize, visit: Visit) {
        let Some(campaign) = &self.campaigns[visit.campaign] else {
            return;
        };
        let user = format!("{}user-{number}", self.nodes.prefix());
        let key = format!("order-{user}");
        if let Some(early) = visit.early {
            self.at(early).await;
            // The claim has its own key, because its refusal is final.
            let early = format!("early-{user}");
            self.claim(campaign, &user, &early, &visit, visit.quantity)
                .await;
        }
        self.at(visit.at).await;
        let granted = self
            .claim(campaign, &user, &key, &visit, visit.quantity)
            .await;
        if campaign.is_packet {
            return;
        }
        if let Some(grant) = &granted {
            self.follow(campaign, &user, grant, &visit).await;
        }
        if let Some(more) = visit.more {
            let key = format!("more-{user}");
            let second = self.claim(campaign, &user, &key, &visit, more).await;
            // The claim is refused if the limit is one unit and the first order has it.
            if let Some(grant) = second
                && visit.asks_again
            {
                self.pay(campaign, &user, &grant, "more", &visit).await;
            }
        }
    }

    async fn claim(
        &self,
        campaign: &Campaign,
        user: &str,
        key: &str,
        visit: &Visit,
        quantity: u32,
    ) -> Option<Grant> {
        let wish = Wish::Claim {
            user: user.to_owned(),
            quantity,
        };
        let request = Request::claim_under(key, &campaign.id, campaign.is_packet, user, quantity);
        let answer = self
            .ask(&campaign.id, wish, visit.node, &request, visit.asks_again)
            .await;
        match answer {
            Some(Answer::Granted { grant, .. }) => Some(grant),
            _ => None,
        }
    }

    /// Performs the buyer's actions on an order.
    async fn follow(&self, campaign: &Campaign, user: &str, grant: &Grant, visit: &Visit) {
        let (id, number) = (&campaign.id, grant.number);
        match visit.course {
            Course::Leave => {}
            Course::Cancel => {
                let request = Request::cancel(id, number, user);
                let wish = Wish::Cancel { number };
                self.ask(id, wish, visit.node, &request, visit.asks_again)
                    .await;
            }
            Course::Pay => {
                tokio::time::sleep(visit.later).await;
                self.pay(campaign, user, grant, "first", visit).await;
            }
            Course::PayTwice => {
                self.pay(campaign, user, grant, "first", visit).await;
                self.pay(campaign, user, grant, "second", visit).await;
            }
            Course::PayLate => {
                tokio::time::sleep(self.hold + TOO_LATE).await;
                self.pay(campaign, user, grant, "late", visit).await;
            }
            Course::ReturnUnits => {
                self.pay(campaign, user, grant, "first", visit).await;
                tokio::time::sleep(visit.later).await;
                self.return_units(id, number, visit).await;
            }
            Course::Return { by_buyer } => {
                self.pay(campaign, user, grant, "first", visit).await;
                tokio::time::sleep(visit.later).await;
                let by = if by_buyer { user } else { self.nodes.seller() };
                let request = Request::take_back(id, number, by);
                let wish = Wish::Return { number };
                self.ask(id, wish, visit.node, &request, visit.asks_again)
                    .await;
            }
        }
    }

    /// Returns a unit, and then another one under another key.
    async fn return_units(&self, id: &str, number: u32, visit: &Visit) {
        for n in 1..=2 {
            let key = format!("return-{id}-{number}-{n}");
            let seller = self.nodes.seller();
            let request = Request::return_units(id, (number, 1), seller, &key);
            let wish = Wish::ReturnUnits { number, units: 1 };
            self.ask(id, wish, visit.node, &request, visit.asks_again)
                .await;
        }
    }

    async fn pay(
        &self,
        campaign: &Campaign,
        user: &str,
        grant: &Grant,
        which: &str,
        visit: &Visit,
    ) {
        let (id, number) = (&campaign.id, grant.number);
        let reference = format!("{which}-{id}-{number}-{user}");
        let request = Request::pay(id, grant, &reference, self.nodes.seller());
        let wish = Wish::Pay {
            number,
            reference,
            amount: paid_minor(grant),
        };
        self.ask(id, wish, visit.node, &request, visit.asks_again)
            .await;
    }

    /// Sends a request to one node after the other until there is an answer, and then once more if the plan says so.
    async fn ask(
        &self,
        campaign: &str,
        wish: Wish,
        mut node: usize,
        request: &Request,
        again: bool,
    ) -> Option<Answer> {
        let operation = self.nodes.history().begin(campaign, wish);
        let since = Instant::now();
        let mut answered = None;
        while since.elapsed() < PATIENCE {
            let answer = self.nodes.attempt(operation, node, request).await;
            node += 1;
            if !answer.is_final() {
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            if answered.is_some() || !again {
                return Some(answered.unwrap_or(answer));
            }
            answered = Some(answer);
        }
        answered
    }
}
