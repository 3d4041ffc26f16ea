//! State of one campaign in the book: its counters, its phase and its grants.

mod evolve;
mod hold_extensions;
mod payments;

use std::sync::atomic::{AtomicU32, Ordering};

use self::payments::Payments;
use super::{
    Agenda, PaymentOutcome,
    command::{Claim, OrderView, Refusal, Setup},
    grants::{Found, Grants, NewGrant, Row},
    offer::CampaignOffer,
};
use crate::{
    campaign::{AckLevel, CampaignKind, Phase, Sale, SaleSettings, Tally},
    event::{Event, Seq},
    fair_share::OwnerDigest,
    gate::CampaignGate,
    id::{CampaignId, OrderId, PaymentRef, UserId},
    order::OrderState,
    outcome::{Grant, OrderTerms, Outcome},
    time::{Timestamp, Window},
};

/// Result of deciding a claim, before it is recorded.
pub(super) enum ClaimDecision {
    Answer(Outcome),
    Grant { found: Found, amount_minor: i64 },
}

/// State of a campaign. A book may have a million of them, so rarely used parts are boxed.
#[derive(Debug)]
pub(super) struct CampaignState {
    pub(super) id: CampaignId,
    pub(super) window: Window,
    pub(super) ack: AckLevel,
    pub(super) owner: OwnerDigest,
    pub(super) offer: CampaignOffer,
    /// Recorded phase; [`State::phase_at`] adds changes that are due by time.
    pub(super) phase: Phase,
    pub(super) remaining: u64,
    pub(super) granted: u64,
    pub(super) returned: u64,
    pub(super) claimed_minor: i64,
    pub(super) refunded_minor: i64,
    pub(super) grants: Grants,
    pub(super) payments: Payments,
    /// Position of the oldest held order whose hold is not extended; after the last one if there is none.
    first_held: u32,
    /// The last entry that changed this campaign.
    pub(super) touched: Seq,
    /// Time of the campaign in the book's agenda.
    pub(super) due: Due,
    pub(super) used: UserUsage,
}

const _: () = assert!(
    size_of::<CampaignState>() <= 224,
    "a book may have a million states"
);

/// Time of the last request for a campaign, to the minute. It is written only if the minute changes, so that readers do
/// not invalidate each other's cache line.
#[derive(Debug, Default)]
pub(super) struct UserUsage(AtomicU32);

/// A time or none, in eight bytes: no campaign is due at the end of all time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due(i64);

impl Due {
    pub(super) const NEVER: Self = Self(i64::MAX);

    pub(super) fn at(due: Option<Timestamp>) -> Self {
        due.map_or(Self::NEVER, |due| Self(due.as_millis()))
    }

    pub(super) fn get(self) -> Option<Timestamp> {
        (self != Self::NEVER).then_some(Timestamp::from_millis(self.0))
    }
}

const MINUTE_MS: i64 = 60_000;

impl UserUsage {
    pub(super) fn mark(&self, now: Timestamp) {
        let minute = u32::try_from(now.as_millis() / MINUTE_MS).unwrap_or(0);
        if self.0.load(Ordering::Relaxed) < minute {
            self.0.store(minute, Ordering::Relaxed);
        }
    }

    pub(super) fn at(&self) -> Timestamp {
        Timestamp::from_millis(i64::from(self.0.load(Ordering::Relaxed)) * MINUTE_MS)
    }
}

impl CampaignState {
    pub(super) fn new(setup: &Setup) -> Self {
        let supply = setup.campaign.supply();
        Self::with_grants(setup, Grants::for_supply(supply))
    }

    pub(super) fn with_grants(setup: &Setup, grants: Grants) -> Self {
        let (campaign, offer) = (&setup.campaign, CampaignOffer::from_setup(setup));
        let supply = offer.supply();
        Self {
            id: campaign.id,
            window: campaign.window,
            ack: campaign.ack,
            owner: OwnerDigest::of(&campaign.owner),
            offer,
            phase: Phase::Scheduled,
            remaining: supply,
            granted: 0,
            returned: 0,
            claimed_minor: 0,
            refunded_minor: 0,
            grants,
            payments: Payments::default(),
            first_held: 1,
            touched: 0,
            due: Due::NEVER,
            used: UserUsage::default(),
        }
    }

    /// Phase at an instant, from the recorded phase and the window.
    pub(super) fn phase_at(&self, now: Timestamp) -> Phase {
        self.phase.at(self.window, now)
    }

    /// Whether an operator has paused it, even if its window is over.
    pub(super) fn is_paused(&self) -> bool {
        self.phase == Phase::Paused
    }

    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    fn remaining_minor(&self) -> i64 {
        self.offer.funded_minor() - self.claimed_minor - self.refunded_minor
    }

    pub(super) fn tally_at(&self, now: Timestamp) -> Tally {
        Tally {
            phase: self.phase_at(now),
            supply: self.offer.supply(),
            granted: self.granted,
            remaining: self.remaining,
            returned: self.returned,
            withheld: 0, // a book is never repaired from less than its whole log
            funded_minor: self.offer.funded_minor(),
            claimed_minor: self.claimed_minor,
            remaining_minor: self.remaining_minor(),
            refunded_minor: self.refunded_minor,
            withheld_minor: 0,
            grants: self.grants.count(),
            terms: self.terms(),
        }
    }

    /// Current terms of a sale.
    pub(super) fn terms(&self) -> Option<SaleSettings> {
        Some(SaleSettings::from_sale(self.window, self.offer.sale()?))
    }

    /// Decides a claim, without changing anything.
    pub(super) fn decide(&self, claim: &Claim, now: Timestamp) -> Result<ClaimDecision, Refusal> {
        let (found, answer) = self.answer(claim, now)?;
        Ok(match answer {
            Some(outcome) => ClaimDecision::Answer(outcome),
            None => ClaimDecision::Grant {
                found,
                amount_minor: self.amount_of_next(claim.quantity),
            },
        })
    }

    /// The user, and the answer to a claim that gets no new grant. The checks are in the outcomes' order of precedence.
    pub(super) fn answer(
        &self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<(Found, Option<Outcome>), Refusal> {
        if claim.quantity == 0 {
            return Err(Refusal::NothingAsked);
        }
        let found = self.grants.find(&claim.user);
        if claim.kind != self.offer.kind() {
            return Ok((found, Some(Outcome::UnknownCampaign)));
        }
        if let Some(grant) = self.replay(claim, found)? {
            return Ok((found, Some(Outcome::AlreadyGranted(grant))));
        }
        let gate = CampaignGate {
            window: self.window,
            per_user_limit: self.offer.per_user_limit(),
            phase: self.phase,
            remaining: self.remaining,
        };
        let holding = self.grants.holding(found);
        let full = || {
            let remaining = self.remaining;
            (!self.grants.has_room()).then_some(Outcome::SoldOut { remaining })
        };
        let answer = gate.answer(claim.quantity, holding, now).or_else(full);
        Ok((found, answer))
    }

    /// The grant that this claim repeats.
    ///
    /// A user's share answers every claim of the user for the red packet: shares are final, and the ledger does not
    /// store their keys. An order answers its own key. It also answers a claim without a key if the limit is one unit,
    /// as long as the order keeps it. It does not answer another key: that key would permanently name the order, and no
    /// record of it would remain once the units are restocked.
    fn replay(&self, claim: &Claim, found: Found) -> Result<Option<Grant>, Refusal> {
        let Some(newest) = self.grants.newest(found) else {
            return Ok(None);
        };
        let repeated = match (&claim.key, self.offer.kind()) {
            (_, CampaignKind::RedPacket) => Some(newest),
            (Some(key), CampaignKind::Sale) => match self.grants.under(found, key) {
                Some((number, row)) if self.claimed(number, row) != claim.quantity => {
                    return Err(Refusal::KeyReused);
                }
                same => same,
            },
            (None, CampaignKind::Sale) => {
                let only_one = self.offer.per_user_limit() == 1;
                Some(newest).filter(|(_, row)| only_one && self.keeps_units(row))
            }
        };
        Ok(repeated.map(|(number, row)| self.grant(number, row)))
    }

    /// Units that a grant had at first. Units of an order may have been cancelled since.
    fn claimed(&self, number: u32, row: &Row) -> u32 {
        row.quantity.saturating_add(self.payments.cancelled(number))
    }

    pub(super) fn keeps_units(&self, row: &Row) -> bool {
        self.offer.kind() == CampaignKind::RedPacket || row.state.keeps_units()
    }

    fn amount_of_next(&self, quantity: u32) -> i64 {
        let number = self.grants.next_number();
        match &self.offer {
            // The price of the whole stock fits, so the price of a part fits too.
            CampaignOffer::Sale(sale) => sale.unit_price().minor * i64::from(quantity),
            // At most the split's count is left.
            CampaignOffer::LazyPacket(packet) => {
                packet.amount(number, self.remaining_minor(), self.remaining as u32)
            }
            CampaignOffer::Packet { amounts, .. } => amounts.for_number(number),
        }
    }

    /// Records a grant, and deducts its units and its money.
    pub(super) fn record_grant(&mut self, found: Found, grant: &NewGrant<'_>) -> Grant {
        let number = self.grants.push(self.offer.supply(), found, grant);
        self.remaining -= u64::from(grant.quantity);
        self.granted += u64::from(grant.quantity);
        if self.offer.kind() == CampaignKind::RedPacket {
            self.claimed_minor += grant.amount_minor;
        }
        self.grant(number, self.grants.row(number))
    }

    /// Pays an order that costs nothing, as soon as it is granted. Returns `None` if the order has a price.
    pub(super) fn pay_free(&mut self, number: u32, at: Timestamp) -> Option<(Event, Grant)> {
        let order = OrderId {
            campaign: self.id,
            number,
        };
        if self.offer.kind() != CampaignKind::Sale || self.grants.row(number).amount_minor != 0 {
            return None;
        }
        let payment = PaymentRef::for_free_order(order);
        let event = Event::payment_recorded(number, payment, PaymentOutcome::Paid.into());
        self.evolve(&event, at);
        Some((event, self.grant(number, self.grants.row(number))))
    }

    fn grant(&self, number: u32, row: &Row) -> Grant {
        let order = self.offer.sale().map(|sale| OrderTerms {
            state: row.state,
            hold_until: {
                let extension_ms = self.payments.extension_ms(number);
                row.granted_at
                    .plus_millis(sale.hold_ms().saturating_add(extension_ms))
            },
            extension_ms: self.payments.extension_ms(number),
            refunds_due: {
                // No price is due for an order that costs nothing.
                let is_price_due = row.returned > 0 && row.amount_minor != 0;
                self.payments.refunds_due(number) + u32::from(is_price_due)
            },
            returned_quantity: row.returned,
            cancelled_quantity: self.payments.cancelled(number),
        });
        Grant {
            campaign: self.id,
            number,
            quantity: row.quantity,
            amount_minor: row.amount_minor,
            granted_at: row.granted_at,
            order,
        }
    }

    pub(super) fn order(&self, number: u32) -> Option<OrderView> {
        let row = self
            .grants
            .get(number)
            .filter(|_| self.offer.kind() == CampaignKind::Sale)?;
        Some(OrderView {
            user: self.grants.user(row)?,
            grant: self.grant(number, row),
        })
    }

    /// Outcome of a payment that was received before, if it was.
    pub(super) fn payment(&self, number: u32, payment: &PaymentRef) -> Option<PaymentOutcome> {
        self.payments.outcome(number, payment)
    }

    /// Outcome of an order's price that arrives now for the first time. `expires`: the order is held and expires first.
    pub(super) fn decide_payment(
        &self,
        number: u32,
        (user, now): (&UserId, Timestamp),
        expires: bool,
    ) -> PaymentOutcome {
        match self.grants.row(number).state {
            OrderState::Held if !expires => PaymentOutcome::Paid,
            OrderState::Held | OrderState::Expired if self.can_reinstate(number, user, now) => {
                PaymentOutcome::Reinstated
            }
            _ => PaymentOutcome::RefundDue,
        }
    }

    /// Whether an order that is expired, or held and about to expire, can get its units again: they are in stock, and
    /// the user's limit allows it.
    fn can_reinstate(&self, number: u32, user: &UserId, now: Timestamp) -> bool {
        let row = self.grants.row(number);
        let held = self.grants.holding(self.grants.find(user)).units;
        // The units that it still holds will be in the stock then.
        let own = match row.state {
            OrderState::Held => row.quantity,
            _ => 0,
        };
        let open = matches!(self.phase_at(now), Phase::Live | Phase::Paused);
        let limit = self.offer.per_user_limit();
        open && u64::from(row.quantity) <= self.remaining + u64::from(own)
            && row.quantity <= limit.saturating_sub(held.saturating_sub(own))
    }

    /// Time of the last grant; the epoch if there is none.
    pub(super) fn last_granted_at(&self) -> Timestamp {
        let last = self.grants.at(self.grants.len());
        last.map_or(Timestamp::default(), |row| row.granted_at)
    }

    /// Time of the next change that needs no request: the end of the window, or of the oldest hold.
    pub(super) fn next_due(&self, agenda: &Agenda) -> Option<Timestamp> {
        let end = (self.phase != Phase::Closed).then_some(self.window.ends_at());
        end.into_iter()
            .chain(self.oldest_hold(agenda).map(|(_, expires_at)| expires_at))
            .chain(self.extended_due(agenda))
            .min()
    }

    /// Hold of its orders in milliseconds; 0 for a red packet.
    pub(super) fn hold_ms(&self) -> i64 {
        self.offer.sale().map_or(0, Sale::hold_ms)
    }

    /// Time at which the first order with an extended hold expires.
    fn extended_due(&self, agenda: &Agenda) -> Option<Timestamp> {
        let hold_ms = self.hold_ms();
        let mut due: Option<Timestamp> = None;
        for (until, number) in self.payments.extended() {
            // Downtimes only delay expiries.
            let earliest = agenda.grace.expires_at(hold_ms, until);
            if due.is_some_and(|due| due <= earliest) {
                break;
            }
            let expires_at = self.extended_expires_at(agenda, number);
            due = due.into_iter().chain(Some(expires_at)).min();
        }
        due
    }

    /// Numbers of orders with extended holds that expire now, ascending.
    pub(super) fn due_extensions(&self, agenda: &Agenda, now: Timestamp) -> Vec<u32> {
        let hold_ms = self.hold_ms();
        let extended = self.payments.extended();
        let mut due: Vec<u32> = extended
            .take_while(|(until, _)| agenda.grace.expires_at(hold_ms, *until) <= now)
            .filter(|(_, number)| self.extended_expires_at(agenda, *number) <= now)
            .map(|(_, number)| number)
            .collect();
        due.sort_unstable();
        due
    }

    fn extended_expires_at(&self, agenda: &Agenda, number: u32) -> Timestamp {
        let granted_at = self.grants.row(number).granted_at;
        let extension_ms = self.payments.extension_ms(number);
        agenda.expires_at(granted_at, self.hold_ms(), extension_ms)
    }

    /// The oldest held order whose hold is not extended, and the time at which it expires.
    pub(super) fn oldest_hold(&self, agenda: &Agenda) -> Option<(u32, Timestamp)> {
        let sale = self.offer.sale()?;
        let row = self.grants.at(self.first_held)?;
        let expires_at = agenda.expires_at(row.granted_at, sale.hold_ms(), 0);
        Some((self.grants.number_at(self.first_held), expires_at))
    }
}
