//! Reports of payment services, recorded like other reports: a payment pays its order, is owed or is refused, and a
//! refund counts for what is due.

use std::sync::Arc;

use qiang_core::{
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::{Currency, Money},
    ports::{
        Action, ActionKind, KeyUse, MovementKind, MovementQuery, PaymentRecord, Payout, TimeRange,
    },
};
use qiang_wire::problem::ProblemKind;
use serde_json::json;

use crate::{
    app::App,
    http::{problem::ApiProblem, wire::Rfc3339},
    idempotency::fingerprint::fingerprint,
    providers::{PaymentAccount, ProviderPayment, ProviderRefund, ProviderReport, RefundedMoney},
    resources::payment_reports::{PaidReport, REFUSED, money_of_report},
};

/// Problem of a refund that failed after it was recorded.
const REFUND_FAILED: &str = "refund-failed";
/// Scope of the keys under which totals of refunds are recorded.
const TOTALS: &str = "refund-totals";
/// Maximum number of times that a total is compared with the recorded refunds. Another comparison is only needed if a
/// refund of the same payment was recorded since the one before.
const COMPARISONS_MAX: u32 = 8;
/// Refunds of a buyer that are read at a time, and how often.
const REFUNDS_PAGE: u32 = 500;
const REFUND_PAGES_MAX: u32 = 20;

/// Minor units of the refunds of a payment.
#[derive(Debug, Clone, Copy, Default)]
struct RefundSums {
    recorded: i64,
    /// Minor units of reversed refunds: their money did not reach the buyer.
    reversed: i64,
}

impl RefundSums {
    fn left(self) -> i64 {
        self.recorded.saturating_sub(self.reversed)
    }
}

impl App {
    /// Records a report of an account, once. Returns false if it is of a refund that failed.
    pub(crate) async fn take_report(
        self: &Arc<Self>,
        account: &PaymentAccount,
        report: ProviderReport,
    ) -> Result<bool, ApiProblem> {
        let has_failed = matches!(&report, ProviderReport::Refund(refund) if refund.has_failed);
        match report {
            ProviderReport::Payment(payment) => {
                self.take_provider_payment(account, payment).await?;
            }
            ProviderReport::WithoutOrder {
                reference,
                amount,
                ignored,
            } => {
                let payment = (&reference, amount);
                self.take_payment_without_order(account, payment, ignored)
                    .await?;
            }
            ProviderReport::Refund(refund) if has_failed => {
                self.note_failed_refund(account, &refund).await?;
            }
            ProviderReport::Refund(refund) => self.take_provider_refund(account, &refund).await?,
        }
        Ok(!has_failed)
    }

    async fn take_provider_payment(
        self: &Arc<Self>,
        account: &PaymentAccount,
        payment: ProviderPayment,
    ) -> Result<(), ApiProblem> {
        if self.is_recorded(account, &payment).await? {
            return Ok(());
        }
        let paid = PaidReport {
            reference: payment.reference,
            amount: payment.amount.into(),
            paid_at: Some(Rfc3339(payment.paid_at)),
            user: None,
            sellers: account.sellers.clone(),
        };
        let report = (payment.order, paid);
        let taken = self.take_payment(account.actor.clone(), report, None);
        taken.await.map(drop)
    }

    /// Whether the account has reported this payment before, and it is settled. A repetition then writes nothing: some
    /// services repeat a notification for as long as they like.
    async fn is_recorded(
        &self,
        account: &PaymentAccount,
        payment: &ProviderPayment,
    ) -> Result<bool, ApiProblem> {
        let Some(known) = self.ports.ledger.payment_of(&payment.reference).await? else {
            return Ok(false);
        };
        let is_same = known.order == payment.order && known.amount == payment.amount;
        Ok(is_same && self.has_reported(account, &known).await?)
    }

    /// Whether the account has reported a recorded payment, by the operation log.
    async fn has_reported(
        &self,
        account: &PaymentAccount,
        payment: &PaymentRecord,
    ) -> Result<bool, ApiProblem> {
        let is_report = |it: &Action| {
            it.kind == ActionKind::Pay
                && it.actor == account.actor
                && money_of_report(&it.detail, &payment.reference).is_some()
        };
        Ok(self.find_report(payment.order, is_report).await?.is_some())
    }

    /// Acknowledges a payment without an order if it is recorded under its reference, or if the account also takes
    /// other payments.
    async fn take_payment_without_order(
        &self,
        account: &PaymentAccount,
        (reference, amount): (&PaymentRef, Money),
        ignored: bool,
    ) -> Result<(), ApiProblem> {
        if ignored || self.payment_recorded(reference).await?.is_some() {
            return Ok(());
        }
        let problem = ApiProblem::invalid(
            "the payment names no order: put the order's id into metadata.qiang-order, or set \
             ignore_other_payments for the account",
        );
        tracing::warn!(
            provider = account.provider.name(),
            account = %account.name,
            payment = %reference,
            amount = amount.minor,
            currency = amount.currency.code(),
            "a payment names no order, its money is not recorded"
        );
        self.metrics.report_refused(problem.slug());
        Err(problem)
    }

    /// A payment of the ledger. It may have arrived a moment ago.
    async fn payment_recorded(
        &self,
        reference: &PaymentRef,
    ) -> Result<Option<PaymentRecord>, ApiProblem> {
        let ledger = &self.ports.ledger;
        if let Some(payment) = ledger.payment_of(reference).await? {
            return Ok(Some(payment));
        }
        let is_settled = self.settled().await?;
        match ledger.payment_of(reference).await? {
            None if !is_settled => Err(ApiProblem::unavailable(
                "settlement lags, so it is unknown whether a payment is recorded",
            )),
            payment => Ok(payment),
        }
    }

    /// Records a refund of a recorded payment. A refused one is counted, logged, and recorded as an action of its
    /// order.
    async fn take_provider_refund(
        &self,
        account: &PaymentAccount,
        refund: &ProviderRefund,
    ) -> Result<(), ApiProblem> {
        let payment = self.payment_recorded(&refund.payment).await?;
        let recorded = match &payment {
            Some(payment) => self.record_refund(account, refund, payment).await,
            None => Err(ApiProblem::new(
                ProblemKind::NotFound,
                "the refunded payment is not recorded",
            )),
        };
        match recorded {
            Err(problem) if problem.kind_status().is_client_error() => {
                let report = (payment.as_ref(), refund);
                self.refuse_refund(account, report, problem.slug()).await;
                Err(problem)
            }
            recorded => recorded,
        }
    }

    async fn record_refund(
        &self,
        account: &PaymentAccount,
        refund: &ProviderRefund,
        payment: &PaymentRecord,
    ) -> Result<(), ApiProblem> {
        let sellers = account.sellers.as_ref();
        if sellers.is_some_and(|sellers| !sellers.contains(&payment.seller)) {
            return Err(ProblemKind::SellerMismatch.into());
        }
        if !self.has_reported(account, payment).await? {
            let detail = "the refunded payment was not reported by this account";
            return Err(ApiProblem::new(ProblemKind::NotFound, detail));
        }
        match refund.amount {
            RefundedMoney::Single(_) | RefundedMoney::OfPayment(_) => {
                let amount = refunded_money(refund, Some(payment));
                let amount = Money::new(amount.0, amount.1.unwrap_or(payment.amount.currency));
                let payout = refund_payout(payment.order, refund, amount);
                let paid_out = self.pay_out(None, payout, &account.actor).await?;
                self.refuse_reversed_refund(&refund.reference, paid_out.fresh)
                    .await
            }
            RefundedMoney::Total(total) => self.record_total(account, refund, payment, total).await,
        }
    }

    /// Records a refund of the difference between a total and the recorded refunds of its payment.
    ///
    /// The key of the sums before it is bound with the refund in one transaction. One refund that starts from some sums
    /// is recorded, and others that start from them compare again.
    async fn record_total(
        &self,
        account: &PaymentAccount,
        refund: &ProviderRefund,
        payment: &PaymentRecord,
        total: Money,
    ) -> Result<(), ApiProblem> {
        for _ in 0..COMPARISONS_MAX {
            let before = self.refunded_of(payment, total).await?;
            if before.left() >= total.minor {
                return Ok(());
            }
            let amount = Money::new(total.minor - before.left(), total.currency);
            let RefundSums { recorded, reversed } = before;
            let key = IdempotencyKey::new(&format!("{}/{recorded}-{reversed}", payment.reference));
            let key = key.map_err(|error| ApiProblem::internal(error.to_string()))?;
            let text = format!("{} {}", refund.reference, total.minor);
            let used = KeyUse::new(TOTALS, key, fingerprint(&text, &()));
            let payout = refund_payout(payment.order, refund, amount);
            match self.pay_out(Some(used), payout, &account.actor).await {
                Err(problem) if problem.is(ProblemKind::KeyReused) => {}
                paid_out => return paid_out.map(drop),
            }
        }
        let why = "refunds of a payment were recorded again and again during the comparison";
        Err(ApiProblem::unavailable(why))
    }

    /// Sums of the refunds that are recorded for a payment: their references begin with its reference.
    async fn refunded_of(
        &self,
        payment: &PaymentRecord,
        total: Money,
    ) -> Result<RefundSums, ApiProblem> {
        let prefix = format!("{}/", payment.reference);
        let mut query = MovementQuery {
            kind: MovementKind::Refund,
            user: Some(payment.buyer.clone()),
            reference: None,
            created: TimeRange::default(),
            after: None,
            limit: REFUNDS_PAGE,
        };
        let mut sums = RefundSums::default();
        for _ in 0..REFUND_PAGES_MAX {
            let page = self.ports.ledger.movements(&query).await?;
            let is_of_payment = |reference: &PaymentRef| reference.as_str().starts_with(&prefix);
            let own = page.iter().filter(|it| {
                it.order == Some(payment.order)
                    && it.amount.currency == total.currency
                    && it.reference.as_ref().is_some_and(is_of_payment)
            });
            sums = own.fold(sums, |sums, it| RefundSums {
                recorded: sums.recorded.saturating_add(it.amount.minor),
                reversed: sums.reversed.saturating_add(it.reversed_minor),
            });
            match page.last() {
                Some(last) if page.len() == REFUNDS_PAGE as usize => {
                    query.after = Some(last.place);
                }
                _ => return Ok(sums),
            }
        }
        let detail = "the buyer has too many refunds to find those of this payment";
        Err(ApiProblem::new(ProblemKind::OrderConflict, detail))
    }

    /// Logs, counts and records a refund that failed after it was recorded: the buyer is owed its money again.
    async fn note_failed_refund(
        &self,
        account: &PaymentAccount,
        refund: &ProviderRefund,
    ) -> Result<(), ApiProblem> {
        let query = MovementQuery {
            kind: MovementKind::Refund,
            user: None,
            reference: Some(refund.reference.clone()),
            created: TimeRange::default(),
            after: None,
            limit: 1,
        };
        let is_recorded = !self.ports.ledger.movements(&query).await?.is_empty();
        tracing::warn!(
            provider = account.provider.name(),
            account = %account.name,
            payment = %refund.payment,
            refund = %refund.reference,
            is_recorded,
            "a refund failed at the payment service; if it is recorded, it still counts"
        );
        if is_recorded {
            let payment = self.payment_recorded(&refund.payment).await?;
            self.refuse_refund(account, (payment.as_ref(), refund), REFUND_FAILED)
                .await;
        }
        Ok(())
    }

    async fn refuse_refund(
        &self,
        account: &PaymentAccount,
        (payment, refund): (Option<&PaymentRecord>, &ProviderRefund),
        problem: &str,
    ) {
        let (minor, currency) = refunded_money(refund, payment);
        let (order, currency) = (payment.map(|it| it.order), currency.map(Currency::code));
        self.metrics.report_refused(problem);
        tracing::warn!(
            provider = account.provider.name(),
            account = %account.name,
            order = order.map(tracing::field::display),
            payment = %refund.payment,
            refund = %refund.reference,
            amount = minor,
            currency,
            problem,
            "a report of a refund was refused, the refund is not recorded"
        );
        if let Some(order) = order {
            let detail = json!({
                "reference": refund.reference.as_str(),
                "payment": refund.payment.as_str(),
                "amount": minor,
                "currency": currency,
                "outcome": REFUSED,
                "problem": problem,
            });
            let report = (order, &refund.reference);
            self.try_record_refusal(&account.actor, ActionKind::Refund, report, &detail)
                .await;
        }
    }
}

/// Minor units and currency of a refund. The currency may be that of its payment.
fn refunded_money(
    refund: &ProviderRefund,
    payment: Option<&PaymentRecord>,
) -> (i64, Option<Currency>) {
    match refund.amount {
        RefundedMoney::Single(money) | RefundedMoney::Total(money) => {
            (money.minor, Some(money.currency))
        }
        RefundedMoney::OfPayment(minor) => (minor, payment.map(|it| it.amount.currency)),
    }
}

fn refund_payout(order: OrderId, refund: &ProviderRefund, amount: Money) -> Payout {
    Payout::Refund {
        order,
        reference: refund.reference.clone(),
        amount,
    }
}
