//! Effects of commands in the ledger's rows.

use qiang_core::{
    book::{CampaignAction, Command, PaymentOutcome, Reply, SaleCorrection},
    campaign::{Phase, SaleSettings, SaleSettingsChange},
    id::{CampaignId, OrderId},
    order::{OrderState, ReturnPart},
    ports::{CampaignRecord, Ledger, LedgerError, SettledRow},
};

/// Whether the ledger has the effect that the reply to a command states. The ledger has a campaign before it opens, so
/// it always has the effect of opening.
pub(crate) async fn has_effect(
    ledger: &dyn Ledger,
    command: &Command,
    reply: &Reply,
) -> Result<bool, LedgerError> {
    match command.without_key() {
        Command::Open(_) | Command::Tick { .. } | Command::Keyed { .. } => Ok(true),
        Command::Pay { order, payment, .. } => {
            let number = order.number;
            let before = number.saturating_sub(1);
            let payments = ledger.settled_payments(order.campaign, before, number);
            let payments = payments.await?;
            let same = payments.iter().find(|row| row.payment == *payment);
            Ok(match reply {
                // The order is free: the ledger records the payment of the grant instead.
                Reply::Payment(PaymentOutcome::Paid, view)
                    if same.is_none() && view.is_paid_for_nothing() =>
                {
                    payments
                        .iter()
                        .any(|row| row.outcome != PaymentOutcome::RefundDue)
                }
                Reply::Payment(outcome, _) => same.is_some_and(|row| row.outcome == *outcome),
                _ => false,
            })
        }
        // The last units of a held order have no row: the order is cancelled.
        Command::Cancel {
            order,
            part: Some(part),
        } => Ok(has_part(ledger, *order, part).await?
            || is_in(ledger, *order, OrderState::Cancelled).await?),
        Command::Cancel { order, part: None } => {
            // Cancelling a free order returns it.
            let state = match reply {
                Reply::Cancelled(view) if view.is_paid_for_nothing() => OrderState::Returned,
                _ => OrderState::Cancelled,
            };
            is_in(ledger, *order, state).await
        }
        Command::ExtendHold {
            order,
            extension_ms,
        } => {
            let row = settled_order(ledger, *order).await?;
            Ok(row.is_some_and(|row| row.extension_ms == *extension_ms))
        }
        Command::Return { order, part: None } => is_in(ledger, *order, OrderState::Returned).await,
        Command::Return {
            order,
            part: Some(part),
        } => has_part(ledger, *order, part).await,
        Command::Act { campaign, action } => {
            let record = ledger.campaign(*campaign).await?;
            Ok(record.is_some_and(|record| match (action, record.phase) {
                (CampaignAction::Close, phase) => phase == Phase::Closed,
                // The campaign may have ended since.
                (_, Phase::Ended | Phase::Closed) => true,
                (CampaignAction::Pause, phase) => phase == Phase::Paused,
                (CampaignAction::Resume, phase) => phase != Phase::Paused,
                (CampaignAction::Start, _) => has_start(&record, reply),
            }))
        }
        Command::SetStock { campaign, stock } => has_stock(ledger, *campaign, *stock).await,
        Command::SetTerms { campaign, change } => has_terms(ledger, *campaign, change).await,
        Command::SetSale {
            campaign,
            stock,
            change,
        } => Ok(has_stock(ledger, *campaign, *stock).await?
            && has_terms(ledger, *campaign, change).await?),
        Command::Correct {
            campaign,
            correction,
        } => match &**correction {
            SaleCorrection::Stock { stock, .. } => has_stock(ledger, *campaign, *stock).await,
            SaleCorrection::Terms { change, .. } => has_terms(ledger, *campaign, change).await,
        },
    }
}

/// Whether the ledger has the start that the reply states, or an earlier one.
fn has_start(record: &CampaignRecord, reply: &Reply) -> bool {
    let started = match reply {
        Reply::Acted(tally) => tally.terms,
        _ => None,
    };
    started.is_some_and(|terms| record.campaign.window.starts_at() <= terms.window.starts_at())
}

async fn has_stock(ledger: &dyn Ledger, id: CampaignId, stock: u64) -> Result<bool, LedgerError> {
    let record = ledger.campaign(id).await?;
    Ok(record.is_some_and(|record| record.campaign.supply() == stock))
}

async fn has_terms(
    ledger: &dyn Ledger,
    id: CampaignId,
    change: &SaleSettingsChange,
) -> Result<bool, LedgerError> {
    let record = ledger.campaign(id).await?;
    let terms = record.and_then(|record| SaleSettings::from_campaign(&record.campaign));
    Ok(terms.is_some_and(|terms| change.is_in(&terms)))
}

/// Whether the ledger has a part of an order that was restocked.
async fn has_part(
    ledger: &dyn Ledger,
    id: OrderId,
    part: &ReturnPart,
) -> Result<bool, LedgerError> {
    let before = id.number.saturating_sub(1);
    let parts = ledger.settled_returns(id.campaign, before, id.number);
    Ok(parts.await?.iter().any(|row| row.part == *part))
}

/// Whether the ledger has an order in this state.
async fn is_in(ledger: &dyn Ledger, id: OrderId, state: OrderState) -> Result<bool, LedgerError> {
    let row = settled_order(ledger, id).await?;
    Ok(row.is_some_and(|row| row.state == state))
}

/// The order in the ledger.
async fn settled_order(
    ledger: &dyn Ledger,
    id: OrderId,
) -> Result<Option<SettledRow>, LedgerError> {
    let number = id.number;
    let rows = ledger.settled_rows(id.campaign, number.saturating_sub(1), 1);
    let rows = rows.await?;
    Ok(rows.into_iter().find(|row| row.number == number))
}
