//! Admission: limits the users of a sale that a node has in flight to the engine, by leased permits. All other claims
//! wait here in order of arrival, until a permit is free or the gate can answer them. So when a sale sells out, most
//! claims never reach Redis.
//!
//! Permits are leased from Redis by `admit.lua`, in blocks, and only while claims wait. Correctness does not depend on
//! them. A node may always have one user in flight, and a small part of the users that the sale admits. A claim that
//! has waited for long proceeds as if no other node had a block; see `room.rs`. Only after Redis has reported that no
//! units are left, the node pauses briefly. An answer frees the user's permit, with any outcome. A grant consumes a
//! permit of the block; each other answer returns it.
//!
//! **No claim is refused while the sale admits at least as many users as request it.** A claim is refused only under
//! three conditions. It has waited for long; Redis answers; and as many other users as the sale admits wait before it
//! on this node alone. These users must have waited already when Redis reported the remaining units. Blocks of other
//! nodes have no influence.
//!
//! Spread campaigns admit all users, because one shard may be empty while others have units.

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
use self::room::SaleAdmission;
use crate::{
    intake::{admission_permits::AdmissionSignal, batcher::PendingClaim},
    protocol::campaign_meta::CachedCampaign,
};

/// Duration of a block that is not renewed. For this long, users of a dead node count as in flight, as do users whom a
/// node has granted units since. It is shorter than any wait.
pub const BLOCK_LASTS: Duration = Duration::from_millis(500);
/// Delay until a node whose block did not grow requests one again, and interval of checks of waiting claims.
pub(crate) const LEASE_AGAIN: Duration = Duration::from_millis(10);

/// Knowledge of the gate about a claim that waits.
pub(crate) enum FromGate {
    /// Its answer.
    Answer(Outcome),
    /// Its user holds a grant, which Redis replays.
    Holder,
}

/// In-flight and waiting claims of all sales.
pub(crate) struct WaitingRooms {
    pub(crate) signal: Arc<AdmissionSignal>,
    rooms: Mutex<HashMap<CampaignId, SaleAdmission>>,
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    not_admitted: AtomicU64,
    decided: AtomicU64,
}

impl WaitingRooms {
    /// Rooms for `partitions` partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            signal: Arc::new(AdmissionSignal::new(partitions)),
            rooms: Mutex::default(),
            outcomes: std::array::from_fn(|_| AtomicU64::new(0)),
            not_admitted: AtomicU64::new(0),
            decided: AtomicU64::new(0),
        }
    }

    /// Number of waiting claims.
    pub(crate) fn len(&self) -> usize {
        self.signal.waiting()
    }

    /// Number of waiting claims of one partition.
    pub(crate) fn waiting_for(&self, partition: PartitionId) -> usize {
        self.signal.waiting_for(partition)
    }

    /// Adds claims of one sale after the waiting ones. Returns the claims that may proceed at once.
    pub(crate) fn enter(
        &self,
        (meta, home): (&Arc<CachedCampaign>, PartitionId),
        ratio: AdmissionRatio,
        claims: Vec<PendingClaim>,
    ) -> Vec<PendingClaim> {
        let mut rooms = self.rooms.lock();
        let now = Instant::now();
        let new = || SaleAdmission::new((meta, home), ratio, &self.signal, now);
        let room = rooms.entry(meta.id).or_insert_with(new);
        let go = room.enter(claims, now);
        if room.is_waited_in() {
            self.signal.notify();
        }
        go
    }

    /// Counts claims that are sent to Redis.
    pub(crate) fn sent(&self, claims: usize) {
        self.decided.fetch_add(claims as u64, Ordering::Relaxed);
    }

    /// Records the grants of a call, and the units left after it.
    pub(crate) fn granted(&self, campaign: CampaignId, grants: u32, left: u64) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.granted(grants, left, Instant::now());
        }
    }

    /// Makes the node ask Redis at once whether waiting claims may proceed. To be called when units were restocked or a
    /// sale has changed.
    pub(crate) fn reopen(&self, campaign: CampaignId) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.reopen(Instant::now());
            self.signal.notify();
        }
    }

    /// Sales with waiting claims.
    pub(crate) fn waited_for(&self) -> Vec<Arc<CachedCampaign>> {
        let rooms = self.rooms.lock();
        let waited_for = rooms.values().filter(|room| room.is_waited_in());
        waited_for.map(|room| Arc::clone(&room.meta)).collect()
    }

    /// Removes waiting claims from the front as long as the gate knows something about them.
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

    /// Claims that may proceed now, and the size of the block to lease. `Some` counts as a request.
    pub(crate) fn admit(&self, campaign: CampaignId) -> (Vec<PendingClaim>, Option<usize>) {
        let mut rooms = self.rooms.lock();
        let Some(room) = rooms.get_mut(&campaign) else {
            return (Vec::new(), None);
        };
        let now = Instant::now();
        (room.admit(now, usize::MAX), room.ask(now))
    }

    /// Records the reply to a request for a block made at `asked_at`; `None` if Redis did not answer.
    pub(crate) fn leased(&self, campaign: CampaignId, asked_at: Instant, block: Option<Block>) {
        if let Some(room) = self.rooms.lock().get_mut(&campaign) {
            room.leased(asked_at, block, Instant::now());
        }
        self.signal.notify();
    }

    /// Answers claims that have waited too long: since before `late_before_ms` of their sale, or with too many other
    /// users before them. Forgets the sales without claims.
    pub(crate) fn expire(
        &self,
        late_before_ms: impl Fn(&CachedCampaign) -> u64,
        not_decided: impl Fn(&CachedCampaign) -> EngineError,
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

    /// Removes all waiting claims.
    pub(crate) fn empty(&self) -> Vec<PendingClaim> {
        let mut rooms = self.rooms.lock();
        rooms.values_mut().flat_map(SaleAdmission::empty).collect()
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
