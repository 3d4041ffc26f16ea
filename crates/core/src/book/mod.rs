//! The state machine of one partition: command in, reply and log entries out.
//!
//! A book reads no clock and draws no randomness: the time comes with every command, and the amounts of lazy
//! shares follow from the campaign's seed. The same commands at the same times give the same replies and entries,
//! and replaying the entries gives the same book. That makes it the reference model for every other engine.
//!
//! Architecture invariant: entries are the only way in which a book changes.

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
pub use self::excerpt::{Excerpt, Stored};
pub use self::recall::{FormerGrant, Restored, Standing, Unsound};
use self::{
    grants::NewGrant,
    state::{Decision, State},
};
pub use crate::payment::PaymentOutcome;
use crate::{
    campaign::{AckLevel, Tally},
    event::{Entry, Event, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    time::{JUMP_MS_MAX, Timestamp},
};

/// How long an order keeps its units after its hold, unpaid: for reports of payments that were made in time and come
/// late. It is never more than the hold itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grace {
    /// Milliseconds after the end of the hold.
    pub ms: i64,
    /// No report was taken before this instant: for holds that ended earlier, the time counts from here.
    pub since: Timestamp,
}

impl Grace {
    /// When an order expires whose hold lasts so many milliseconds, up to an instant.
    #[must_use]
    pub fn expires_at(self, hold_ms: i64, until: Timestamp) -> Timestamp {
        until.max(self.since).plus_millis(self.ms.min(hold_ms))
    }
}

/// A time in which nobody could pay: the engine was down, or had stopped. Holds stand still meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downtime {
    /// When it was up last.
    pub began: Timestamp,
    /// When it was up again.
    pub ended: Timestamp,
}

/// When each campaign next needs a tick.
#[derive(Debug, Default)]
struct Agenda {
    due: BTreeSet<(Timestamp, CampaignId)>,
    grace: Grace,
    /// In the order of time.
    downtimes: Vec<Downtime>,
}

/// The state of one partition.
#[derive(Debug, Default)]
pub struct Book {
    campaigns: HashMap<CampaignId, Box<State>>,
    agenda: Agenda,
    head: Seq,
    /// No entry behind this is about a campaign that is not in the book.
    absent_upto: Seq,
    /// Numbers that sales which have not opened do not give.
    skipped: HashMap<CampaignId, Vec<(u32, u32)>>,
}

impl Book {
    /// A book in which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// A book in which nothing has happened, and whose orders have so long for payments that are reported late.
    pub fn with_grace(grace: Grace) -> Self {
        let mut book = Self::default();
        book.agenda.grace = grace;
        book
    }

    /// How long orders have for payments that are reported late.
    pub fn grace(&self) -> Grace {
        self.agenda.grace
    }

    /// Notes a time in which nobody could pay, behind those before it. The book has no campaigns yet.
    pub fn was_down(&mut self, downtime: Downtime) {
        debug_assert!(self.campaigns.is_empty(), "holds are due by it");
        self.agenda.downtimes.push(downtime);
    }

    /// When an order expires that was made at an instant, if it is not paid.
    pub fn expires_at(&self, granted_at: Timestamp, hold_ms: i64) -> Timestamp {
        self.agenda.expires_at(granted_at, hold_ms)
    }

    /// The last entry that this book has decided or replayed.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Executes one command. Its entries, which may be none, are appended to `log`.
    ///
    /// # Errors
    /// When the command is refused; then nothing has changed.
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
            } => self.pay(now, *order, (payment, *paid_at, *received), log),
            Command::Cancel { order } => self.cancel(now, *order, log).map(Reply::Cancelled),
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
            Command::Correct {
                campaign,
                correction,
            } => self
                .correct(now, *campaign, correction, log)
                .map(Reply::Acted),
        }
    }

    /// Decides a claim. The entry of a grant is appended to `log`, with that of its payment where it costs nothing.
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
            Ok(Decision::Answer(outcome)) => return Ok(outcome),
            Ok(Decision::Grant {
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

    /// The answer to a claim that needs no decision: unknown, not started, paused, ended, sold out, granted before;
    /// `None` when only [`Book::claim`] can tell. Answers only from entries up to `committed`, because a later entry
    /// may still be undone.
    pub fn peek(&self, now: Timestamp, claim: &Claim, committed: Seq) -> Option<Outcome> {
        let Some(state) = self.campaigns.get(&claim.campaign) else {
            return Some(Outcome::UnknownCampaign);
        };
        state.used.mark(now);
        if state.touched > committed {
            return None;
        }
        state.answer(claim, now).ok()?.1
    }

    /// Whether nothing about a campaign is from an entry behind `committed`, which may still be undone.
    pub fn is_committed(&self, campaign: CampaignId, committed: Seq) -> bool {
        let state = self.campaigns.get(&campaign);
        state.is_none_or(|state| state.touched <= committed)
    }

    /// Whether a campaign was opened by an entry up to `committed`. One that was changed since may say no.
    pub fn has_opened(&self, campaign: CampaignId, committed: Seq) -> bool {
        let state = self.campaigns.get(&campaign);
        state.is_some_and(|state| (1..=committed).contains(&state.touched))
    }

    /// The number that the next grant of a campaign gets.
    pub fn next_number(&self, campaign: CampaignId) -> Option<u32> {
        Some(self.campaigns.get(&campaign)?.grants.next_number())
    }

    /// A campaign's numbers.
    pub fn tally(&self, now: Timestamp, campaign: CampaignId) -> Option<Tally> {
        let state = self.campaigns.get(&campaign)?;
        state.used.mark(now);
        Some(state.tally_at(now))
    }

    /// The acknowledgement level that a campaign asks for.
    pub fn ack(&self, campaign: CampaignId) -> Option<AckLevel> {
        self.campaigns.get(&campaign).map(|state| state.ack)
    }

    /// How many users a campaign admits at a time as it is now; none where it admits everybody.
    pub fn admits(&self, campaign: CampaignId) -> Option<u32> {
        let state = self.campaigns.get(&campaign)?;
        let ratio = state.offer.admission()?;
        Some(ratio.users(state.remaining()))
    }

    /// An order and whose it is.
    pub fn order(&self, order: OrderId) -> Option<OrderView> {
        self.campaigns.get(&order.campaign)?.order(order.number)
    }

    /// Every campaign in the book.
    pub fn campaigns(&self) -> impl Iterator<Item = CampaignId> {
        self.campaigns.keys().copied()
    }

    /// When a tick next has something to do.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.due.first().map(|(due, _)| *due)
    }

    /// Adds a campaign before its entries are replayed; makes no entry.
    pub fn restore(&mut self, setup: Setup) {
        self.add(State::new(&setup));
    }

    /// Has a sale that is not in the book give none of these numbers once it opens: from the first to the last of each
    /// pair, in their order.
    pub fn skip_numbers(&mut self, campaign: CampaignId, numbers: Vec<(u32, u32)>) {
        self.skipped.insert(campaign, numbers);
    }

    fn add(&mut self, state: State) {
        let mut state = Box::new(state);
        self.agenda.reschedule(&mut state);
        self.campaigns.insert(state.id, state);
    }

    /// Applies an entry that was decided before, perhaps by another book. Entries of unknown campaigns only advance the
    /// head.
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

/// The date of a grant behind one that was made at `last`. A clock that is set back a little dates nothing backwards.
/// One that is set back further has been wrong before, and has dated a grant far ahead: that dates no later ones. Holds
/// end in the order of numbers all the same: those behind such a grant when it leaves, or its date has come.
fn date_of(now: Timestamp, last: Timestamp) -> Timestamp {
    match last.millis_since(now) <= JUMP_MS_MAX {
        true => now.max(last),
        false => now,
    }
}

impl Agenda {
    /// Until when an order is held that was made at an instant.
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

    fn expires_at(&self, granted_at: Timestamp, hold_ms: i64) -> Timestamp {
        let until = self.held_until(granted_at, hold_ms);
        self.grace.expires_at(hold_ms, until)
    }

    fn reschedule(&mut self, state: &mut State) {
        let due = state.next_due(self);
        if due != state.due {
            if let Some(before) = state.due {
                self.due.remove(&(before, state.id));
            }
            if let Some(after) = due {
                self.due.insert((after, state.id));
            }
            state.due = due;
        }
    }
}
