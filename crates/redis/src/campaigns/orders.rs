//! Orders: paying, holding longer, cancelling, returning and reading them.

use std::sync::Arc;

use crate::{
    connection::{Arguments, Script, unreadable},
    intake::reload_queue::{ReloadNeed, ReloadResult},
    node::Node,
    protocol::{
        campaign_meta::{CachedCampaign, FoundCampaign},
        reply,
        scripts::{CANCEL, EXTEND_HOLD, ORDER, PAY, RETURN_ORDER},
    },
};
use qiang_core::{
    book::{OrderView, PaymentOutcome, Refusal, Reply},
    event::{Event, PartitionId},
    id::{OrderId, PaymentRef},
    order::{
        EXTENDED_HOLDS_MAX, OrderState, OrderStep, OrderStepError, REFUNDS_DUE_MAX, RETURNS_MAX,
        ReturnPart,
    },
    payment::ReceivedMoney,
    ports::EngineError,
    time::Timestamp,
};

impl Node {
    pub(crate) async fn pay(
        &self,
        order: OrderId,
        payment: &PaymentRef,
        (paid_at, (received, cancelled)): (Option<Timestamp>, (ReceivedMoney, u32)),
    ) -> Result<Reply, EngineError> {
        let issuer = self.issuer(order).await?;
        let (meta, partition) = issuer.ok_or(Refusal::UnknownOrder)?;
        let reply = self
            .change(partition, &PAY, (&meta, ReloadNeed::Owed), &|command| {
                let paid_at = paid_at.map(|paid_at| paid_at.as_millis().to_string());
                let paid_at = paid_at.unwrap_or_default();
                command.arg(order.number).arg(payment.as_str()).arg(paid_at);
                command
                    .arg(REFUNDS_DUE_MAX)
                    .arg(u8::from(self.may_be_down(partition)))
                    .arg(received.to_string())
                    .arg(u8::from(received.pays()))
                    .arg(cancelled)
            })
            .await?;
        if reply.status == "refused" {
            return Err(match reply.text.as_slice() {
                b"units" => Refusal::OrderChanged.into(),
                _ => Refusal::TooManyPayments.into(),
            });
        }
        let text = reply.found(Refusal::UnknownOrder)?;
        let (state, order_text) = reply::payment(&text).ok_or_else(unreadable)?;
        let view = reply::order(&meta, order_text).ok_or_else(unreadable)?;
        let Some(state) = state else {
            return Ok(Reply::Payment(PaymentOutcome::Paid, view)); // nothing was recorded
        };
        let (number, payment) = (order.number, payment.clone());
        let kept = &self.runtime(partition).unsettled_answers;
        let cancelled = view.grant.order.map_or(0, |order| order.cancelled_quantity);
        let before = (cancelled > 0).then(|| Event::PartCancelled {
            number,
            part: ReturnPart::before_payment(cancelled),
        });
        let event = Event::payment_recorded(number, payment, state);
        kept.keep_steps(&meta, before, event);
        Ok(Reply::Payment(state.outcome, view))
    }

    /// Extends the hold of a held order: [`Command::ExtendHold`](qiang_core::book::Command::ExtendHold).
    pub(crate) async fn extend_hold(
        &self,
        order: OrderId,
        extension_ms: i64,
    ) -> Result<OrderView, EngineError> {
        let issuer = self.issuer(order).await?;
        let (meta, partition) = issuer.ok_or(Refusal::UnknownOrder)?;
        let reply = self
            .change(
                partition,
                &EXTEND_HOLD,
                (&meta, ReloadNeed::Owed),
                &|command| {
                    command
                        .arg(order.number)
                        .arg(extension_ms)
                        .arg(u8::from(self.may_be_down(partition)))
                        .arg(EXTENDED_HOLDS_MAX)
                },
            )
            .await?;
        if reply.status == "refused" {
            let text = str::from_utf8(&reply.text).ok();
            let refusal = text.and_then(extension_refusal);
            return Err(refusal.ok_or_else(unreadable)?.into());
        }
        let text = reply.found(Refusal::UnknownOrder)?;
        let view = reply::order(&meta, &text).ok_or_else(unreadable)?;
        let event = Event::HoldExtended {
            number: order.number,
            extension_ms,
        };
        self.runtime(partition)
            .unsettled_answers
            .keep_step(&meta, event);
        Ok(view)
    }

    /// Cancels a held order, or some units of it: [`Command::Cancel`](qiang_core::book::Command::Cancel).
    pub(crate) async fn cancel(
        &self,
        order: OrderId,
        part: Option<ReturnPart>,
    ) -> Result<OrderView, EngineError> {
        let step = (OrderStep::Cancel, part);
        self.give_back(order, &CANCEL, step).await
    }

    /// Returns a paid order, or some units of it: [`Command::Return`](qiang_core::book::Command::Return).
    pub(crate) async fn return_order(
        &self,
        order: OrderId,
        part: Option<ReturnPart>,
    ) -> Result<OrderView, EngineError> {
        let step = (OrderStep::Return, part);
        self.give_back(order, &RETURN_ORDER, step).await
    }

    /// Performs a step that restocks an order's units.
    async fn give_back(
        &self,
        order: OrderId,
        script: &'static Script,
        (step, part): (OrderStep, Option<ReturnPart>),
    ) -> Result<OrderView, EngineError> {
        let issuer = self.issuer(order).await?;
        let (meta, partition) = issuer.ok_or(Refusal::UnknownOrder)?;
        let reply = self
            .change(partition, script, (&meta, ReloadNeed::Owed), &|command| {
                command.arg(order.number);
                match &part {
                    Some(ReturnPart { quantity, key }) => command.arg(quantity).arg(key.as_str()),
                    None => command.arg("").arg(""),
                };
                command.arg(RETURNS_MAX)
            })
            .await?;
        if reply.status == "refused" {
            let text = str::from_utf8(&reply.text).ok();
            let refusal = text.and_then(|text| refusal(text, step));
            return Err(refusal.ok_or_else(unreadable)?.into());
        }
        let text = reply.found(Refusal::UnknownOrder)?;
        let view = reply::order(&meta, &text).ok_or_else(unreadable)?;
        let number = order.number;
        let state = view.grant.order.map(|order| order.state);
        let is_return = step == OrderStep::Return || view.is_paid_for_nothing();
        let event = match state {
            _ if is_return && part.is_some() => Event::Returned { number, part },
            // Its last units are cancelled with the order.
            Some(OrderState::Cancelled) => Event::Cancelled { number },
            _ if let Some(part) = part => Event::PartCancelled { number, part },
            Some(OrderState::Returned) => Event::Returned { number, part: None },
            _ => Event::Cancelled { number },
        };
        self.runtime(partition)
            .unsettled_answers
            .keep_step(&meta, event);
        Ok(view)
    }

    pub(crate) async fn order(&self, order: OrderId) -> Result<Option<OrderView>, EngineError> {
        let meta = match self.find((order.campaign, ReloadNeed::Any)).await? {
            FoundCampaign::Here(meta) => meta,
            FoundCampaign::Settled(record) => return self.settled_order(&record, order).await,
            FoundCampaign::Unknown => return Ok(None),
        };
        let partition = self.partitions.for_order(&meta, order.number);
        let arguments: Arguments<'_> = &|command| command.arg(order.number);
        let read = || {
            let partitions = &self.partitions;
            partitions.call(partition, &ORDER, meta.id, None, arguments)
        };
        let reply = self.call_back((meta.id, ReloadNeed::Any), read).await?;
        if reply.is_missing()
            && let ReloadResult::Settled(record) = self.recall(meta.id).await?
        {
            return self.settled_order(&record, order).await;
        }
        match reply.found(Refusal::UnknownOrder) {
            Ok(text) => reply::order(&meta, &text).map(Some).ok_or_else(unreadable),
            Err(_) => Ok(None),
        }
    }

    /// The order's campaign, and the partition that issued it; `None` if the campaign is unknown.
    async fn issuer(
        &self,
        order: OrderId,
    ) -> Result<Option<(Arc<CachedCampaign>, PartitionId)>, EngineError> {
        let meta = self.reloaded_meta(order.campaign).await?;
        Ok(meta.map(|meta| {
            let partition = self.partitions.for_order(&meta, order.number);
            (meta, partition)
        }))
    }
}

/// Reason why a hold was not extended.
fn extension_refusal(text: &str) -> Option<Refusal> {
    Some(match text.split_once(' ') {
        Some(("by", millis)) => Refusal::AlreadyExtended {
            extension_ms: millis.parse().ok()?,
        },
        Some(("max", millis)) => Refusal::ExtensionOutOfRange {
            max_ms: millis.parse().ok()?,
        },
        _ if text == "over" => Refusal::HoldOver,
        _ if text == "many" => Refusal::TooManyExtensions,
        _ => Refusal::Order(OrderStepError {
            from: reply::order_state(text)?,
            step: OrderStep::ExtendHold,
        }),
    })
}

/// Reason why a step of an order was refused.
fn refusal(text: &str, step: OrderStep) -> Option<Refusal> {
    match text {
        "key" => return Some(Refusal::KeyReused),
        "returns" => return Some(Refusal::TooManyReturns),
        _ => {}
    }
    // An order that costs nothing is returned where others are cancelled.
    let (text, step) = match text.strip_prefix("free ") {
        Some(text) => (text, OrderStep::Return),
        None => (text, step),
    };
    if let Some(left) = text.strip_prefix("left ") {
        let left = left.parse().ok()?;
        return Some(match step {
            OrderStep::Cancel => Refusal::CancelTooLarge { left },
            _ => Refusal::ReturnTooLarge { left },
        });
    }
    let from = reply::order_state(text)?;
    Some(Refusal::Order(OrderStepError { from, step }))
}
