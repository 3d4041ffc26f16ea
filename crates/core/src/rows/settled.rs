//! Settled rows, as reconciliation and repair read them.

use super::{Contradiction, phase_of};
use crate::{
    book::PaymentOutcome,
    campaign::Phase,
    id::{IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, PartKind, ReturnPart},
    payment::{PaymentState, ReceivedMoney},
    ports::{CampaignRecord, GrantRecord, SettledPart, SettledPayment, SettledReturn, SettledRow},
    reconcile::OwnerReturn,
    time::Timestamp,
};

/// Columns of a [`SettledRow`]: number, amount, user, granted_at, quantity, state, key, returned_in_parts,
/// cancelled_in_parts, extension_ms.
pub type SettledRowColumns = (
    i64,
    Option<i64>,
    Option<String>,
    Option<i64>,
    i64,
    String,
    Option<String>,
    i64,
    i64,
    i64,
);

impl SettledRow {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: SettledRowColumns) -> Result<Self, Contradiction> {
        let (number, amount_minor, user, at, quantity, state, key, returned, cancelled, extension) =
            columns;
        let bad = |what: &str| Contradiction::new(format!("grant {number} has a bad {what}"));
        let user = user.map(|user| UserId::new(&user).map_err(|_| bad("user")));
        let key = key.map(|key| IdempotencyKey::new(&key).map_err(|_| bad("key")));
        let quantity = quantity.try_into().map_err(|_| bad("quantity"))?;
        let state = OrderState::from_name(&state).ok_or_else(|| bad("state"))?;
        let returned = u32::try_from(returned).ok().filter(|it| *it <= quantity);
        let returned = returned.ok_or_else(|| bad("number of returned units"))?;
        Ok(Self {
            number: number.try_into().map_err(|_| bad("number"))?,
            amount_minor,
            granted: user.transpose()?.zip(at.map(Timestamp::from_millis)),
            quantity,
            state,
            returned: match state {
                OrderState::Returned => quantity,
                _ => returned,
            },
            cancelled: cancelled
                .try_into()
                .map_err(|_| bad("number of cancelled units"))?,
            extension_ms: Some(extension)
                .filter(|millis| *millis >= 0)
                .ok_or_else(|| bad("extension of its hold"))?,
            key: key.transpose()?,
        })
    }
}

impl GrantRecord {
    /// Grant of a row; `None` if no user has the share.
    #[must_use]
    pub fn from_row(row: SettledRow) -> Option<Self> {
        let (user, granted_at) = row.granted?;
        Some(Self {
            number: row.number,
            user,
            quantity: row.quantity,
            amount_minor: row.amount_minor?,
            granted_at,
            state: row.state,
            returned: row.returned,
            cancelled: row.cancelled,
        })
    }
}

/// Columns of a [`SettledPayment`]: number, payment, outcome, amount, and currency, null if the price arrived.
pub type SettledPaymentColumns = (i64, String, String, i64, Option<String>);

impl SettledPayment {
    /// Reads the columns number, payment, outcome, amount and currency.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: SettledPaymentColumns) -> Result<Self, Contradiction> {
        let (number, payment, outcome, amount, currency) = columns;
        let bad = |what: &str| {
            Contradiction::new(format!("a payment of order {number} has a bad {what}"))
        };
        let outcomes = [
            PaymentOutcome::Paid,
            PaymentOutcome::Reinstated,
            PaymentOutcome::RefundDue,
        ];
        let known = outcomes.into_iter().find(|known| known.name() == outcome);
        let received = ReceivedMoney::from_columns(amount, currency.as_deref());
        let state = PaymentState::new(
            known.ok_or_else(|| bad("outcome"))?,
            received.ok_or_else(|| bad("amount or currency"))?,
        );
        Ok(Self {
            number: number.try_into().map_err(|_| bad("number"))?,
            payment: PaymentRef::new(&payment).map_err(|_| bad("reference"))?,
            outcome: state.outcome,
            received: state.received,
        })
    }
}

/// Columns of a [`SettledReturn`]: number, key, quantity, kind.
pub type SettledReturnColumns = (i64, String, i64, String);

impl SettledReturn {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: SettledReturnColumns) -> Result<Self, Contradiction> {
        let (number, key, quantity, kind) = columns;
        let bad =
            |what: &str| Contradiction::new(format!("a part of order {number} has a bad {what}"));
        Ok(Self {
            number: number.try_into().map_err(|_| bad("number"))?,
            kind: PartKind::from_name(&kind).ok_or_else(|| bad("kind"))?,
            part: ReturnPart {
                quantity: quantity.try_into().map_err(|_| bad("quantity"))?,
                key: IdempotencyKey::new(&key).map_err(|_| bad("key"))?,
            },
        })
    }
}

impl SettledPart {
    /// Reads a part from its campaign's record, the number of parts, and the part's row, if there is one. The row has
    /// the columns phase, returned and refunded.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_record(
        record: CampaignRecord,
        parts: i64,
        part: Option<(&str, i64, i64)>,
    ) -> Result<Self, Contradiction> {
        let id = record.campaign.id;
        let bad = |what: &str| Contradiction::new(format!("campaign {id} has a bad {what}"));
        let parts = u16::try_from(parts).map_err(|_| bad("number of parts"))?;
        let own = (record.phase, record.returned as i64, record.refunded_minor);
        let (phase, returned, amount_minor) = match part.filter(|_| parts > 1) {
            Some((phase, returned, refunded)) => {
                let phase = phase_of(phase).ok_or_else(|| bad("part"))?;
                (phase, returned, refunded)
            }
            None if parts > 1 => (Phase::Draft, 0, 0),
            None => own,
        };
        let units = u64::try_from(returned).map_err(|_| bad("part"))?;
        let gone_back = OwnerReturn {
            units,
            amount_minor,
        };
        Ok(Self {
            record,
            parts,
            phase,
            closed: Some(gone_back).filter(|_| phase == Phase::Closed),
        })
    }
}
