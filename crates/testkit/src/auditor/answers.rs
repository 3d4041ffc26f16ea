//! Checks of the answers that users got, by the log.

use std::collections::HashMap;

use qiang_core::{
    book::{Claim, Command, OrderView, PaymentOutcome, Reply},
    campaign::CampaignKind,
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    order::OrderState,
    outcome::{Grant, Outcome},
};

use super::{Account, Exchange, ExpectedLedger, Row, RowState};

/// Every answer that contradicts the log.
pub(super) fn check(
    expected: &ExpectedLedger,
    exchanges: &[Exchange],
    complete: bool,
) -> Vec<String> {
    let mut times_granted: HashMap<(CampaignId, u32), u32> = HashMap::new();
    let mut breaches = Vec::new();
    for exchange in exchanges {
        let checked = match exchange {
            Exchange::Claim(claim, Ok(outcome)) => {
                if let Outcome::Granted(grant) = outcome {
                    *times_granted
                        .entry((claim.campaign, grant.number))
                        .or_default() += 1;
                }
                claimed(expected, claim, outcome)
            }
            Exchange::Command(command, Ok(reply)) => answer(expected, command, reply),
            Exchange::Claim(_, Err(_)) | Exchange::Command(_, Err(_)) => Ok(()),
        };
        if let Err(what) = checked {
            breaches.push(format!("{exchange:?}: {what}"));
        }
    }
    for ((id, number), times) in &times_granted {
        if *times > 1 {
            breaches.push(format!("grant {number} of {id} was made {times} times"));
        }
    }
    if complete {
        for (id, account) in &expected.accounts {
            let silent = account
                .rows
                .keys()
                .filter(|n| !times_granted.contains_key(&(*id, **n)));
            breaches.extend(silent.map(|n| format!("no answer contains grant {n} of {id}")));
        }
    }
    breaches
}

/// Every answer that contradicts an earlier answer to the same claim: another grant, or no grant. A share answers all
/// its user's claims on the packet; an order answers only claims with its key.
pub(super) fn forgotten(exchanges: &[Exchange]) -> Vec<String> {
    let mut told: HashMap<(CampaignId, &UserId, Option<&IdempotencyKey>), u32> = HashMap::new();
    let mut breaches = Vec::new();
    for exchange in exchanges {
        let Exchange::Claim(claim, Ok(outcome)) = exchange else {
            continue;
        };
        let key = claim
            .key
            .as_ref()
            .filter(|_| claim.kind == CampaignKind::Sale);
        if key.is_none() && claim.kind == CampaignKind::Sale {
            continue; // the next one may be for another order
        }
        let number = outcome.grant().map(|grant| grant.number);
        let claim = (claim.campaign, &claim.user, key);
        match (told.get(&claim), number) {
            (Some(before), now) if now != Some(*before) => {
                breaches.push(format!(
                    "{exchange:?}: an earlier answer was grant {before}"
                ));
            }
            (None, Some(number)) => {
                told.insert(claim, number);
            }
            _ => {}
        }
    }
    breaches
}

fn answer(expected: &ExpectedLedger, command: &Command, reply: &Reply) -> Result<(), String> {
    match (command.without_key(), reply) {
        (Command::Pay { order, payment, .. }, Reply::Payment(outcome, view)) => {
            paid(expected, *order, payment, *outcome, view)
        }
        (Command::Cancel { order, part: None }, Reply::Cancelled(view))
        | (Command::Return { order, part: None }, Reply::Returned(view)) => {
            let row = row(expected, *order)?;
            same("user", &row.user, &view.user)?;
            same_grant(row, &view.grant)
        }
        (
            Command::ExtendHold {
                order,
                extension_ms,
            },
            Reply::HoldExtended(view),
        ) => {
            let row = row(expected, *order)?;
            same("user", &row.user, &view.user)?;
            same_grant(row, &view.grant)?;
            same("extension", &row.extension_ms, extension_ms)
        }
        (
            Command::Return {
                order,
                part: Some(part),
            },
            Reply::Returned(view),
        ) => {
            let row = row(expected, *order)?;
            same("user", &row.user, &view.user)?;
            same_grant(row, &view.grant)?;
            let units = row.returns.get(part.key.as_str()).copied();
            same("units of the return", &units, &Some(part.quantity))
        }
        (
            Command::Cancel {
                order,
                part: Some(part),
            },
            Reply::Cancelled(view),
        ) => {
            let row = row(expected, *order)?;
            same("user", &row.user, &view.user)?;
            same_grant(row, &view.grant)?;
            // An order that costs nothing is returned. The last units are cancelled with the order.
            let parts = match row.amount_minor {
                0 => &row.returns,
                _ => &row.cancellations,
            };
            let units = parts.get(part.key.as_str()).copied();
            let is_part = units == Some(part.quantity);
            let is_gone = view.grant.order.map(|order| order.state) == Some(OrderState::Cancelled);
            same("cancelled units", &(is_part || is_gone), &true)
        }
        (
            Command::Act { campaign, .. }
            | Command::SetStock { campaign, .. }
            | Command::SetTerms { campaign, .. }
            | Command::SetSale { campaign, .. }
            | Command::Correct { campaign, .. },
            Reply::Acted(tally),
        ) => {
            account(expected, *campaign)?;
            same("sum", &tally.conserves(), &true)
        }
        (Command::Open(_), Reply::Opened) | (Command::Tick { .. }, Reply::Ticked { .. }) => Ok(()),
        _ => Err("the reply does not fit the command".to_owned()),
    }
}

fn claimed(expected: &ExpectedLedger, claim: &Claim, outcome: &Outcome) -> Result<(), String> {
    if matches!(outcome, Outcome::UnknownCampaign) {
        return Ok(()); // it may not have been opened yet
    }
    let account = account(expected, claim.campaign)?;
    let campaign = &account.setup.campaign;
    same("kind", &claim.kind, &campaign.kind())?;
    // The terms of the sale may have been different when it was answered.
    let had = account.terms.had();
    let limits: Vec<u32> = match &had[..] {
        [] => vec![campaign.per_user_limit()],
        had => had.iter().map(|terms| terms.per_user_limit).collect(),
    };
    match outcome {
        Outcome::Granted(grant) => {
            let row = granted(account, claim, grant)?;
            same("quantity", &row.claimed(), &claim.quantity)?;
            same("key", &row.key, &claim.key)
        }
        Outcome::AlreadyGranted(grant) => {
            let row = granted(account, claim, grant)?;
            let by_key = claim.key.is_some() && row.key == claim.key;
            let why = by_key && row.claimed() == claim.quantity || limits.contains(&1);
            same("reason to replay", &why, &true)
        }
        Outcome::LimitReached {
            limit: answered,
            held,
        } => {
            same("one of the limits", &limits.contains(answered), &true)?;
            let most = limits.iter().max().copied().unwrap_or(0);
            same("holding within the limit", &(*held <= most), &true)
        }
        Outcome::SoldOut { remaining } => {
            same("shortage", &(u64::from(claim.quantity) > *remaining), &true)
        }
        Outcome::NotStarted { starts_at } => {
            let is_one = had
                .iter()
                .any(|terms| terms.window.starts_at() == *starts_at);
            let is_one = is_one || campaign.window.starts_at() == *starts_at;
            same("start", &is_one, &true)
        }
        Outcome::UnknownCampaign | Outcome::Paused | Outcome::Ended => Ok(()),
    }
}

fn granted<'a>(account: &'a Account, claim: &Claim, grant: &Grant) -> Result<&'a Row, String> {
    let row = account.rows.get(&grant.number);
    let row = row.ok_or("the log does not contain this grant")?;
    same("user", &row.user, &claim.user)?;
    same_grant(row, grant)?;
    Ok(row)
}

fn same_grant(row: &Row, grant: &Grant) -> Result<(), String> {
    // Units may have been cancelled since the answer.
    let cancelled = grant.order.map_or(0, |order| order.cancelled_quantity);
    same("cancelled units", &(cancelled <= row.cancelled), &true)?;
    same("quantity", &row.claimed(), &(grant.quantity + cancelled))?;
    let units = i64::from(grant.quantity);
    let price = row.claimed_minor() / i64::from(row.claimed()) * units;
    let price = match cancelled {
        0 => row.claimed_minor(),
        _ => price,
    };
    same("amount", &price, &grant.amount_minor)?;
    same("time", &row.granted_at, &grant.granted_at)
}

fn paid(
    expected: &ExpectedLedger,
    order: OrderId,
    payment: &PaymentRef,
    outcome: PaymentOutcome,
    view: &OrderView,
) -> Result<(), String> {
    let row = row(expected, order)?;
    same("user", &row.user, &view.user)?;
    same_grant(row, &view.grant)?;
    let recorded = row.payments.get(payment.as_str());
    let is_paid = matches!(row.state, RowState::Paid | RowState::Returned);
    if row.amount_minor == 0 && recorded.is_none() && is_paid {
        return same("outcome of a free order", &outcome, &PaymentOutcome::Paid);
    }
    same("outcome", &recorded.copied(), &Some(outcome.name()))
}

fn account(expected: &ExpectedLedger, id: CampaignId) -> Result<&Account, String> {
    let account = expected.accounts.get(&id);
    account.ok_or_else(|| "there is no such campaign".to_owned())
}

fn row(expected: &ExpectedLedger, order: OrderId) -> Result<&Row, String> {
    let row = account(expected, order.campaign)?.rows.get(&order.number);
    row.ok_or_else(|| "the log does not contain this order".to_owned())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other {
        Ok(())
    } else {
        Err(format!("{what} {one:?} is not {other:?}"))
    }
}
