//! State machine of one partition: it takes commands, and returns replies and log entries.
//!
//! A book reads no clock and draws no randomness: each command carries the time, and the amounts of lazy shares follow
//! from the campaign's seed. The same commands at the same times give the same replies and entries, and replayed
//! entries give the same book. So the book is the reference model of all engines.
//!
//! Architecture invariant: a book changes only by entries.

mod command;
mod excerpt;
mod grants;
mod lifecycle;
mod offer;
mod orders;
mod recall;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hashbrown::HashMap;

pub use self::command::{
    CampaignAction, Claim, Command, OrderView, Refusal, Reply, SaleCorrection, Setup,
};
pub use self::excerpt::{Excerpt, StoredCampaign};
pub use self::recall::{CampaignCounters, CampaignSnapshot, FormerGrant, InvalidRows};
use self::{
    grants::NewGrant,
    state::{CampaignState, ClaimDecision, Due},
};
pub use crate::payment::PaymentOutcome;
use crate::{
    campaign::{AckLevel, Tally},
    event::{Entry, Event, Seq},
    fair_share::OwnerDigest,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    time::{JUMP_MS_MAX, Timestamp},
};

/// Time for which an unpaid order keeps its units after its hold, for payments that were made in time and reported
/// late. It is never longer than the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grace {
    /// Milliseconds after the end of the hold.
    pub ms: i64,
    /// Start of reporting. If a hold ended earlier, the grace counts from here.
    pub since: Timestamp,
}

impl Grace {
    /// Time at which an order expires, if it has a hold of this length until this instant.
    #[must_use]
    pub fn expires_at(self, hold_ms: i64, until: Timestamp) -> Timestamp {
        until.max(self.since).plus_millis(self.ms.min(hold_ms))
    }
}

/// Maximum downtimes of a book.
pub const DOWNTIMES_MAX: usize = 64;

/// A time in which users could not pay: the engine was down, or had stopped. It extends holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downtime {
    /// Last time before it at which the engine was up.
    pub began: Timestamp,
    /// Time at which the engine was up again.
    pub ended: Timestamp,
}

/// Time at which each campaign next needs a tick.
#[derive(Debug, Default)]
struct Agenda {
    due: BTreeSet<(Timestamp, CampaignId)>,
    grace: Grace,
    /// Ordered by time.
    downtimes: Vec<Downtime>,
    /// Whether changes of due times are not noted. An excerpt lacks grants whose due times are noted.
    is_suspended: bool,
}

/// The state of one partition.
#[derive(Debug, Default)]
pub struct Book {
    campaigns: HashMap<CampaignId, Box<CampaignState>>,
    agenda: Agenda,
    head: Seq,
    /// Later entries concern only campaigns in the book, and those in `absent_last`.
    absent_upto: Seq,
    /// Last entries of campaigns that were changed while they were not in the book.
    absent_last: HashMap<CampaignId, Seq>,
    /// Due times that [`Self::decide_absent`] has noted for campaigns, the latest of each.
    absent_due: HashMap<CampaignId, Timestamp>,
    /// Numbers that unopened sales must skip.
    skipped: HashMap<CampaignId, Vec<(u32, u32)>>,
}

impl Book {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty book with a grace for late reports of payments.
    pub fn with_grace(grace: Grace) -> Self {
        let mut book = Self::default();
        book.agenda.grace = grace;
        book
    }

    /// Grace for late reports of payments.
    pub fn grace(&self) -> Grace {
        self.agenda.grace
    }

    /// Adds a time in which users could not pay, after the earlier ones. Above [`DOWNTIMES_MAX`], the oldest two are
    /// merged. The cost grows with the number of campaigns in the book.
    pub fn was_down(&mut self, downtime: Downtime) {
        let downtimes = &mut self.agenda.downtimes;
        downtimes.push(downtime);
        if downtimes.len() > DOWNTIMES_MAX {
            let oldest = downtimes.remove(0);
            downtimes[0].began = downtimes[0].began.min(oldest.began);
        }
        // The grace pauses too.
        let since = &mut self.agenda.grace.since;
        if *since > Timestamp::default() {
            *since = (*since).max(downtime.ended);
        }
        for state in self.campaigns.values_mut() {
            self.agenda.reschedule(state);
        }
    }

    /// Time at which an unpaid order expires that was granted at an instant.
    pub fn expires_at(&self, granted_at: Timestamp, hold_ms: i64) -> Timestamp {
        self.agenda.expires_at(granted_at, hold_ms, 0)
    }

    /// As [`Book::expires_at`], for an order whose hold was extended.
    pub fn extended_expires_at(
        &self,
        granted_at: Timestamp,
        hold_ms: i64,
        extension_ms: i64,
    ) -> Timestamp {
        self.agenda.expires_at(granted_at, hold_ms, extension_ms)
    }

    /// The last entry that this book has decided or replayed.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Executes one command. Its entries, which may be none, are appended to `log`.
    ///
    /// # Errors
    /// If the command is refused. Then nothing has changed.
    pub fn apply(
        &mut self,
        now: Timestamp,
        command: &Command,
        log: &mut Vec<Entry>,
    ) -> Result<Reply, Refusal> {
        match command {
            Command::Open(setup) => {
                self.open(now, setup, log);
                Ok(Reply::Opened)
            }
            Command::Pay {
                order,
                payment,
                paid_at,
                received,
                cancelled,
            } => {
                let received = (*received, *cancelled);
                self.pay(now, *order, (payment, *paid_at, received), log)
            }
            Command::Cancel { order, part } => {
                let cancelled = self.cancel(now, *order, part.as_ref(), log);
                cancelled.map(Reply::Cancelled)
            }
            Command::ExtendHold {
                order,
                extension_ms,
            } => {
                let extended = self.extend_hold(now, *order, *extension_ms, log);
                extended.map(Reply::HoldExtended)
            }
            Command::Act { campaign, action } => {
                self.act(now, *campaign, *action, log).map(Reply::Acted)
            }
            Command::Tick { events_max } => Ok(Reply::Ticked {
                more: self.tick(now, *events_max, log),
            }),
            Command::Return { order, part } => {
                let returned = self.return_order(now, *order, part.as_ref(), log);
                returned.map(Reply::Returned)
            }
            Command::SetStock { campaign, stock } => self
                .set_stock(now, *campaign, *stock, log)
                .map(Reply::Acted),
            Command::SetTerms { campaign, change } => self
                .set_terms(now, *campaign, change, log)
                .map(Reply::Acted),
            Command::SetSale {
                campaign,
                stock,
                change,
            } => self
                .set_sale(now, *campaign, (*stock, change), log)
                .map(Reply::Acted),
            Command::Correct {
                campaign,
                correction,
            } => self
                .correct(now, *campaign, correction, log)
                .map(Reply::Acted),
            Command::Keyed { id, change } => {
                let reply = self.apply(now, change, log)?;
                if let Some(campaign) = change.campaign() {
                    self.record(now, campaign, Event::ChangeMade { id: *id }, log);
                }
                Ok(reply)
            }
        }
    }

    /// Decides a claim. Appends the entry of a grant to `log`, and the entry of its payment if it costs nothing.
    ///
    /// # Errors
    /// [`Refusal::KeyReused`] and [`Refusal::NothingAsked`].
    pub fn claim(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        log: &mut Vec<Entry>,
    ) -> Result<Outcome, Refusal> {
        let Some(state) = self.campaigns.get_mut(&claim.campaign) else {
            return Ok(Outcome::UnknownCampaign);
        };
        state.used.mark(now);
        let (found, amount_minor) = match state.decide(claim, now) {
            Ok(ClaimDecision::Answer(outcome)) => return Ok(outcome),
            Ok(ClaimDecision::Grant {
                found,
                amount_minor,
            }) => (found, amount_minor),
            Err(refusal) => return Err(refusal),
        };
        let at = date_of(now, state.last_granted_at());
        let mut grant = state.record_grant(
            found,
            &NewGrant {
                user: &claim.user,
                quantity: claim.quantity,
                amount_minor,
                key: claim.key.as_ref(),
                granted_at: at,
            },
        );
        self.head += 1;
        state.touched = self.head;
        log.push(Entry {
            seq: self.head,
            at,
            campaign: claim.campaign,
            event: Event::Granted {
                number: grant.number,
                user: claim.user.clone(),
                quantity: claim.quantity,
                amount_minor,
                key: claim.key.clone(),
            },
        });
        if let Some((event, paid)) = state.pay_free(grant.number, at) {
            self.head += 1;
            state.touched = self.head;
            log.push(Entry {
                seq: self.head,
                at,
                campaign: claim.campaign,
                event,
            });
            grant = paid;
        }
        self.agenda.reschedule(state);
        Ok(Outcome::Granted(grant))
    }

    /// Answer to a claim that needs no decision: unknown, not started, paused, ended, sold out, granted before. `None`
    /// if only [`Book::claim`] can decide. Uses only entries up to `committed`, because later ones may still be undone.
    pub fn try_gate_outcome(
        &self,
        now: Timestamp,
        claim: &Claim,
        committed: Seq,
    ) -> Option<Outcome> {
        let Some(state) = self.campaigns.get(&claim.campaign) else {
            return Some(Outcome::UnknownCampaign);
        };
        state.used.mark(now);
        if state.touched > committed {
            return None;
        }
        state.answer(claim, now).ok()?.1
    }

    /// Whether the campaign's state has no entry after `committed`, which may still be undone.
    pub fn is_committed(&self, campaign: CampaignId, committed: Seq) -> bool {
        let state = self.campaigns.get(&campaign);
        state.is_none_or(|state| state.touched <= committed)
    }

    /// Whether a campaign was opened by an entry up to `committed`. May be false for a campaign that has changed since.
    pub fn has_opened(&self, campaign: CampaignId, committed: Seq) -> bool {
        let state = self.campaigns.get(&campaign);
        state.is_some_and(|state| (1..=committed).contains(&state.touched))
    }

    /// Number of the next grant of a campaign.
    pub fn next_number(&self, campaign: CampaignId) -> Option<u32> {
        Some(self.campaigns.get(&campaign)?.grants.next_number())
    }

    /// Counters of a campaign.
    pub fn tally(&self, now: Timestamp, campaign: CampaignId) -> Option<Tally> {
        let state = self.campaigns.get(&campaign)?;
        state.used.mark(now);
        Some(state.tally_at(now))
    }

    /// Acknowledgement level that a campaign requests, and its owner.
    pub fn ack_and_owner(&self, campaign: CampaignId) -> Option<(AckLevel, OwnerDigest)> {
        let state = self.campaigns.get(&campaign)?;
        Some((state.ack, state.owner))
    }

    /// Number of users that a campaign currently admits at a time; `None` if it admits all users.
    pub fn admits(&self, campaign: CampaignId) -> Option<u32> {
        let state = self.campaigns.get(&campaign)?;
        let ratio = state.offer.admission()?;
        Some(ratio.users(state.remaining()))
    }

    /// An order and its owner.
    pub fn order(&self, order: OrderId) -> Option<OrderView> {
        self.campaigns.get(&order.campaign)?.order(order.number)
    }

    /// All campaigns in the book.
    pub fn campaigns(&self) -> impl Iterator<Item = CampaignId> {
        self.campaigns.keys().copied()
    }

    /// Time at which a tick is next needed.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.due.first().map(|(due, _)| *due)
    }

    /// Adds a campaign before its entries are replayed; writes no entry.
    pub fn restore(&mut self, setup: Setup) {
        self.add(CampaignState::new(&setup));
    }

    /// Makes a sale that is not in the book skip these numbers once it opens: from the first to the last of each pair,
    /// ascending.
    pub fn skip_numbers(&mut self, campaign: CampaignId, numbers: Vec<(u32, u32)>) {
        self.skipped.insert(campaign, numbers);
    }

    fn add(&mut self, state: CampaignState) {
        let mut state = Box::new(state);
        self.agenda.reschedule(&mut state);
        self.campaigns.insert(state.id, state);
    }

    /// Applies an entry that was decided before, possibly by another book. Entries of unknown campaigns only advance
    /// the head.
    pub fn replay(&mut self, entry: &Entry) {
        self.head = entry.seq;
        if let Some(state) = self.campaigns.get_mut(&entry.campaign) {
            state.evolve(&entry.event, entry.at);
            state.touched = entry.seq;
            self.agenda.reschedule(state);
        }
    }

    fn record(&mut self, now: Timestamp, campaign: CampaignId, event: Event, log: &mut Vec<Entry>) {
        let entry = Entry {
            seq: self.head + 1,
            at: now,
            campaign,
            event,
        };
        self.replay(&entry);
        log.push(entry);
    }
}

/// Date of a grant after one that was dated `last`. If the clock was set back by at most [`JUMP_MS_MAX`], the date is
/// `last`, so that dates do not decrease. If it was set back further, it was wrong before and has dated `last` far
/// ahead; later grants do not continue from that date. Holds still end in the order of numbers: later holds end after
/// that order has left its hold, or its date has passed.
fn date_of(now: Timestamp, last: Timestamp) -> Timestamp {
    match last.millis_since(now) <= JUMP_MS_MAX {
        true => now.max(last),
        false => now,
    }
}

impl Agenda {
    /// Time until which an order is held that was granted at an instant.
    fn held_until(&self, granted_at: Timestamp, hold_ms: i64) -> Timestamp {
        let mut until = granted_at.plus_millis(hold_ms);
        for downtime in &self.downtimes {
            let began = downtime.began.max(granted_at);
            if began < until {
                until = until.plus_millis(downtime.ended.millis_since(began).max(0));
            }
        }
        until
    }

    /// Time at which an order expires whose hold of `hold_ms` was extended by `extension_ms`.
    fn expires_at(&self, granted_at: Timestamp, hold_ms: i64, extension_ms: i64) -> Timestamp {
        let until = self.held_until(granted_at, hold_ms.saturating_add(extension_ms));
        self.grace.expires_at(hold_ms, until)
    }

    fn reschedule(&mut self, state: &mut CampaignState) {
        let due = Due::at(state.next_due(self));
        if due != state.due {
            if let Some(before) = state.due.get().filter(|_| !self.is_suspended) {
                self.due.remove(&(before, state.id));
            }
            if let Some(after) = due.get().filter(|_| !self.is_suspended) {
                self.due.insert((after, state.id));
            }
            state.due = due;
        }
    }
}
