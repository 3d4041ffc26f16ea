//! Tools of a case: a subject, its clock, and a record of every command and its answer.

mod reads;
mod returns;

use std::{collections::HashMap, sync::Arc};

use qiang_core::{
    book::{CampaignAction, Claim, Command, OrderView, PaymentOutcome, Refusal, Reply, Setup},
    campaign::{SaleSettingsChange, Tally},
    id::{CampaignId, OrderId, PaymentRef},
    money::Money,
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{Engine, EngineError, EventLog, Ledger, PendingReply},
    time::Timestamp,
};
use uuid::Uuid;

use super::{any_subject::AnySubject, enter, settled};
use crate::{
    ManualClock,
    auditor::{Exchange, History, assert_sound},
    campaign::{Builder, Target, currency, user},
};

/// Threads that submit concurrent commands.
const THREADS: usize = 4;
/// Maximum events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;

/// A subject with its history. Methods panic if the subject answers unexpectedly. A case that expects a refusal calls a
/// method with `try_`.
pub struct Scenario {
    subject: Option<Box<dyn AnySubject>>,
    clock: Arc<ManualClock>,
    history: History,
    ids: u64,
    /// Grants of each campaign, in the order of the answers.
    granted: HashMap<CampaignId, Vec<OrderId>>,
}

impl Scenario {
    pub(super) fn new(subject: Box<dyn AnySubject>, clock: Arc<ManualClock>) -> Self {
        let history = History {
            complete: true,
            ..History::default()
        };
        Self {
            subject: Some(subject),
            clock,
            history,
            ids: 0,
            granted: HashMap::new(),
        }
    }

    fn subject(&self) -> &dyn AnySubject {
        self.subject.as_deref().expect("the subject is up")
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        self.subject().engine()
    }

    /// The ledger.
    pub fn ledger(&self) -> &dyn Ledger {
        self.subject().ledger()
    }

    /// The log.
    pub fn log(&self) -> &dyn EventLog {
        self.subject().log()
    }

    /// Restarts the subject.
    pub async fn restart(&mut self) {
        let subject = self.subject.take().expect("the subject is up");
        self.subject = Some(subject.restart().await);
    }

    /// Stops the subject and starts it again at that time.
    pub async fn down_until(&mut self, up: Timestamp) {
        let subject = self.subject.take().expect("the subject is up");
        let clock = Arc::clone(&self.clock);
        self.subject = Some(subject.down(Box::new(move || clock.set(up))).await);
    }

    /// Allows answers to be lost from here on: the auditor no longer requires an answer for every grant.
    pub fn answers_may_be_lost(&mut self) {
        self.history.complete = false;
    }

    /// The next free number for a campaign or a deposit.
    pub fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Deposits money from outside for a user.
    pub async fn deposit(&mut self, to: &str, minor: i64) {
        let id = Uuid::from_u128(u128::from(self.next_id()));
        let amount = Money::new(minor, currency());
        self.ledger().deposit(id, &user(to), amount).await.unwrap();
        self.history.deposits.push((user(to), minor));
    }

    /// Records a deposit that the case made itself.
    pub fn deposited(&mut self, to: &str, minor: i64) {
        self.history.deposits.push((user(to), minor));
    }

    /// Records a refund that the case posted itself.
    pub fn refunded(&mut self, to: &str, minor: i64) {
        self.refunded_in(to, Money::new(minor, currency()));
    }

    /// Records a refund in any currency.
    pub fn refunded_in(&mut self, to: &str, money: Money) {
        self.history.refunds.push((user(to), money));
    }

    /// The order of the `n`-th grant of a campaign, from 1. If there were fewer grants, the order does not exist. It
    /// may have any number, because each shard of a spread campaign has its own series.
    #[must_use]
    pub fn nth(&self, target: Target, n: usize) -> OrderId {
        let granted = self.granted.get(&target.id).and_then(|all| all.get(n - 1));
        granted.copied().unwrap_or(target.order(u32::MAX - 1))
    }

    /// Enters a campaign in the ledger, with the money that its owner needs, and opens it.
    pub async fn open(&mut self, builder: Builder) -> Target {
        let setup = self.enter(builder).await;
        self.open_entered(&setup).await;
        Target::of(&setup)
    }

    /// Enters a campaign in the ledger, with the money that its owner needs, and leaves it a draft.
    pub async fn enter(&mut self, builder: Builder) -> Setup {
        let setup = builder.setup(self.next_id());
        let subject = self.subject.as_deref().expect("the subject is up");
        enter(subject.ledger(), &setup, &mut self.history).await;
        setup
    }

    /// Records a campaign that the case entered itself.
    pub fn entered(&mut self, setup: &Setup) {
        self.history.setups.push(setup.clone());
    }

    /// Opens a campaign that was entered.
    pub async fn open_entered(&mut self, setup: &Setup) {
        let reply = self.submit(Command::Open(Box::new(setup.clone()))).await;
        assert_eq!(reply, Ok(Reply::Opened));
    }

    /// Submits a command and records the answer.
    pub async fn submit(&mut self, command: Command) -> Result<Reply, EngineError> {
        let reply = self.engine().submit(command.clone()).await;
        let exchange = Exchange::Command(command, reply.clone());
        self.history.exchanges.push(exchange);
        reply
    }

    pub(super) fn record_claim(&mut self, claim: Claim, outcome: Result<Outcome, EngineError>) {
        if let Ok(Outcome::Granted(grant)) = &outcome {
            let granted = self.granted.entry(grant.campaign).or_default();
            granted.push(grant.order_id());
        }
        self.history.exchanges.push(Exchange::Claim(claim, outcome));
    }

    /// Asks the gate, then claims. If the gate answers, the claim must have the same outcome.
    pub async fn try_claim(&mut self, claim: Claim) -> Result<Outcome, EngineError> {
        let peeked = self.engine().try_gate_outcome(&claim);
        let claimed = self.engine().claim(claim.clone()).await;
        let outcome = claimed.map(|claimed| claimed.outcome);
        if let Some(peeked) = peeked {
            assert_eq!(
                Ok(peeked),
                outcome,
                "the gate contradicts the outcome of {claim:?}"
            );
        }
        self.record_claim(claim, outcome.clone());
        outcome
    }

    /// Claims, and panics on an error.
    pub async fn claim(&mut self, claim: Claim) -> Outcome {
        self.try_claim(claim).await.unwrap()
    }

    /// Claims, and requires a new grant.
    pub async fn granted(&mut self, claim: Claim) -> Grant {
        match self.claim(claim.clone()).await {
            Outcome::Granted(grant) => grant,
            other => panic!("{claim:?} got {other:?}"),
        }
    }

    /// Claims, and requires the earlier grant.
    pub async fn replayed(&mut self, claim: Claim) -> Grant {
        match self.claim(claim.clone()).await {
            Outcome::AlreadyGranted(grant) => grant,
            other => panic!("{claim:?} got {other:?}"),
        }
    }

    /// Claims, and returns the outcome's name.
    pub async fn outcome(&mut self, claim: Claim) -> &'static str {
        self.claim(claim).await.name()
    }

    /// Claims from several threads concurrently. Outcomes are in the order of the claims. A claim that is not admitted
    /// because the machine is busy is retried.
    pub async fn claim_all(&mut self, claims: Vec<Claim>) -> Vec<Outcome> {
        let engine = self.engine();
        let mut answers = at_once(&claims, |claim| engine.claim(claim.clone())).await;
        let is_away = |answer: &Result<_, _>| matches!(answer, Err(EngineError::NotAdmitted));
        while answers.iter().any(is_away) {
            for (claim, answer) in claims.iter().zip(&mut answers) {
                if is_away(answer) {
                    *answer = engine.claim(claim.clone()).await;
                }
            }
        }
        let mut outcomes = Vec::with_capacity(claims.len());
        for (claim, claimed) in claims.into_iter().zip(answers) {
            let outcome = claimed.expect("a claim is answered").outcome;
            self.record_claim(claim, Ok(outcome));
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Submits from several threads concurrently. Replies are in the order of the commands.
    pub async fn submit_all(&mut self, commands: Vec<Command>) -> Vec<Result<Reply, EngineError>> {
        let engine = self.engine();
        let replies = at_once(&commands, |command| engine.submit(command.clone())).await;
        let exchanges = commands.into_iter().zip(replies.iter().cloned());
        let exchanges = exchanges.map(|(command, reply)| Exchange::Command(command, reply));
        self.history.exchanges.extend(exchanges);
        replies
    }

    /// Pays an order.
    pub async fn pay(&mut self, order: OrderId, payment: &str) -> (PaymentOutcome, OrderView) {
        self.pay_at(order, payment, None).await
    }

    /// Reports a payment made at this time.
    pub async fn pay_at(
        &mut self,
        order: OrderId,
        payment: &str,
        paid_at: Option<Timestamp>,
    ) -> (PaymentOutcome, OrderView) {
        let payment = PaymentRef::new(payment).expect("a payment in a test is well-formed");
        let pay = Command::Pay {
            order,
            payment,
            paid_at,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        match self.submit(pay).await {
            Ok(Reply::Payment(outcome, view)) => (outcome, view),
            other => panic!("a payment got the reply {other:?}"),
        }
    }

    /// Cancels an order, and returns the refusal if there is one.
    pub async fn try_cancel(&mut self, order: OrderId) -> Result<OrderView, Refusal> {
        self.cancelled(order, None).await
    }

    /// Applies an action to a campaign, and returns the refusal if there is one.
    pub async fn try_act(
        &mut self,
        id: CampaignId,
        action: CampaignAction,
    ) -> Result<Tally, Refusal> {
        let campaign = id;
        match self.submit(Command::Act { campaign, action }).await {
            Ok(Reply::Acted(tally)) => Ok(tally),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("an action got the reply {other:?}"),
        }
    }

    /// Sets the stock of a sale, and returns the refusal if there is one.
    pub async fn set_stock(&mut self, id: CampaignId, stock: u64) -> Result<Tally, Refusal> {
        let campaign = id;
        match self.submit(Command::SetStock { campaign, stock }).await {
            Ok(Reply::Acted(tally)) => Ok(tally),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("a change of the stock got the reply {other:?}"),
        }
    }

    /// Changes terms of a sale, and returns the refusal if there is one.
    pub async fn set_terms(
        &mut self,
        id: CampaignId,
        change: SaleSettingsChange,
    ) -> Result<Tally, Refusal> {
        let campaign = id;
        match self.submit(Command::SetTerms { campaign, change }).await {
            Ok(Reply::Acted(tally)) => Ok(tally),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("a change of the terms got the reply {other:?}"),
        }
    }

    /// Changes stock and terms of a sale in one step, and returns the refusal if there is one.
    pub async fn set_sale(
        &mut self,
        id: CampaignId,
        stock: u64,
        change: SaleSettingsChange,
    ) -> Result<Tally, Refusal> {
        let command = Command::SetSale {
            campaign: id,
            stock,
            change,
        };
        match self.submit(command).await {
            Ok(Reply::Acted(tally)) => Ok(tally),
            Err(EngineError::Refused(refusal)) => Err(refusal),
            other => panic!("a change of a sale got the reply {other:?}"),
        }
    }

    /// Applies an action to a campaign.
    pub async fn act(&mut self, id: CampaignId, action: CampaignAction) -> Tally {
        self.try_act(id, action).await.unwrap()
    }

    /// Sets the clock, and lets the engine do all due work.
    pub async fn at(&mut self, now: Timestamp) {
        self.clock.set(now);
        self.tick().await;
    }

    /// Sets the clock without a tick.
    pub fn set_clock(&self, now: Timestamp) {
        self.clock.set(now);
    }

    /// Lets the engine do all due work.
    pub async fn tick(&mut self) {
        let events_max = TICK_EVENTS_MAX;
        while self.submit(Command::Tick { events_max }).await == Ok(Reply::Ticked { more: true }) {}
    }

    /// Balance of a user: spendable minor units and refunds due.
    pub async fn balance(&self, name: &str) -> (i64, i64) {
        let balances = self.ledger().balances(&user(name)).await;
        match balances.expect("the ledger returns balances")[..] {
            [] => (0, 0),
            [balance] => (balance.available.minor, balance.refunds_due_minor),
            ref more => panic!("{name} has {more:?}"),
        }
    }

    /// Settles, audits the history, and compares the ledger with the log.
    pub(super) async fn finish(mut self) {
        self.read_at_rest().await;
        let expected = assert_sound(&self.history);
        settled::compare(self.ledger(), &expected).await;
        self.subject.take().expect("the subject is up").stop().await;
    }
}

/// Submits all requests from several threads and waits for the answers, which are in the order of the requests.
async fn at_once<R: Sync, T: Send + Unpin>(
    requests: &[R],
    submit: impl Fn(&R) -> PendingReply<T> + Sync,
) -> Vec<Result<T, EngineError>> {
    let runtime = tokio::runtime::Handle::current();
    let part = requests.len().div_ceil(THREADS).max(1);
    let submit_all = |requests: &[R]| {
        let _inside = runtime.enter();
        requests.iter().map(&submit).collect::<Vec<_>>()
    };
    let tickets: Vec<PendingReply<T>> = std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .chunks(part)
            .map(|requests| scope.spawn(|| submit_all(requests)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<PendingReply<T>>>| {
            thread.join().expect("submitting does not panic")
        };
        threads.into_iter().flat_map(join).collect()
    });
    let mut answers = Vec::with_capacity(tickets.len());
    for ticket in tickets {
        answers.push(ticket.await);
    }
    answers
}
