//! A closed campaign as the ledger's record has it: its counters, and what changes of it answer.

use qiang_core::{
    book::{CampaignAction, Claim, Excerpt, Refusal, StoredCampaign},
    campaign::{
        AckLevel, CampaignKind, Phase, SaleSettings, SaleSettingsChange, Tally, Transition,
        TransitionError,
    },
    outcome::Outcome,
    ports::{CampaignRecord, EngineError, SettledRow},
    time::Timestamp,
};

use crate::connection::unavailable;

/// Counters of a closed campaign. The ledger does not count cancelled and expired orders, so `grants` is 0 for a sale.
pub(crate) fn settled_tally(record: &CampaignRecord) -> Result<Tally, EngineError> {
    let closed = excerpt(record, &[]);
    let closed = closed.ok_or_else(|| unreadable(record, "its counters do not fit".to_owned()))?;
    Ok(closed.tally(Timestamp::default()))
}

/// Result of an action on a closed campaign.
pub(crate) fn settled_action(
    record: &CampaignRecord,
    action: CampaignAction,
) -> Result<Tally, EngineError> {
    match action {
        CampaignAction::Close => settled_tally(record),
        CampaignAction::Pause => Err(refused(Transition::Pause)),
        CampaignAction::Resume => Err(refused(Transition::Resume)),
        CampaignAction::Start if record.campaign.kind() != CampaignKind::Sale => {
            Err(Refusal::UnknownCampaign.into())
        }
        CampaignAction::Start => Err(refused(Transition::Start)),
    }
}

/// Result of a change of the stock of a closed campaign. The same stock changes nothing.
pub(crate) fn settled_stock(
    record: &CampaignRecord,
    stock: u64,
    expected: Option<u64>,
) -> Result<Tally, EngineError> {
    let present = record.campaign.supply();
    if record.campaign.kind() != CampaignKind::Sale {
        Err(Refusal::UnknownCampaign.into())
    } else if expected.is_some_and(|expected| expected != present) {
        Err(Refusal::Changed.into())
    } else if stock == present {
        settled_tally(record)
    } else {
        Err(refused(Transition::ChangeStock))
    }
}

/// Result of a change of the terms of a closed campaign. The same terms change nothing.
pub(crate) fn settled_terms(
    record: &CampaignRecord,
    change: &SaleSettingsChange,
    expected: Option<&SaleSettings>,
) -> Result<Tally, EngineError> {
    let Some(present) = SaleSettings::from_campaign(&record.campaign) else {
        return Err(Refusal::UnknownCampaign.into());
    };
    if expected.is_some_and(|expected| *expected != present) {
        Err(Refusal::Changed.into())
    } else if change.is_in(&present) {
        settled_tally(record)
    } else {
        Err(refused(Transition::ChangeTerms))
    }
}

/// Result of a change of stock and terms of a closed campaign. The same values change nothing.
pub(crate) fn settled_sale(
    record: &CampaignRecord,
    stock: u64,
    change: &SaleSettingsChange,
) -> Result<Tally, EngineError> {
    settled_stock(record, stock, None)?;
    settled_terms(record, change, None)
}

fn refused(transition: Transition) -> EngineError {
    let from = Phase::Closed;
    Refusal::Phase(TransitionError { from, transition }).into()
}

/// The level at which a grant of the ledger is answered. The caller confirms the level `ledger`.
pub(crate) fn level_of(asked: AckLevel) -> AckLevel {
    match asked {
        AckLevel::Replica => AckLevel::Replica,
        _ => AckLevel::Memory,
    }
}

pub(crate) fn outcome_of(
    record: &CampaignRecord,
    rows: &[SettledRow],
    claim: &Claim,
) -> Result<Outcome, EngineError> {
    let closed = finish(rows_excerpt(record, rows.iter())?, record)?;
    // Only a key that was used for another quantity has no answer.
    let outcome = closed.try_gate_outcome(Timestamp::default(), claim);
    outcome.ok_or_else(|| Refusal::KeyReused.into())
}

pub(crate) fn rows_excerpt<'a>(
    record: &CampaignRecord,
    rows: impl Iterator<Item = &'a SettledRow>,
) -> Result<Excerpt, EngineError> {
    let grants: Vec<_> = rows.filter_map(SettledRow::former_grant).collect();
    let numbers: Vec<_> = grants.iter().map(|grant| grant.number).collect();
    let mut excerpt = Excerpt::new(record.campaign.clone(), &numbers);
    for grant in &grants {
        let added = excerpt.add(grant);
        added.map_err(|error| unreadable(record, error.reason))?;
    }
    Ok(excerpt)
}

pub(crate) fn finish(excerpt: Excerpt, record: &CampaignRecord) -> Result<Excerpt, EngineError> {
    let last_number = match record.campaign.kind() {
        CampaignKind::RedPacket => u32::try_from(record.granted).unwrap_or(u32::MAX),
        CampaignKind::Sale => 0,
    };
    let finished = excerpt.finish(&StoredCampaign {
        standing: record.counters(),
        escrow_minor: 0,
        last_number,
        skipped: &[],
    });
    finished.map_err(|error| unreadable(record, error.reason))
}

/// A closed campaign without grants; `None` if its counters do not fit its supply.
pub(crate) fn excerpt(record: &CampaignRecord, rows: &[SettledRow]) -> Option<Excerpt> {
    finish(rows_excerpt(record, rows.iter()).ok()?, record).ok()
}

pub(crate) fn unreadable(record: &CampaignRecord, reason: String) -> EngineError {
    let id = record.campaign.id;
    unavailable(format!(
        "the ledger's rows of campaign {id} cannot be read: {reason}"
    ))
}
