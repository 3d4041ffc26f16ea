//! The state machine of one partition: command in, reply and log entries out.
//!
//! A book reads no clock and draws no randomness: the time comes with every command, and the amounts of lazy
//! shares follow from the campaign's seed. The same commands at the same times give the same replies and entries,
//! and replaying the entries gives the same book. That makes it the reference model for every other engine.
//!
//! Architecture invariant: entries are the only way in which a book changes.

mod command;
mod grants;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use hashbrown::HashMap;

pub use self::command::{
    CampaignAction, Claim, Command, OrderView, PaymentOutcome, Refusal, Reply, Setup,
};
use self::{
    grants::NewGrant,
    state::{Decision, State},
};
use crate::{
    campaign::{AckLevel, Phase, Tally, Transition},
    event::{Entry, Event, Seq},
    id::{CampaignId, OrderId, PaymentRef},
    order::{OrderState, OrderStep},
    outcome::Outcome,
    time::Timestamp,
};

/// The state of one partition.
#[derive(Debug, Default)]
pub struct Book {
    campaigns: HashMap<CampaignId, State>,
    /// When each campaign next needs a tick.
    agenda: BTreeSet<(Timestamp, CampaignId)>,
    head: Seq,
}

impl Book {
    /// A book in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The last entry that this book has decided or replayed.
    #[must_use]
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
            Command::Pay { order, payment } => self.pay(now, *order, payment, log),
            Command::Cancel { order } => self.cancel(now, *order, log).map(Reply::Cancelled),
            Command::Act { campaign, action } => {
                self.act(now, *campaign, *action, log).map(Reply::Acted)
            }
            Command::Tick { events_max } => Ok(Reply::Ticked {
                more: self.tick(now, *events_max, log),
            }),
        }
    }

    /// Decides a claim. The entry of a grant is appended to `log`.
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
        let (found, amount_minor) = match state.decide(claim, now) {
            Ok(Decision::Answer(outcome)) => return Ok(outcome),
            Ok(Decision::Grant {
                found,
                amount_minor,
            }) => (found, amount_minor),
            Err(refusal) => return Err(refusal),
        };
        // Grants of one campaign are never dated backwards, even if the clock jumps: holds end in the order of numbers.
        let at = now.max(state.last_granted_at());
        let grant = state.record_grant(
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
        Self::reschedule(&mut self.agenda, state);
        Ok(Outcome::Granted(grant))
    }

    /// The answer to a claim that needs no decision: unknown, not started, paused, ended, sold out, granted before;
    /// `None` when only [`Book::claim`] can tell. Answers only from entries up to `committed`, because a later entry may
    /// still be undone.
    #[must_use]
    pub fn peek(&self, now: Timestamp, claim: &Claim, committed: Seq) -> Option<Outcome> {
        let Some(state) = self.campaigns.get(&claim.campaign) else {
            return Some(Outcome::UnknownCampaign);
        };
        if state.touched > committed {
            return None;
        }
        match state.decide(claim, now) {
            Ok(Decision::Answer(outcome)) => Some(outcome),
            Ok(Decision::Grant { .. }) | Err(_) => None,
        }
    }

    /// A campaign's numbers.
    #[must_use]
    pub fn tally(&self, now: Timestamp, campaign: CampaignId) -> Option<Tally> {
        self.campaigns
            .get(&campaign)
            .map(|state| state.tally_at(now))
    }

    /// The acknowledgement level that a campaign asks for.
    #[must_use]
    pub fn ack(&self, campaign: CampaignId) -> Option<AckLevel> {
        self.campaigns
            .get(&campaign)
            .map(|state| state.campaign.ack)
    }

    /// An order and whose it is.
    #[must_use]
    pub fn order(&self, order: OrderId) -> Option<OrderView> {
        self.campaigns.get(&order.campaign)?.order(order.number)
    }

    /// Every campaign in the book.
    pub fn campaigns(&self) -> impl Iterator<Item = CampaignId> {
        self.campaigns.keys().copied()
    }

    /// When a tick next has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// Adds a campaign before its entries are replayed; makes no entry.
    pub fn restore(&mut self, setup: Setup) {
        let mut state = State::new(setup);
        Self::reschedule(&mut self.agenda, &mut state);
        self.campaigns.insert(state.campaign.id, state);
    }

    /// Applies an entry that was decided before, perhaps by another book. Entries of unknown campaigns only advance the
    /// head.
    pub fn replay(&mut self, entry: &Entry) {
        self.head = entry.seq;
        if let Some(state) = self.campaigns.get_mut(&entry.campaign) {
            state.evolve(&entry.event, entry.at);
            state.touched = entry.seq;
            Self::reschedule(&mut self.agenda, state);
        }
    }

    fn open(&mut self, now: Timestamp, setup: &Setup, log: &mut Vec<Entry>) {
        let id = setup.campaign.id;
        if !self.campaigns.contains_key(&id) {
            self.restore(setup.clone());
        }
        // A campaign that was restored but never opened still needs this entry.
        if self
            .campaigns
            .get(&id)
            .is_some_and(|state| state.touched == 0)
        {
            self.record(now, id, Event::Opened { parts: 1 }, log);
        }
    }

    fn pay(
        &mut self,
        now: Timestamp,
        id: OrderId,
        payment: &PaymentRef,
        log: &mut Vec<Entry>,
    ) -> Result<Reply, Refusal> {
        let state = self
            .campaigns
            .get(&id.campaign)
            .ok_or(Refusal::UnknownOrder)?;
        let view = state.order(id.number).ok_or(Refusal::UnknownOrder)?;
        let outcome = match state.payment(id.number, payment) {
            Some(before) => before,
            None => {
                let order_state = view
                    .grant
                    .order
                    .map(|order| order.state)
                    .ok_or(Refusal::UnknownOrder)?;
                let reinstate = order_state == OrderState::Expired
                    && state.can_reinstate(id.number, &view.user, now);
                let (number, payment) = (id.number, payment.clone());
                let (outcome, event) = match order_state {
                    OrderState::Held => (PaymentOutcome::Paid, Event::Paid { number, payment }),
                    OrderState::Expired if reinstate => (
                        PaymentOutcome::Reinstated,
                        Event::Reinstated { number, payment },
                    ),
                    _ => (
                        PaymentOutcome::RefundDue,
                        Event::RefundDue { number, payment },
                    ),
                };
                self.record(now, id.campaign, event, log);
                outcome
            }
        };
        let view = self.order(id).ok_or(Refusal::UnknownOrder)?;
        Ok(Reply::Payment(outcome, view))
    }

    fn cancel(
        &mut self,
        now: Timestamp,
        id: OrderId,
        log: &mut Vec<Entry>,
    ) -> Result<OrderView, Refusal> {
        let view = self.order(id).ok_or(Refusal::UnknownOrder)?;
        let state = view
            .grant
            .order
            .map(|order| order.state)
            .ok_or(Refusal::UnknownOrder)?;
        if state != OrderState::Cancelled {
            state.after(OrderStep::Cancel)?;
            self.record(
                now,
                id.campaign,
                Event::Cancelled { number: id.number },
                log,
            );
        }
        self.order(id).ok_or(Refusal::UnknownOrder)
    }

    fn act(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        action: CampaignAction,
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let phase = self
            .campaigns
            .get(&id)
            .ok_or(Refusal::UnknownCampaign)?
            .phase_at(now);
        match (action, phase) {
            // Already so: a retry is a replay.
            (CampaignAction::Pause, Phase::Paused)
            | (CampaignAction::Resume, Phase::Live)
            | (CampaignAction::Close, Phase::Closed) => {}
            (CampaignAction::Pause, phase) => {
                phase.after(Transition::Pause)?;
                self.record(now, id, Event::Paused, log);
            }
            (CampaignAction::Resume, phase) => {
                phase.after(Transition::Resume)?;
                self.record(now, id, Event::Resumed, log);
            }
            (CampaignAction::Close, _) => self.close(now, id, log),
        }
        self.tally(now, id).ok_or(Refusal::UnknownCampaign)
    }

    /// Ends the campaign if it has not ended, and gives back what is left.
    fn close(&mut self, now: Timestamp, id: CampaignId, log: &mut Vec<Entry>) {
        self.record(now, id, Event::Ended, log);
        if let Some(tally) = self.tally(now, id) {
            let event = Event::Closed {
                returned: tally.remaining,
                refunded_minor: tally.remaining_minor,
            };
            self.record(now, id, event, log);
        }
    }

    fn tick(&mut self, now: Timestamp, events_max: usize, log: &mut Vec<Entry>) -> bool {
        let enough = log.len() + events_max;
        while let Some((due, id)) = self.agenda.first().copied() {
            if due > now {
                return false;
            }
            if log.len() >= enough {
                return true;
            }
            self.tick_campaign(now, id, enough, log);
        }
        false
    }

    fn tick_campaign(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        enough: usize,
        log: &mut Vec<Entry>,
    ) {
        // Holds first: units that expire while the campaign is still open return to the stock.
        while log.len() < enough {
            let Some(state) = self.campaigns.get(&id) else {
                return;
            };
            match state.oldest_hold() {
                Some((number, until)) if until <= now => {
                    self.record(now, id, Event::Expired { number }, log)
                }
                _ => break,
            }
        }
        let Some(state) = self.campaigns.get_mut(&id) else {
            return;
        };
        let over = state.phase_at(now) == Phase::Ended && log.len() < enough;
        if over {
            self.close(now, id, log);
        } else {
            Self::reschedule(&mut self.agenda, state);
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

    fn reschedule(agenda: &mut BTreeSet<(Timestamp, CampaignId)>, state: &mut State) {
        let due = state.next_due();
        if due != state.due {
            if let Some(before) = state.due {
                agenda.remove(&(before, state.campaign.id));
            }
            if let Some(after) = due {
                agenda.insert((after, state.campaign.id));
            }
            state.due = due;
        }
    }
}
