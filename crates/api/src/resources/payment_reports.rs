//! Reports of payments: checks them, records the payment, and logs the reports that an operator must look at.

use std::sync::Arc;

use axum::response::Response;
use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    campaign::STOCK_PRICE_MINOR_MAX,
    id::{OrderId, PaymentRef, UserId},
    money::Money,
    payment::{PaymentPolicy, PaymentState, ReceivedMoney},
    ports::{Action, ActionKind, KeyUse},
};
use qiang_wire::{answers, problem::ProblemKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    app::App,
    extract,
    http::{
        grant_bodies::order_body,
        problem::ApiProblem,
        wire::{MoneyBody, Rfc3339, ToWire as _},
    },
    observe::metrics::ReportedAmount,
    resources::{money_room::Parties, operation_log},
};

/// Largest difference between the clocks of payment services and of nodes.
const CLOCKS_DIFFER_MS_MAX: i64 = 60_000;
/// Characters of one field of an unreadable report in a log line.
const SHOWN_CHARS_MAX: usize = 160;

/// Outcome of a refused report, in the detail of its action.
pub(crate) const REFUSED: &str = "refused";

/// Actions on an order that are read for earlier reports of a payment, at a time and how often.
const REPORTS_PAGE: u32 = 100;
const REPORT_PAGES_MAX: usize = 10;
/// Maximum number of times that a report's money is compared with the price of its order. Another comparison is only
/// needed if units of the order were cancelled since the one before.
const COMPARISONS_MAX: u32 = 16;

/// A reported payment for an order that the path or the body names.
pub(crate) struct PaidReport {
    pub(crate) reference: PaymentRef,
    pub(crate) amount: MoneyBody,
    pub(crate) paid_at: Option<Rfc3339>,
    pub(crate) user: Option<UserId>,
    /// Sellers whose orders the reporter may report; `None` for all.
    pub(crate) sellers: Option<Arc<[UserId]>>,
}

/// A payment that may be one of its order, and its money compared with the order's price.
struct CheckedPayment {
    parties: Parties,
    received: ReceivedMoney,
    /// Units of the order that were cancelled at the comparison.
    cancelled: u32,
}

/// A report in log lines.
#[derive(Clone)]
struct ReportedOrder {
    order: OrderId,
    payment: PaymentRef,
    money: Money,
}

impl ReportedOrder {
    /// Logs a payment that was reported again with other money before it was settled.
    fn log_unsettled(&self, earlier: Money) -> ReportedAmount {
        tracing::warn!(
            order = %self.order,
            payment = %self.payment,
            amount = self.money.minor,
            currency = self.money.currency.code(),
            earlier_amount = earlier.minor,
            earlier_currency = earlier.currency.code(),
            "a payment was reported again with other money before settlement; one report counts"
        );
        ReportedAmount::Differs
    }

    /// Logs that a report was refused.
    fn log_refusal(&self, problem: &ApiProblem) {
        tracing::warn!(
            order = %self.order,
            payment = %self.payment,
            amount = self.money.minor,
            currency = self.money.currency.code(),
            problem = problem.slug(),
            "a payment report was refused, its money is not recorded"
        );
    }

    /// Detail of the operation that records a refused report.
    fn refusal(&self, problem: &ApiProblem) -> Value {
        json!({
            "reference": self.payment.as_str(),
            "amount": self.money.minor,
            "currency": self.money.currency.code(),
            "outcome": REFUSED,
            "problem": problem.slug(),
        })
    }
}

/// Money of a recorded report, if it is one of this payment.
pub(crate) fn money_of_report(detail: &str, payment: &PaymentRef) -> Option<Money> {
    let detail: Value = serde_json::from_str(detail).ok()?;
    let is_same = detail["reference"] == payment.as_str() && detail["outcome"] != REFUSED;
    let minor = detail["amount"].as_i64().filter(|_| is_same)?;
    Some(Money::new(
        minor,
        detail["currency"].as_str()?.parse().ok()?,
    ))
}

/// Refused report, as far as it could be read.
#[derive(Debug)]
pub(crate) struct RefusedReport {
    pub(crate) order: OrderId,
    pub(crate) money: Option<Money>,
    pub(crate) problem: String,
}

impl RefusedReport {
    /// Refused report of a recorded action.
    pub(crate) fn from_action(action: &Action) -> Option<Self> {
        let detail: Value = serde_json::from_str(&action.detail).ok()?;
        let currency = detail["currency"].as_str().and_then(|it| it.parse().ok());
        let money = detail["amount"].as_i64().zip(currency);
        Some(Self {
            order: action.subject.parse().ok()?,
            money: money.map(|(minor, currency)| Money::new(minor, currency)),
            problem: detail["problem"].as_str()?.to_owned(),
        })
    }
}

impl App {
    /// Parses the body of a report. An invalid one is counted, and logged with its fields as written. It is recorded if
    /// its order and its reference can be read.
    pub(crate) async fn parse_report<T: DeserializeOwned>(
        &self,
        actor: &UserId,
        body: &[u8],
        order: Option<OrderId>,
    ) -> Result<T, ApiProblem> {
        let problem = match extract::parse(body) {
            Ok(report) => return Ok(report),
            Err(problem) => problem,
        };
        let report: Value = serde_json::from_slice(body).unwrap_or_default();
        let shown = |field: &str| -> String {
            let text = report[field].to_string();
            text.chars().take(SHOWN_CHARS_MAX).collect()
        };
        let field = |name: &str| report[name].as_str();
        let payment = field("reference").and_then(|text| PaymentRef::new(text).ok());
        let order = order.or_else(|| field("order")?.parse().ok());
        let order_shown = order.map_or_else(|| shown("order"), |order| order.to_string());
        self.metrics.report_refused(problem.slug());
        tracing::warn!(
            order = order_shown,
            payment = shown("reference"),
            amount = shown("amount"),
            problem = problem.slug(),
            "a payment report was refused, its money is not recorded"
        );
        if let (Some(order), Some(payment)) = (order, payment) {
            let detail = json!({
                "reference": payment.as_str(),
                "amount": shown("amount"),
                "outcome": REFUSED,
                "problem": problem.slug(),
            });
            self.try_record_refusal(actor, ActionKind::Pay, (order, &payment), &detail)
                .await;
        }
        Err(problem)
    }

    /// Handles a report: checks it, and records the payment once under its key. A refused report is counted, logged and
    /// recorded as an action of the order.
    pub(crate) async fn take_payment(
        self: &Arc<Self>,
        actor: UserId,
        (order, paid): (OrderId, PaidReport),
        used: Option<KeyUse>,
    ) -> Result<Response, ApiProblem> {
        let named = ReportedOrder {
            order,
            payment: paid.reference.clone(),
            money: paid.amount.money(),
        };
        let checked = match self.check_payment(order, &paid).await {
            Ok(checked) => checked,
            Err(problem) => return Err(self.refuse_report(&actor, &named, problem).await),
        };
        let (app, own, reporter) = (Arc::clone(self), named.clone(), actor.clone());
        let pay = async move {
            match app.record_compared(&actor, order, paid, checked).await {
                Err(problem) => Err(app.refuse_report(&actor, &own, problem).await),
                recorded => recorded,
            }
        };
        match self.once(used, pay).await {
            Err(problem) if problem.is(ProblemKind::KeyReused) => {
                Err(self.refuse_report(&reporter, &named, problem).await)
            }
            answered => answered,
        }
    }

    /// Counts, logs and records a refused report. A failure of the service is logged elsewhere, and the report is
    /// repeated.
    async fn refuse_report(
        &self,
        actor: &UserId,
        named: &ReportedOrder,
        problem: ApiProblem,
    ) -> ApiProblem {
        if !problem.kind_status().is_client_error() {
            return problem;
        }
        self.metrics.report_refused(problem.slug());
        named.log_refusal(&problem);
        let report = (named.order, &named.payment);
        self.try_record_refusal(actor, ActionKind::Pay, report, &named.refusal(&problem))
            .await;
        problem
    }

    /// Records a refused report. A failure is logged.
    pub(crate) async fn try_record_refusal(
        &self,
        actor: &UserId,
        kind: ActionKind,
        report: (OrderId, &PaymentRef),
        detail: &Value,
    ) {
        if let Err(error) = self.record_refusal(actor, kind, report, detail).await {
            let error = error.slug();
            tracing::warn!(error, order = %report.0, "cannot record a refused report");
        }
    }

    /// Records a refused report of a payment or a refund as an action of its order. A repeated report is recorded once.
    /// The number of records per order is bounded, and per minute that of a reporter about unknown orders.
    async fn record_refusal(
        &self,
        actor: &UserId,
        kind: ActionKind,
        (order, payment): (OrderId, &PaymentRef),
        detail: &Value,
    ) -> Result<(), ApiProblem> {
        let (mut is_known, mut count) = (false, 0);
        let is_counted = |it: &Action| {
            count += 1;
            let known = serde_json::from_str::<Value>(&it.detail);
            is_known |= known.is_ok_and(|known| known == *detail);
            is_known
        };
        self.find_report(order, is_counted).await?;
        let has_room = !is_known && count < REPORTS_PAGE as usize * REPORT_PAGES_MAX;
        // The reporter invents unknown orders. A refusal of an order that exists is always found again.
        let is_unknown = detail["problem"] == ProblemKind::NotFound.slug();
        if has_room && is_unknown && !self.limits.may_record_refusal(actor) {
            tracing::warn!(%order, "too many refused reports in a minute; the operation log lacks one");
        } else if has_room {
            let action = self.action(actor, kind, order, detail);
            let ledger = &self.ports.ledger;
            match kind {
                ActionKind::Pay => ledger.record_refusal(&action, payment).await?,
                // It has no payment that is looked for by its reference.
                _ => ledger.record(&action).await?,
            }
        }
        Ok(())
    }

    /// The first action on an order that fits, oldest first, of a limited number.
    pub(crate) async fn find_report(
        &self,
        order: OrderId,
        mut is_it: impl FnMut(&Action) -> bool + Send,
    ) -> Result<Option<Action>, ApiProblem> {
        let (subject, mut after) = (order.to_string(), None);
        for _ in 0..REPORT_PAGES_MAX {
            let ledger = &self.ports.ledger;
            let page = ledger.actions(&subject, after, REPORTS_PAGE).await?;
            let (is_last, last) = (
                page.len() < REPORTS_PAGE as usize,
                page.last().map(|it| it.id),
            );
            if let Some(found) = page.into_iter().find(|it| is_it(it)) {
                return Ok(Some(found));
            }
            if is_last {
                break;
            }
            after = last;
        }
        Ok(None)
    }

    /// Records a payment. If units of the order were cancelled since its money was compared with the price, compares it
    /// again.
    async fn record_compared(
        &self,
        actor: &UserId,
        order: OrderId,
        paid: PaidReport,
        mut checked: CheckedPayment,
    ) -> Result<answers::Payment, ApiProblem> {
        for _ in 1..COMPARISONS_MAX {
            match self.record_payment(actor, order, &paid, &checked).await {
                Err(problem) if problem.is(ProblemKind::OrderChanged) => {
                    checked = self.check_payment(order, &paid).await?;
                }
                recorded => return recorded,
            }
        }
        self.record_payment(actor, order, &paid, &checked).await
    }

    /// Refuses a payment that cannot be one of this order: by another user, of no money, or made at another time.
    /// Compares the money with the price, which falls only if units of the held order are cancelled.
    async fn check_payment(
        &self,
        order: OrderId,
        paid: &PaidReport,
    ) -> Result<CheckedPayment, ApiProblem> {
        let missing = || ApiProblem::new(ProblemKind::NotFound, "there is no such order");
        let view = self.ports.engine.order(order).await?.ok_or_else(missing)?;
        let meta = self.meta(order.campaign).await?;
        let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(order.campaign))?;
        let parties = Parties {
            currency: meta.currency,
            seller: meta.owner.clone(),
            buyer: view.user,
        };
        if paid
            .user
            .as_ref()
            .is_some_and(|user| *user != parties.buyer)
        {
            let detail = "the order is not of the user who paid";
            return Err(ApiProblem::new(ProblemKind::UserMismatch, detail));
        }
        let sellers = paid.sellers.as_ref();
        if sellers.is_some_and(|sellers| !sellers.contains(&parties.seller)) {
            return Err(ProblemKind::SellerMismatch.into());
        }
        let price = Money::new(view.grant.amount_minor, meta.currency);
        let arrived = paid.amount.money();
        let order = view.grant.order;
        let cancelled = order.map_or(0, |order| order.cancelled_quantity);
        let received = match ReceivedMoney::new(arrived, price, meta.payment_policy) {
            // An entry of the price means that of all units.
            ReceivedMoney::Price if cancelled > 0 => ReceivedMoney::Accepted(arrived),
            received => received,
        };
        let checked = CheckedPayment {
            parties,
            received,
            cancelled,
        };
        if let Some(Money { minor, currency }) = received.other() {
            if !(1..=STOCK_PRICE_MINOR_MAX).contains(&minor) {
                let why = format!("a payment is 1 to {STOCK_PRICE_MINOR_MAX} minor units");
                return Err(ApiProblem::invalid_at("#/amount/amount", why));
            }
            if !currency.is_money() {
                let why = "this code is not a currency";
                return Err(ApiProblem::invalid_at("#/amount/currency", why));
            }
        }
        if let Some(Rfc3339(paid_at)) = paid.paid_at {
            let (now, granted_at) = (self.ports.clock.now(), view.grant.granted_at);
            let why = if paid_at.millis_since(now) > CLOCKS_DIFFER_MS_MAX {
                format!("it lies ahead of the time here, which is {}", Rfc3339(now))
            } else if granted_at.millis_since(paid_at) > CLOCKS_DIFFER_MS_MAX {
                format!(
                    "it is before the order, which was granted at {}",
                    Rfc3339(granted_at)
                )
            } else {
                return Ok(checked);
            };
            return Err(ApiProblem::invalid_at("#/paid_at", why));
        }
        Ok(checked)
    }

    /// Records a payment that arrived.
    async fn record_payment(
        &self,
        actor: &UserId,
        order: OrderId,
        paid: &PaidReport,
        checked: &CheckedPayment,
    ) -> Result<answers::Payment, ApiProblem> {
        let CheckedPayment {
            parties,
            received,
            cancelled,
        } = checked;
        let (received, cancelled) = (*received, *cancelled);
        let payment = paid.reference.clone();
        let money = paid.amount.money();
        let room = self.room_for_payment(parties, (order, &payment), (money, received));
        let room = room.await?;
        let is_first = self.bind_payment(&payment, order).await?;
        let mut detail = json!({
            "reference": payment.as_str(),
            "amount": money.minor,
            "currency": money.currency.code(),
        });
        if let Some(paid_at) = paid.paid_at {
            detail["paid_at"] = json!(paid_at);
        }
        let action = self.action(actor, ActionKind::Pay, order, &detail);
        self.ports.ledger.record(&action).await?;
        let command = Command::Pay {
            order,
            payment: payment.clone(),
            paid_at: paid.paid_at.map(|Rfc3339(paid_at)| paid_at),
            received,
            cancelled,
        };
        let reply = self.submit_recorded(&action, command).await;
        drop(room);
        match reply? {
            Reply::Payment(outcome, view) => {
                operation_log::log(&action);
                let price = Money::new(view.grant.amount_minor, parties.currency);
                let named = ReportedOrder {
                    order,
                    payment,
                    money,
                };
                let is_alone = is_first && self.is_reported_alone(&named, &action).await;
                let received = match money == price {
                    true => ReceivedMoney::Price,
                    false => received,
                };
                let amount = match is_alone {
                    true => ReportedAmount::from_recorded(PaymentState::new(outcome, received)),
                    false => {
                        self.compare_repeated(&named, (outcome, price), &action)
                            .await
                    }
                };
                self.metrics.payment_reported(outcome, amount);
                Ok(answers::Payment {
                    outcome: outcome.to_wire(),
                    order: order_body(&view, parties.currency)?,
                })
            }
            _ => Err(ApiProblem::unexpected_reply()),
        }
    }

    /// Compares a report of a known reference with the recorded payment. Logs money that differs: the answer is that
    /// of the first report, and the other money is not recorded.
    async fn compare_repeated(
        &self,
        named: &ReportedOrder,
        (outcome, price): (PaymentOutcome, Money),
        action: &Action,
    ) -> ReportedAmount {
        let recorded = match self.recorded_money(named, outcome, price).await {
            Ok(None) => match self.money_reported_before(named, action).await {
                Ok(Some(earlier)) => return named.log_unsettled(earlier),
                Ok(None) => Ok(None),
                Err(problem) => Err(problem),
            },
            recorded => recorded,
        };
        let recorded = recorded.inspect_err(|problem| {
            tracing::warn!(
                order = %named.order,
                payment = %named.payment,
                problem = problem.slug(),
                "cannot read a recorded payment; its repeated report is not compared with it"
            );
        });
        // A payment that the ledger does not have yet counts as reported: no report had other money.
        let recorded = recorded.ok().flatten().unwrap_or(named.money);
        if recorded == named.money {
            let received = match recorded == price {
                true => ReceivedMoney::Price,
                false => ReceivedMoney::Other(recorded),
            };
            return ReportedAmount::from_recorded(PaymentState::new(outcome, received));
        }
        tracing::warn!(
            order = %named.order,
            payment = %named.payment,
            amount = named.money.minor,
            currency = named.money.currency.code(),
            recorded_amount = recorded.minor,
            recorded_currency = recorded.currency.code(),
            "a payment was reported again with other money, nothing of that is kept"
        );
        ReportedAmount::Differs
    }

    /// Whether no other report of a payment had other money. The report that names a payment first may come to the
    /// engine after another one. The operation log then has that one: it is recorded before the engine is asked.
    async fn is_reported_alone(&self, named: &ReportedOrder, action: &Action) -> bool {
        let other = self.money_reported_before(named, action).await;
        let other = other.inspect_err(|problem| {
            tracing::warn!(
                order = %named.order,
                payment = %named.payment,
                problem = problem.slug(),
                "cannot read the operation log, a payment is not compared with other reports of it"
            );
        });
        !matches!(other, Ok(Some(_)))
    }

    /// Other money of an earlier report of the same payment, by the operation log: it has each report before the engine
    /// does. `None` if all had the same money.
    async fn money_reported_before(
        &self,
        named: &ReportedOrder,
        action: &Action,
    ) -> Result<Option<Money>, ApiProblem> {
        let other_money = |it: &Action| {
            let is_report = it.kind == ActionKind::Pay && it.id != action.id;
            let money = money_of_report(&it.detail, &named.payment).filter(|_| is_report);
            money.filter(|money| *money != named.money)
        };
        let found = self.find_report(named.order, |it| other_money(it).is_some());
        Ok(found.await?.as_ref().and_then(other_money))
    }

    /// Money of a recorded payment; `None` if the ledger does not have the payment yet. Under the policy `owed`, a
    /// payment that paid the order was the price.
    async fn recorded_money(
        &self,
        named: &ReportedOrder,
        outcome: PaymentOutcome,
        price: Money,
    ) -> Result<Option<Money>, ApiProblem> {
        let meta = self.meta(named.order.campaign).await?;
        let policy = meta.map(|meta| meta.payment_policy);
        if outcome != PaymentOutcome::RefundDue && policy == Some(PaymentPolicy::Owed) {
            return Ok(Some(price));
        }
        let ledger = &self.ports.ledger;
        let mut payment = ledger.payment_of(&named.payment).await?;
        if payment.is_none() {
            // It may have arrived a moment ago.
            self.settled().await?;
            payment = ledger.payment_of(&named.payment).await?;
        }
        let payment = payment.filter(|payment| payment.order == named.order);
        Ok(payment.map(|payment| payment.amount))
    }
}
