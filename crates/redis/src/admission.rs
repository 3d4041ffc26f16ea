//! Admission: of a sale, a node has at most so many users on their way to a decision as its block allows. All others
//! wait here, in the order in which they came, until a place is free or the gate can answer them: when a sale sells
//! out, most of a crowd never reaches Redis.
//!
//! Blocks are leased from Redis by `admit.lua`, many users at a time, and only while somebody waits. Nothing depends on
//! them: without a block, or with one that ran out, a node still has one user at a time on the way, so that no unit is
//! left because nobody is let in. Only where Redis has said that nothing is left, the node waits for a moment. A user's
//! place is free again as soon as the claim is answered, whatever the answer was. A grant uses a place of the block up;
//! every other answer gives it back.
//!
//! Spread campaigns admit everybody: a part of one may have nothing left while others have.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    id::CampaignId,
    outcome::Outcome,
    ports::{EngineError, GateAnswers},
};

use crate::{
    batcher::PendingClaim,
    meta::CampaignMeta,
    places::{Admission, Places, Signal},
};

/// How long a block lasts that is not renewed: for so long, users of a node that is gone count as on their way, and so
/// do those whom a node has been granted units for since. It is shorter than anybody waits.
pub const BLOCK_LASTS: Duration = Duration::from_millis(500);
/// How soon a node that got nothing more asks for a block again; and how often those who wait are looked at.
pub(crate) const LEASE_AGAIN: Duration = Duration::from_millis(10);
/// How long a claim waits for a place where Redis answers and there is none, in milliseconds.
const WAIT_MAX_MS: u64 = 2_000;
/// Nobody is let in for so long after Redis has said that nothing is left, unless units come back: the gate is about to
/// know who holds a grant, and then answers everybody.
const SOLD_OUT_LASTS: Duration = Duration::from_millis(50);
/// An answer about blocks that is not older says that Redis answers.
const LEASE_ANSWER_FRESH: Duration = Duration::from_millis(500);
/// Sales with more grants than the gate keeps track of admit everybody: it could not answer those who wait.
const GRANTS_MAX: u32 = 4_000_000;

/// What the gate knows about a claim that waits.
pub(crate) enum FromGate {
    /// Its answer.
    Answer(Outcome),
    /// That its user holds a grant: Redis replays it.
    Holder,
}

/// What Redis has leased, and what it has said beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Users who may be on their way.
    users: u32,
    /// Units that are left.
    pub(crate) left: u32,
    grants: u32,
}

impl Block {
    /// From the text of `admit.lua`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Self {
            users: next()?,
            left: next()?,
            grants: next()?,
        })
    }
}

/// Those who are on their way and those who wait, of all sales.
#[derive(Default)]
pub(crate) struct WaitingRooms {
    pub(crate) signal: Arc<Signal>,
    rooms: Mutex<HashMap<CampaignId, Room>>,
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    not_admitted: AtomicU64,
    decided: AtomicU64,
}

/// Those of one sale.
struct Room {
    meta: Arc<CampaignMeta>,
    places: Arc<Places>,
    waiting: VecDeque<PendingClaim>,
    /// Users who may be on their way, and until when.
    block: u32,
    until: Instant,
    /// When Redis has said that nothing is left.
    sold_out_at: Option<Instant>,
    /// Redis is being asked for a block.
    is_asking: bool,
    /// When to ask next.
    again_at: Instant,
    answered_at: Option<Instant>,
}

impl Room {
    fn new(meta: &Arc<CampaignMeta>, signal: &Arc<Signal>, now: Instant) -> Self {
        Self {
            meta: Arc::clone(meta),
            places: Arc::new(Places::new(Arc::clone(signal))),
            waiting: VecDeque::new(),
            block: 0,
            until: now,
            sold_out_at: None,
            is_asking: false,
            again_at: now,
            answered_at: None,
        }
    }

    /// How many users may be on their way: one in any case, unless Redis has just said that nothing is left.
    fn places_max(&self, now: Instant) -> usize {
        let is_recent = |at: Instant| now < at + SOLD_OUT_LASTS;
        if self.sold_out_at.is_some_and(is_recent) {
            return 0;
        }
        let block = if now < self.until { self.block } else { 0 };
        block.max(1) as usize
    }

    /// Takes the first one out whom this is true of.
    fn pop(
        &mut self,
        signal: &Signal,
        goes: impl FnOnce(&mut PendingClaim) -> bool,
    ) -> Option<PendingClaim> {
        self.waiting.front_mut().is_some_and(goes).then_some(())?;
        signal.waiting.fetch_sub(1, Ordering::AcqRel);
        self.waiting.pop_front()
    }

    /// Takes those who may go, from the front.
    fn admit(&mut self, signal: &Signal, now: Instant, most: usize) -> Vec<PendingClaim> {
        let (places, places_max) = (Arc::clone(&self.places), self.places_max(now));
        let mut go = Vec::new();
        let may_go = |pending: &mut PendingClaim| {
            if pending.answer.is_abandoned() {
                return true;
            }
            let place = places.take(&pending.claim.user, places_max);
            let goes = place.is_some();
            if let Some(place) = place {
                pending.admission = Admission::Admitted(place);
            }
            goes
        };
        while go.len() < most
            && let Some(pending) = self.pop(signal, may_go)
        {
            if matches!(pending.admission, Admission::Admitted(_)) {
                go.push(pending);
            }
        }
        go
    }

    fn is_over(&self, now: Instant) -> bool {
        self.waiting.is_empty() && !self.is_asking && now >= self.until && self.places.taken() == 0
    }
}

impl WaitingRooms {
    /// Claims that wait.
    pub(crate) fn len(&self) -> usize {
        self.signal.waiting.load(Ordering::Acquire)
    }

    /// Takes claims of one sale in, behind those who wait. Returns those who may go at once.
    pub(crate) fn enter(
        &self,
        meta: &Arc<CampaignMeta>,
        claims: Vec<PendingClaim>,
    ) -> Vec<PendingClaim> {
        let (now, count) = (Instant::now(), claims.len());
        let mut rooms = self.rooms.lock();
        let new = || Room::new(meta, &self.signal, now);
        let room = rooms.entry(meta.id).or_insert_with(new);
        self.signal.waiting.fetch_add(count, Ordering::AcqRel);
        room.waiting.extend(claims);
        let go = room.admit(&self.signal, now, count);
        if !room.waiting.is_empty() {
            self.signal.notify();
        }
        go
    }

    /// So many claims are sent to Redis.
    pub(crate) fn sent(&self, claims: usize) {
        self.decided.fetch_add(claims as u64, Ordering::Relaxed);
    }

    /// A call has granted so many, and so many units are left.
    pub(crate) fn granted(&self, campaign: CampaignId, grants: u32, left: u32) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.block = room.block.saturating_sub(grants);
            room.sold_out_at = (left == 0).then(Instant::now);
        }
    }

    /// Units came back, or something else about a sale has changed: Redis is asked at once whether those who wait may
    /// go.
    pub(crate) fn reopen(&self, campaign: CampaignId) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.again_at = Instant::now();
            room.sold_out_at = None;
            self.signal.notify();
        }
    }

    /// The sales that somebody waits for.
    pub(crate) fn waited_for(&self) -> Vec<Arc<CampaignMeta>> {
        let now = Instant::now();
        let mut rooms = self.rooms.lock();
        rooms.retain(|_, room| !room.is_over(now));
        let waited_for = rooms.values().filter(|room| !room.waiting.is_empty());
        waited_for.map(|room| Arc::clone(&room.meta)).collect()
    }

    /// Those from the front about whom the gate knows something; the first about whom it does not ends it.
    pub(crate) fn answer(
        &self,
        campaign: CampaignId,
        gate: impl Fn(&PendingClaim) -> Option<FromGate>,
    ) -> Vec<(PendingClaim, FromGate)> {
        let mut rooms = self.rooms.lock();
        let mut answered = Vec::new();
        if let Some(room) = rooms.get_mut(&campaign) {
            let mut found = None;
            let mut next = || {
                room.pop(&self.signal, |pending| {
                    found = gate(pending);
                    found.is_some()
                })
                .zip(found.take())
            };
            while let Some(pair) = next() {
                answered.push(pair);
            }
        }
        for (_, found) in &answered {
            if let FromGate::Answer(outcome) = found {
                self.outcomes[outcome.precedence()].fetch_add(1, Ordering::Relaxed);
            }
        }
        answered
    }

    /// Those who may go now; and for how many users a block is to be leased, if it is: then it counts as asked for.
    pub(crate) fn admit(&self, campaign: CampaignId) -> (Vec<PendingClaim>, Option<usize>) {
        let now = Instant::now();
        let mut rooms = self.rooms.lock();
        let Some(room) = rooms.get_mut(&campaign) else {
            return (Vec::new(), None);
        };
        let go = room.admit(&self.signal, now, usize::MAX);
        let asks = !room.waiting.is_empty() && !room.is_asking && now >= room.again_at;
        room.is_asking |= asks;
        let wanted = room.places.taken() + room.waiting.len();
        (go, asks.then_some(wanted))
    }

    /// What Redis has leased when it was asked at this moment; none where it has not answered.
    pub(crate) fn leased(&self, campaign: CampaignId, asked_at: Instant, block: Option<Block>) {
        let now = Instant::now();
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.is_asking = false;
            room.again_at = now + LEASE_AGAIN;
            if let Some(block) = block {
                room.answered_at = Some(now);
                room.sold_out_at = (block.left == 0).then_some(now);
                room.until = asked_at + BLOCK_LASTS;
                let keeps_track = block.grants <= GRANTS_MAX;
                room.block = if keeps_track { block.users } else { u32::MAX };
            }
        }
        self.signal.notify();
    }

    /// Answers those who have waited too long: since before `late_before_ms` of their sale, or for longer than two seconds
    /// although Redis answers.
    pub(crate) fn expire(
        &self,
        now_ms: u64,
        late_before_ms: impl Fn(&CampaignMeta) -> u64,
        not_decided: impl Fn(&CampaignMeta) -> EngineError,
    ) {
        let mut late = Vec::new();
        for room in self.rooms.lock().values_mut() {
            let answers = |at: Instant| at.elapsed() < LEASE_ANSWER_FRESH;
            let before_ms = late_before_ms(&room.meta);
            let turned_away_ms = match room.answered_at.is_some_and(answers) {
                true => now_ms.saturating_sub(WAIT_MAX_MS),
                false => 0,
            };
            let is_late =
                |pending: &mut PendingClaim| pending.since_ms < before_ms.max(turned_away_ms);
            while let Some(pending) = room.pop(&self.signal, is_late) {
                let error = match pending.since_ms < before_ms {
                    true => not_decided(&room.meta),
                    false => EngineError::NotAdmitted,
                };
                late.push((pending, error));
            }
        }
        for (pending, error) in late {
            if error == EngineError::NotAdmitted {
                self.not_admitted.fetch_add(1, Ordering::Relaxed);
            }
            pending.answer.send(Err(error));
        }
    }

    /// Everybody who waits.
    pub(crate) fn empty(&self) -> Vec<PendingClaim> {
        let mut rooms = self.rooms.lock();
        let all: Vec<_> = rooms
            .values_mut()
            .flat_map(|room| room.waiting.drain(..))
            .collect();
        self.signal.waiting.fetch_sub(all.len(), Ordering::AcqRel);
        all
    }

    pub(crate) fn answers(&self) -> GateAnswers {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GateAnswers {
            outcomes: self.outcomes.each_ref().map(load),
            not_admitted: load(&self.not_admitted),
            decided: load(&self.decided),
        }
    }
}
