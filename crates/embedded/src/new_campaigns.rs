//! Campaigns that are to be entered together.
//!
//! Where they have many shares, an engine writes these before, a slice at a time, and nobody sees them. What makes the
//! campaigns exist is one small step behind that, with their money and their keys.

use qiang_core::{
    ports::{Creation, KeyBinding, LedgerError},
    time::Timestamp,
};
use rusqlite::Connection;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::{
    error::StoreError,
    file,
    job::{Apart, Committed, JobContext, LedgerJob, result_of},
    ledger::{keys, preparations},
    pace::LOAD_SHARES,
};

/// What became of each campaign.
pub(crate) type Entered = Vec<Result<KeyBinding, LedgerError>>;

/// Campaigns that are to be entered together, and where to say what became of them.
pub(crate) struct NewCampaigns {
    campaigns: Vec<Creation>,
    /// What would have become of each when it was tried; empty where it was not.
    foreseen: Entered,
    /// The `ref`s of those whose shares are written before, once it was tried.
    reserved: Vec<Option<i64>>,
    /// The next share to write: the place of its campaign, and its number.
    next: (usize, u32),
    entered: Option<Entered>,
    answer: Sender<Result<Entered, LedgerError>>,
}

impl NewCampaigns {
    pub(crate) fn boxed(
        campaigns: Vec<Creation>,
    ) -> (Box<Self>, Receiver<Result<Entered, LedgerError>>) {
        let (answer, receiver) = channel();
        let campaigns = Self {
            campaigns,
            foreseen: Vec::new(),
            reserved: Vec::new(),
            next: (0, 1),
            entered: None,
            answer,
        };
        (Box::new(campaigns), receiver)
    }

    /// How many shares they have.
    pub(crate) fn shares(&self) -> u64 {
        self.campaigns.iter().map(|it| u64::from(shares(it))).sum()
    }

    /// Whether anybody still waits to hear what became of them.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Whether they have more shares than one transaction should have that claims wait for.
    pub(crate) fn has_many_shares(&self) -> bool {
        self.shares() > u64::from(LOAD_SHARES)
    }

    /// Enters them without their shares, sees what would become of them, and undoes it. Returns whether any of them
    /// would be new.
    pub(crate) fn foresee(
        &mut self,
        conn: &Connection,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let tx = file::begin(conn)?;
        let (mut any_new, mut opens) = (false, Vec::new());
        let (mut next, mut apart) = (preparations::next_ref(&tx)?, Apart::by_savepoints());
        for campaign in &self.campaigns {
            let reserved = (shares(campaign) > 0).then_some(next);
            let foreseen = keys::create((&tx, now), &mut apart, campaign, reserved, &mut opens)?;
            self.foreseen.push(foreseen);
            let before = std::mem::replace(&mut next, preparations::next_ref(&tx)?);
            let is_new = next > before;
            self.reserved.push(reserved.filter(|_| is_new));
            any_new |= is_new;
        }
        tx.rollback()?;
        Ok(any_new)
    }

    /// Reserves the `ref`s under which shares are written.
    pub(crate) fn reserve(&self, conn: &Connection) -> Result<(), StoreError> {
        let reserved = self.reserved.iter().flatten();
        reserved
            .copied()
            .try_for_each(|it| preparations::reserve(conn, it))
    }

    /// Writes up to so many shares. Returns whether all are written.
    pub(crate) fn write(&mut self, conn: &Connection, limit: u32) -> Result<bool, StoreError> {
        let mut left = limit;
        while let Some(campaign) = self.campaigns.get(self.next.0) {
            let (place, number) = self.next;
            let end = shares(campaign) + 1;
            match self.reserved[place].filter(|_| number < end) {
                None => self.next = (place + 1, 1),
                Some(_) if left == 0 => return Ok(false),
                Some(reserved) => {
                    let next = end.min(number.saturating_add(left));
                    preparations::put_shares(conn, reserved, &campaign.setup, number..next)?;
                    left -= next - number;
                    self.next.1 = next;
                }
            }
        }
        Ok(true)
    }

    /// Answers that what was foreseen is so: none of them is new.
    pub(crate) fn answer_as_foreseen(self) {
        drop(self.answer.send(Ok(self.foreseen))); // the caller may have stopped waiting
    }

    /// Answers that they cannot be entered.
    pub(crate) fn fail(self, error: StoreError) {
        drop(self.answer.send(Err(error.into())));
    }
}

impl LedgerJob for NewCampaigns {
    /// Enters them, with those shares that are not written yet. What was foreseen to be refused stays so.
    fn run(&mut self, context: &mut JobContext<'_>) -> Result<(), StoreError> {
        let mut entered = Vec::with_capacity(self.campaigns.len());
        for (place, campaign) in self.campaigns.iter().enumerate() {
            entered.push(match self.foreseen.get(place) {
                Some(Err(refusal)) => Err(refusal.clone()),
                _ => {
                    let reserved = self.reserved.get(place).copied().flatten();
                    let (conn, opens) = ((context.conn, context.now), &mut *context.opens);
                    keys::create(conn, context.apart, campaign, reserved, opens)?
                }
            });
        }
        self.entered = Some(entered);
        Ok(())
    }

    fn entries(&self) -> usize {
        0
    }

    fn answer(self: Box<Self>, committed: Committed<'_>) {
        let result = result_of(committed, self.entered.map(Ok));
        drop(self.answer.send(result)); // the caller may have stopped waiting
    }
}

/// The shares of a campaign; 0 of a sale.
fn shares(campaign: &Creation) -> u32 {
    let packet = campaign.setup.campaign.rules.red_packet();
    packet.map_or(0, |packet| packet.split.count())
}
