//! Phases of a campaign: opening, actions of operators, and changes that are due by time.

use super::{
    Book, CampaignAction, Excerpt, Refusal, SaleCorrection, Setup,
    state::{CampaignState, Due},
};
use crate::{
    campaign::{CampaignError, Phase, SaleSettings, SaleSettingsChange, Tally, Transition},
    event::{Entry, Event, Seq},
    id::CampaignId,
    time::{Timestamp, Window},
};

/// Maximum campaigns outside a book whose last entry it remembers one by one.
const ABSENT_LAST_MAX: usize = 1_024;

impl Book {
    pub(super) fn open(&mut self, now: Timestamp, setup: &Setup, log: &mut Vec<Entry>) {
        let id = setup.campaign.id;
        if !self.has(id) {
            let mut state = CampaignState::new(setup);
            if let Some(numbers) = self.skipped.remove(&id) {
                state.grants.skip(&numbers);
            }
            self.add(state);
        }
        // A restored campaign that was never opened still needs this entry.
        let state = self.campaigns.get(&id);
        if state.is_some_and(|state| state.touched == 0) {
            self.record(now, id, Event::Opened { parts: 1 }, log);
        }
    }

    pub(super) fn act(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        action: CampaignAction,
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let state = self.campaigns.get(&id).ok_or(Refusal::UnknownCampaign)?;
        match (action, state.phase_at(now)) {
            // Only a sale has terms, and a start changes them.
            (CampaignAction::Start, _) if state.terms().is_none() => {
                return Err(Refusal::UnknownCampaign);
            }
            // The phase is already reached: a retry is a replay.
            (CampaignAction::Pause, Phase::Paused)
            | (CampaignAction::Resume, Phase::Scheduled | Phase::Live)
            | (CampaignAction::Start, Phase::Live)
            | (CampaignAction::Close, Phase::Closed) => {}
            // A paused campaign answers claims as paused until a tick closes it, even after its window.
            (CampaignAction::Pause, _) if state.is_paused() => {}
            (CampaignAction::Pause, phase) => {
                phase.after(Transition::Pause)?;
                self.record(now, id, Event::Paused, log);
            }
            (CampaignAction::Resume, phase) => {
                phase.after(Transition::Resume)?;
                self.record(now, id, Event::Resumed, log);
            }
            (CampaignAction::Start, phase) => {
                let terms = state.terms().ok_or(Refusal::UnknownCampaign)?;
                phase.after(Transition::Start)?;
                self.start(now, id, terms, log)?;
            }
            (CampaignAction::Close, _) => self.close(now, id, log),
        }
        self.tally(now, id).ok_or(Refusal::UnknownCampaign)
    }

    /// Raises or lowers the stock of a sale.
    pub(super) fn set_stock(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        stock: u64,
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let state = self.campaigns.get(&id).ok_or(Refusal::UnknownCampaign)?;
        let sale = state.offer.sale().ok_or(Refusal::UnknownCampaign)?;
        let tally = state.tally_at(now);
        // The stock is already set: a retry is a replay.
        if stock != sale.stock() {
            tally.phase.after(Transition::ChangeStock)?;
            sale.with_stock(stock)?;
            let least = tally.supply - tally.remaining;
            if stock < least {
                return Err(Refusal::StockGranted { least });
            }
            // Both are far inside 64 bits.
            let units = stock as i64 - sale.stock() as i64;
            self.record(now, id, Event::StockChanged { units }, log);
        }
        self.tally(now, id).ok_or(Refusal::UnknownCampaign)
    }

    /// Changes window, limit, price or admission of a sale.
    pub(super) fn set_terms(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        change: &SaleSettingsChange,
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let state = self.campaigns.get(&id).ok_or(Refusal::UnknownCampaign)?;
        let (Some(sale), Some(terms)) = (state.offer.sale(), state.terms()) else {
            return Err(Refusal::UnknownCampaign);
        };
        // The terms are already set: a retry is a replay.
        if !change.is_in(&terms) {
            let phase = state.phase_at(now);
            phase.after(Transition::ChangeTerms)?;
            let has_granted = state.grants.count() > 0;
            let terms = change.apply(&terms, (sale, has_granted), phase, now)?;
            let revision = self.head + 1;
            self.record(now, id, Event::TermsChanged { revision, terms }, log);
        }
        self.tally(now, id).ok_or(Refusal::UnknownCampaign)
    }

    /// Changes stock and terms of a sale in one step. With less stock the terms change first, so that the limit is at
    /// most the stock after each entry.
    pub(super) fn set_sale(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        (stock, change): (u64, &SaleSettingsChange),
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let state = self.campaigns.get(&id).ok_or(Refusal::UnknownCampaign)?;
        let (Some(sale), Some(terms)) = (state.offer.sale(), state.terms()) else {
            return Err(Refusal::UnknownCampaign);
        };
        if change.is_in(&terms) {
            return self.set_stock(now, id, stock, log);
        }
        // All is checked before the first entry.
        let tally = state.tally_at(now);
        tally.phase.after(Transition::ChangeTerms)?;
        let has_granted = state.grants.count() > 0;
        let is_less = stock < sale.stock();
        if is_less {
            let after = change.apply(&terms, (sale, has_granted), tally.phase, now)?;
            after.rules(sale)?.with_stock(stock)?;
        } else {
            let sale = sale.with_stock(stock)?;
            change.apply(&terms, (&sale, has_granted), tally.phase, now)?;
        }
        let least = tally.supply - tally.remaining;
        if is_less && stock < least {
            return Err(Refusal::StockGranted { least });
        }
        if is_less {
            self.set_terms(now, id, change, log)?;
            return self.set_stock(now, id, stock, log);
        }
        self.set_stock(now, id, stock, log)?;
        self.set_terms(now, id, change, log)
    }

    /// Changes stock or terms of a sale that still has the values which a correction expects.
    pub(super) fn correct(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        correction: &SaleCorrection,
        log: &mut Vec<Entry>,
    ) -> Result<Tally, Refusal> {
        let state = self.campaigns.get(&id).ok_or(Refusal::UnknownCampaign)?;
        let (Some(sale), Some(terms)) = (state.offer.sale(), state.terms()) else {
            return Err(Refusal::UnknownCampaign);
        };
        match correction {
            SaleCorrection::Stock { expected, stock } if *expected == sale.stock() => {
                self.set_stock(now, id, *stock, log)
            }
            SaleCorrection::Terms { expected, change } if *expected == terms => {
                self.set_terms(now, id, change, log)
            }
            _ => Err(Refusal::Changed),
        }
    }

    /// Starts a scheduled sale with these terms now.
    fn start(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        terms: SaleSettings,
        log: &mut Vec<Entry>,
    ) -> Result<(), Refusal> {
        let window = Window::new(now, terms.window.ends_at()).map_err(|_| CampaignError::Window)?;
        let (terms, revision) = (SaleSettings { window, ..terms }, self.head + 1);
        self.record(now, id, Event::TermsChanged { revision, terms }, log);
        Ok(())
    }

    /// Ends the campaign if it has not ended, and returns the rest to the owner.
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

    pub(super) fn tick(&mut self, now: Timestamp, events_max: usize, log: &mut Vec<Entry>) -> bool {
        let enough = log.len() + events_max;
        while let Some((due, id)) = self.agenda.due.first().copied() {
            if due > now {
                return false;
            }
            if log.len() >= enough {
                return true;
            }
            let Some(state) = self.campaigns.get(&id) else {
                return true; // it must be reloaded first
            };
            if state.due.get() != Some(due) {
                // The time was noted while the campaign was not in the book.
                self.agenda.due.remove(&(due, id));
                continue;
            }
            self.tick_campaign(now, id, enough, log);
        }
        false
    }

    /// Makes the changes that are due of a campaign which is not in the book, as a tick does, and appends up to about
    /// `events_max` entries to `log`. Notes the time at which the campaign next needs a tick.
    ///
    /// The excerpt must have the campaign's held orders whose holds are extended, and the oldest of its other held
    /// orders: all of them, or more than `events_max`.
    pub fn tick_absent(
        &mut self,
        now: Timestamp,
        excerpt: Excerpt,
        events_max: usize,
        log: &mut Vec<Entry>,
    ) {
        let state = excerpt.into_state();
        let id = state.id;
        if self.has(id) {
            return; // the next tick finds it
        }
        self.dismiss(now, id);
        // Its next due time stays in the agenda.
        self.with_absent(state, |book| {
            book.tick_campaign(now, id, log.len() + events_max, log);
        });
    }

    /// Decides about a campaign that is not in the book, as if it was. Noted due times stay, because the excerpt lacks
    /// grants. So a tick may come early, and none comes late.
    ///
    /// The excerpt must have all grants of each user that claims and of the buyer of each order, with their parts and
    /// payments. It must also have the last grant, whose date bounds the next one, and the amounts of the next shares.
    /// If a hold is extended, it must have all held orders whose holds are extended.
    pub fn decide_absent<T>(&mut self, excerpt: Excerpt, decide: impl FnOnce(&mut Self) -> T) -> T {
        let state = excerpt.into_state();
        let id = state.id;
        if self.has(id) {
            return decide(self);
        }
        self.agenda.is_suspended = true;
        let (decided, due) = self.with_absent(state, decide);
        self.agenda.is_suspended = false;
        if let Some(due) = due.get() {
            self.note_absent_due(id, due);
        }
        decided
    }

    /// Notes a due time, unless an earlier one is noted: the tick at that time notes the next one from all rows.
    fn note_absent_due(&mut self, id: CampaignId, due: Timestamp) {
        let is_noted = |noted: &Timestamp| self.agenda.due.contains(&(*noted, id));
        let noted = self.absent_due.get(&id).copied().filter(is_noted);
        if noted.is_some_and(|noted| noted <= due) {
            return;
        }
        if self.absent_due.len() >= ABSENT_LAST_MAX {
            self.absent_due.clear(); // some ticks come early
        }
        self.absent_due.insert(id, due);
        self.agenda.due.insert((due, id));
    }

    /// Runs with a campaign that leaves the book at the end. Returns its due time, too.
    fn with_absent<T>(
        &mut self,
        state: Box<CampaignState>,
        run: impl FnOnce(&mut Self) -> T,
    ) -> (T, Due) {
        let id = state.id;
        self.campaigns.insert(id, state);
        let done = run(self);
        let state = self.campaigns.remove(&id);
        let (touched, due) = state.map_or((0, Due::NEVER), |state| (state.touched, state.due));
        if touched > 0 {
            self.absent_last.insert(id, touched);
        }
        if self.absent_last.len() > ABSENT_LAST_MAX {
            let last = self.absent_last.drain().map(|(_, seq)| seq).max();
            self.absent_upto = self.absent_upto.max(last.unwrap_or(0));
        }
        (done, due)
    }

    /// Removes the entries of [`Self::tick_absent`] and [`Self::decide_absent`] after the position `head`. No other
    /// entry may follow it. The caller must reload the campaigns: due times of ticked ones are not noted.
    pub fn undo_absent(&mut self, head: Seq) {
        self.head = head;
        self.absent_upto = self.absent_upto.min(head);
        for touched in self.absent_last.values_mut() {
            *touched = (*touched).min(head);
        }
    }

    fn tick_campaign(
        &mut self,
        now: Timestamp,
        id: CampaignId,
        enough: usize,
        log: &mut Vec<Entry>,
    ) {
        // Holds first: if they expire while the campaign is still open, their units are restocked. Extended holds
        // expire before others, in the order of their numbers.
        let extended = self.campaigns.get(&id).into_iter();
        let extended = extended.flat_map(|state| state.due_extensions(&self.agenda, now));
        for number in extended.collect::<Vec<_>>() {
            if log.len() < enough {
                self.record(now, id, Event::Expired { number }, log);
            }
        }
        while log.len() < enough {
            let Some(state) = self.campaigns.get(&id) else {
                return;
            };
            match state.oldest_hold(&self.agenda) {
                Some((number, expires_at)) if expires_at <= now => {
                    self.record(now, id, Event::Expired { number }, log)
                }
                _ => break,
            }
        }
        let Some(state) = self.campaigns.get_mut(&id) else {
            return;
        };
        if state.phase_at(now) == Phase::Ended && log.len() < enough {
            self.close(now, id, log);
        } else {
            self.agenda.reschedule(state);
        }
    }
}
