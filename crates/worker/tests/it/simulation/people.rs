//! Inhabitants of a world: users, sellers, and readers of public data.

use std::time::Duration;

use qiang_core::{
    admission::AdmissionBound,
    book::{CampaignAction, Claim, Command, Reply, Setup},
    campaign::{CampaignKind, SaleSettingsChange},
    id::{CampaignId, IdempotencyKey, PaymentRef},
    money::Money,
    order::ReturnPart,
    outcome::{Grant, Outcome},
    payment::{PaymentOutcome, PaymentPolicy, ReceivedMoney},
    ports::{Engine as _, EngineError, PendingReply},
    split::Commitment,
};
use qiang_testkit::{
    auditor::{Exchange, Reveal},
    campaign::{Target, currency},
    simulation::Draw,
};
use tokio::time::{sleep, timeout};

use crate::simulation::world::World;

/// Differences of payments from the price, in rotation. Most orders are paid at their price.
const DIFFERENCES: [i64; 6] = [0, 4, 0, -4, 0, 9];

/// Time that a caller waits for an answer before a retry.
const PATIENCE: Duration = Duration::from_millis(400);

impl World {
    /// Sends a request over a network that loses requests and replies.
    async fn ask<T: Unpin>(
        &self,
        draw: &mut Draw,
        send: impl FnOnce() -> PendingReply<T>,
    ) -> Option<Result<T, EngineError>> {
        Self::millis(draw, 20).await;
        let lost = self.is_troubled() && draw.once_in(8);
        if lost && draw.once_in(2) {
            self.count(|numbers| numbers.requests_lost += 1);
            sleep(PATIENCE).await;
            return None;
        }
        self.count(|numbers| numbers.calls += 1);
        let ticket = send();
        if lost {
            self.count(|numbers| numbers.replies_lost += 1);
            sleep(PATIENCE).await;
            return None;
        }
        // The engine may die during the call.
        timeout(PATIENCE, ticket).await.ok()
    }

    fn note(&self, exchange: Exchange) {
        self.exchanges.lock().unwrap().push(exchange);
    }

    /// Claims until there is an answer, and often again afterwards. The gate is used first.
    async fn claim(&self, draw: &mut Draw, claim: &Claim, times: u64) -> Option<Outcome> {
        let (mut last, mut more) = (None, times);
        for _ in 0..60 {
            let send = || match self.engine.try_gate_outcome(claim) {
                Some(outcome) => PendingReply::ready(Ok(outcome)),
                None => self.decide(claim),
            };
            if let Some(Ok(outcome)) = self.ask(draw, send).await {
                self.note(Exchange::Claim(claim.clone(), Ok(outcome)));
                last = Some(outcome);
                more -= 1;
                if more == 0 {
                    break;
                }
            }
            Self::millis(draw, 3_000).await;
        }
        last
    }

    /// Decision of the engine, without its acknowledgement level.
    fn decide(&self, claim: &Claim) -> PendingReply<Outcome> {
        let (answer, ticket) = PendingReply::new();
        let claimed = self.engine.claim(claim.clone());
        tokio::spawn(async move { answer.send(claimed.await.map(|claimed| claimed.outcome)) });
        ticket
    }

    /// Retries a command until it is done or refused, or too many answers are missing. Returns the reply if it is done.
    async fn command(&self, draw: &mut Draw, command: &Command) -> Option<Reply> {
        for _ in 0..20 {
            let submit = || self.engine.submit(command.clone());
            match self.ask(draw, submit).await {
                Some(Ok(reply)) => {
                    if is_accepted(command, &reply) {
                        self.count(|numbers| numbers.accepted += 1);
                    }
                    self.note(Exchange::Command(command.clone(), Ok(reply.clone())));
                    return Some(reply);
                }
                Some(Err(EngineError::Refused(_))) => return None,
                Some(Err(_)) | None => Self::millis(draw, 2_000).await,
            }
        }
        None
    }

    pub(crate) async fn user(self, n: u64, targets: Vec<(Target, PaymentPolicy)>, mut draw: Draw) {
        for _ in 0..6 {
            Self::millis(&mut draw, 60_000).await;
            let (target, policy) = targets[draw.below(targets.len() as u64) as usize];
            let key = draw.below(2);
            let units = match target.kind {
                CampaignKind::Sale => 1 + key as u32,
                CampaignKind::RedPacket => 1,
            };
            let claim = target.keyed(&format!("user-{n}"), units, &format!("key-{key}"));
            let times = 1 + draw.below(2);
            let outcome = self.claim(&mut draw, &claim, times).await;
            let grant = outcome.as_ref().and_then(Outcome::grant).copied();
            if let Some(grant) = grant.filter(|grant| grant.order.is_some()) {
                self.order(n, grant, policy, &mut draw).await;
            }
        }
    }

    /// Cancels one unit of an order of several. Returns the order's grant and cancelled units after it.
    async fn cancel_one(&self, n: u64, grant: Grant, draw: &mut Draw) -> (Grant, u32) {
        let part = ReturnPart {
            quantity: 1,
            key: IdempotencyKey::new(&format!("cancel-{n}")).unwrap(),
        };
        let command = Command::Cancel {
            order: grant.order_id(),
            part: Some(part),
        };
        match self.command(draw, &command).await {
            Some(Reply::Cancelled(view)) => {
                self.count(|numbers| numbers.parts_cancelled += 1);
                let state = view.grant.order.expect("an order has a state");
                (view.grant, state.cancelled_quantity)
            }
            _ => (grant, 0),
        }
    }

    /// Pays or cancels an order, or cancels one of its units and pays the others. A paid order is sometimes returned.
    async fn order(&self, n: u64, mut grant: Grant, policy: PaymentPolicy, draw: &mut Draw) {
        let order = grant.order_id();
        let mut cancelled = 0;
        if grant.quantity > 1 && draw.once_in(2) {
            Self::millis(draw, 30_000).await;
            (grant, cancelled) = self.cancel_one(n, grant, draw).await;
        }
        let cancels = draw.once_in(4);
        Self::millis(draw, 60_000).await;
        if cancels {
            self.command(draw, &Command::Cancel { order, part: None })
                .await;
            return;
        }
        // The report of a payment may be late.
        let paid_at = draw.once_in(2).then(|| self.clock.truth());
        let payment = format!("payment-{n}-{}", order.number);
        let turn = (n + u64::from(order.number)) % DIFFERENCES.len() as u64;
        let price = Money::new(grant.amount_minor, currency());
        let arrived = Money::new(price.minor + DIFFERENCES[turn as usize], currency());
        let received = match ReceivedMoney::new(arrived, price, policy) {
            ReceivedMoney::Price if cancelled > 0 => ReceivedMoney::Accepted(arrived),
            received => received,
        };
        let pay = Command::Pay {
            order,
            payment: PaymentRef::new(&payment).unwrap(),
            paid_at,
            received,
            cancelled,
        };
        if paid_at.is_some() {
            Self::millis(draw, 20_000).await;
        }
        if self.command(draw, &pay).await.is_some() && draw.once_in(4) {
            Self::millis(draw, 60_000).await;
            let part = draw.once_in(2).then(|| ReturnPart {
                quantity: 1,
                key: IdempotencyKey::new(&format!("return-{n}")).unwrap(),
            });
            self.command(draw, &Command::Return { order, part }).await;
        }
    }

    /// Changes a sale a few times. Packets cannot be changed.
    pub(crate) async fn seller(self, setup: Setup, mut draw: Draw) {
        let (campaign, window) = (setup.campaign.id, setup.campaign.window);
        if setup.campaign.rules.sale().is_none() {
            return;
        }
        let act = |action| Command::Act { campaign, action };
        for _ in 0..3 {
            Self::millis(&mut draw, 80_000).await;
            let command = match draw.below(8) {
                0..=2 => Command::SetStock {
                    campaign,
                    stock: 4 + draw.below(25),
                },
                3 | 4 => Command::SetTerms {
                    campaign,
                    change: SaleSettingsChange {
                        ends_at: Some(window.ends_at().plus_millis(draw.below(30_000) as i64)),
                        per_user_limit: Some(1 + draw.below(3) as u32),
                        unit_price_minor: Some(50 + draw.below(100) as i64),
                        starts_at: None,
                        admission: AdmissionBound::from_percent(100 + draw.below(3) as u32 * 50)
                            .ok(),
                    },
                },
                5 => act(CampaignAction::Close),
                _ => act(CampaignAction::Pause),
            };
            let done = self.command(&mut draw, &command).await;
            if done.is_some() && command == act(CampaignAction::Pause) {
                Self::millis(&mut draw, 20_000).await;
                self.command(&mut draw, &act(CampaignAction::Resume)).await;
            }
        }
    }

    /// Reads the packets now and then, and records each seed when it is revealed.
    pub(crate) async fn public(self, published: Vec<(CampaignId, Commitment)>, mut draw: Draw) {
        loop {
            Self::millis(&mut draw, 1_000).await;
            let rows = self.rows.lock().unwrap();
            let (shown, upto) = (rows.shown_seeds(), rows.position());
            drop(rows);
            let mut reveals = self.reveals.lock().unwrap();
            for (campaign, seed) in shown {
                let is_new = reveals.iter().all(|reveal| reveal.campaign != campaign);
                let commitment = published.iter().find(|(id, _)| *id == campaign);
                if let (true, Some((_, commitment))) = (is_new, commitment) {
                    reveals.push(Reveal {
                        campaign,
                        commitment: *commitment,
                        seed,
                        upto,
                    });
                }
            }
        }
    }

    /// Long after the end, every user retries the claims with grants, and must receive the same grants.
    pub(crate) async fn late(self, mut draw: Draw) -> Vec<String> {
        let mut granted: Vec<(Claim, Grant)> = Vec::new();
        for exchange in &*self.exchanges.lock().unwrap() {
            if let Exchange::Claim(claim, Ok(outcome)) = exchange
                && let Some(grant) = outcome.grant()
                && granted.iter().all(|(known, _)| known != claim)
            {
                granted.push((claim.clone(), *grant));
            }
        }
        // The state of an order may have changed since, and units may be cancelled. Their price has not changed.
        let bare = |grant: &Grant| Grant {
            order: None,
            quantity: grant.quantity + grant.order.map_or(0, |order| order.cancelled_quantity),
            amount_minor: grant.amount_minor / i64::from(grant.quantity.max(1)),
            ..*grant
        };
        let mut breaches = Vec::new();
        for (claim, grant) in granted {
            let outcome = self.claim(&mut draw, &claim, 1).await;
            let told = outcome.as_ref().and_then(Outcome::grant).map(bare);
            if told == Some(bare(&grant)) {
                self.count(|numbers| numbers.late_retries += 1);
            } else {
                let (user, number, campaign) = (&claim.user, grant.number, grant.campaign);
                breaches.push(format!(
                    "{user} has number {number} of {campaign}, asked again when all was over, and was not told of it"
                ));
            }
        }
        breaches
    }
}

/// Whether an order was paid by an amount other than its price.
fn is_accepted(command: &Command, reply: &Reply) -> bool {
    let is_other = matches!(
        command,
        Command::Pay {
            received: ReceivedMoney::Accepted(_),
            ..
        }
    );
    let pays = |outcome: &PaymentOutcome| *outcome != PaymentOutcome::RefundDue;
    is_other && matches!(reply, Reply::Payment(outcome, _) if pays(outcome))
}
