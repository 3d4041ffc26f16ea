//! Admission: of a sale, a node has at most so many users on their way to a decision as its block allows. All others
//! wait here, in the order in which they came, until a place is free or the gate can answer them: when a sale sells
//! out, most of a crowd never reaches Redis.
//!
//! Blocks are leased from Redis by `admit.lua`, many users at a time, and only while somebody waits. Nothing depends on
//! them. A node may always have one user on the way, and a small part of those whom the sale admits. Whoever has waited
//! for long goes as if no other node had a block; see `room.rs`. Only where Redis has said that nothing is left, the
//! node waits for a moment. A user's place is free again as soon as the claim is answered, whatever the answer was. A
//! grant uses a place of the block up; every other answer gives it back.
//!
//! **Nobody is turned away while the sale admits more users than ask.** A claim is turned away only when it has waited
//! for long, Redis answers, and as many other users as the sale admits wait before it on this node alone: users who
//! were waiting already when Redis said how many units are left. What other nodes hold plays no part in it.
//!
//! Spread campaigns admit everybody: a part of one may have nothing left while others have.

#[cfg(all(test, feature = "servers"))]
mod blocks;
mod room;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    admission::AdmissionRatio,
    event::PartitionId,
    id::CampaignId,
    outcome::Outcome,
    ports::{EngineError, GateAnswers},
};

pub(crate) use self::room::Block;
use self::room::Room;
use crate::{
    intake::{admission_permits::Signal, batcher::PendingClaim},
    protocol::campaign_meta::CampaignMeta,
};

/// How long a block lasts that is not renewed: for so long, users of a node that is gone count as on their way, and so
/// do those whom a node has been granted units for since. It is shorter than anybody waits.
pub const BLOCK_LASTS: Duration = Duration::from_millis(500);
/// How soon a node that got nothing more asks for a block again; and how often those who wait are looked at.
pub(crate) const LEASE_AGAIN: Duration = Duration::from_millis(10);

/// What the gate knows about a claim that waits.
pub(crate) enum FromGate {
    /// Its answer.
    Answer(Outcome),
    /// That its user holds a grant: Redis replays it.
    Holder,
}

/// Those who are on their way and those who wait, of all sales.
pub(crate) struct WaitingRooms {
    pub(crate) signal: Arc<Signal>,
    rooms: Mutex<HashMap<CampaignId, Room>>,
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    not_admitted: AtomicU64,
    decided: AtomicU64,
}

impl WaitingRooms {
    /// Of so many partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            signal: Arc::new(Signal::new(partitions)),
            rooms: Mutex::default(),
            outcomes: std::array::from_fn(|_| AtomicU64::new(0)),
            not_admitted: AtomicU64::new(0),
            decided: AtomicU64::new(0),
        }
    }

    /// Claims that wait.
    pub(crate) fn len(&self) -> usize {
        self.signal.waiting()
    }

    /// Those of one partition.
    pub(crate) fn waiting_for(&self, partition: PartitionId) -> usize {
        self.signal.waiting_for(partition)
    }

    /// Takes claims of one sale in, behind those who wait. Returns those who may go at once.
    pub(crate) fn enter(
        &self,
        (meta, home): (&Arc<CampaignMeta>, PartitionId),
        ratio: AdmissionRatio,
        claims: Vec<PendingClaim>,
    ) -> Vec<PendingClaim> {
        let mut rooms = self.rooms.lock();
        let now = Instant::now();
        let new = || Room::new((meta, home), ratio, &self.signal, now);
        let room = rooms.entry(meta.id).or_insert_with(new);
        let go = room.enter(claims, now);
        if room.is_waited_in() {
            self.signal.notify();
        }
        go
    }

    /// So many claims are sent to Redis.
    pub(crate) fn sent(&self, claims: usize) {
        self.decided.fetch_add(claims as u64, Ordering::Relaxed);
    }

    /// A call has granted so many, and so many units are left.
    pub(crate) fn granted(&self, campaign: CampaignId, grants: u32, left: u64) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.granted(grants, left, Instant::now());
        }
    }

    /// Units came back, or something else about a sale has changed: Redis is asked at once whether those who wait may
    /// go.
    pub(crate) fn reopen(&self, campaign: CampaignId) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.reopen(Instant::now());
            self.signal.notify();
        }
    }

    /// The sales that somebody waits for.
    pub(crate) fn waited_for(&self) -> Vec<Arc<CampaignMeta>> {
        let rooms = self.rooms.lock();
        let waited_for = rooms.values().filter(|room| room.is_waited_in());
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
                room.pop(|waiting| {
                    found = gate(&waiting.pending);
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
        let mut rooms = self.rooms.lock();
        let Some(room) = rooms.get_mut(&campaign) else {
            return (Vec::new(), None);
        };
        let now = Instant::now();
        (room.admit(now, usize::MAX), room.ask(now))
    }

    /// What Redis has leased when it was asked at this moment; none where it has not answered.
    pub(crate) fn leased(&self, campaign: CampaignId, asked_at: Instant, block: Option<Block>) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.leased(asked_at, block, Instant::now());
        }
        self.signal.notify();
    }

    /// Answers those who have waited too long: since before `late_before_ms` of their sale, or while too many others
    /// wait before them. Forgets the sales that nobody asks for any more.
    pub(crate) fn expire(
        &self,
        late_before_ms: impl Fn(&CampaignMeta) -> u64,
        not_decided: impl Fn(&CampaignMeta) -> EngineError,
    ) {
        let (mut late, mut away) = (Vec::new(), Vec::new());
        let mut rooms = self.rooms.lock();
        let now = Instant::now();
        rooms.retain(|_, room| !room.is_over(now));
        for room in rooms.values_mut().filter(|room| room.is_waited_in()) {
            let before_ms = late_before_ms(&room.meta);
            while let Some(pending) = room.pop(|waiting| waiting.pending.since_ms < before_ms) {
                late.push((pending, not_decided(&room.meta)));
            }
            away.extend(room.turn_away(now));
        }
        drop(rooms);
        self.not_admitted
            .fetch_add(away.len() as u64, Ordering::Relaxed);
        for (pending, error) in late {
            pending.answer.send(Err(error));
        }
        for pending in away {
            pending.answer.send(Err(EngineError::NotAdmitted));
        }
    }

    /// Everybody who waits.
    pub(crate) fn empty(&self) -> Vec<PendingClaim> {
        let mut rooms = self.rooms.lock();
        rooms.values_mut().flat_map(Room::empty).collect()
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
