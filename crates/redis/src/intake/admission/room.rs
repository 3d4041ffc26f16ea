//! Claims of one sale on this node: in-flight users, waiting claims, and Redis' last replies about permits and units.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{admission::AdmissionRatio, event::PartitionId};

use super::{BLOCK_LASTS, LEASE_AGAIN};
use crate::{
    intake::{
        admission_permits::{Admission, AdmissionSignal, UserPermits, fingerprint},
        batcher::{BATCH_MAX, PendingClaim},
    },
    protocol::campaign_meta::CachedCampaign,
};

/// Wait after which a claim proceeds regardless of other nodes' blocks.
const GOES_AFTER: Duration = Duration::from_secs(1);
/// Wait after which a claim is refused if too many users wait before it.
const TURNED_AWAY_AFTER: Duration = Duration::from_secs(2);
/// Pause of admissions after Redis has reported that no units are left, unless units are restocked. The gate soon knows
/// the holders, and then answers all claims.
const SOLD_OUT_LASTS: Duration = Duration::from_millis(50);
/// Validity of a report of remaining units.
const LEFT_LASTS: Duration = Duration::from_millis(500);
/// Divisor of the admitted users that a node may have in flight without a block. With much stock, no claim waits for a
/// block.
const PART_WITHOUT_BLOCK: usize = 64;
/// Sales with more grants than the gate can load admit all users, because the gate could not answer their waiting
/// claims.
const GRANTS_MAX: u32 = 4_000_000;

/// Reply to a request for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Maximum users in flight.
    pub(super) users: u32,
    /// Units left.
    pub(crate) left: u64,
    grants: u32,
    /// Present ratio of the sale; `None` if it admits all users.
    ratio: Option<AdmissionRatio>,
}

impl Block {
    /// Parses the text of `admit.lua`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            users: words.next()?.parse().ok()?,
            left: words.next()?.parse().ok()?,
            grants: words.next()?.parse().ok()?,
            ratio: AdmissionRatio::from_percent(words.next()?.parse().ok()?).ok()?,
        })
    }
}

/// A claim that waits for a permit.
pub(super) struct WaitingClaim {
    pub(super) pending: PendingClaim,
    /// Start of the wait.
    since: Instant,
}

impl WaitingClaim {
    fn has_waited(&self, long: Duration, now: Instant) -> bool {
        now >= self.since + long
    }
}

/// Remaining units, and the time of Redis' answer.
#[derive(Debug, Clone, Copy)]
struct RemainingUnits {
    units: u64,
    answered_at: Instant,
}

impl RemainingUnits {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.answered_at + LEFT_LASTS
    }
}

/// Claims of one sale.
pub(super) struct SaleAdmission {
    pub(super) meta: Arc<CachedCampaign>,
    home: PartitionId,
    /// Ratio of the last answer about blocks; `None` if the sale admits all users.
    ratio: Option<AdmissionRatio>,
    signal: Arc<AdmissionSignal>,
    places: Arc<UserPermits>,
    /// In order of arrival.
    waiting: VecDeque<WaitingClaim>,
    /// Maximum users in flight, and the end of the block.
    block: u32,
    until: Instant,
    /// As reported by the last answer to a claim.
    left: Option<RemainingUnits>,
    /// As reported by the last answer about blocks, and the time of that request.
    left_when_leased: Option<RemainingUnits>,
    lease_asked_at: Instant,
    /// Last time at which units may have been restocked.
    changed_at: Instant,
    /// Time at which Redis reported that no units are left.
    sold_out_at: Option<Instant>,
    /// Whether a request for a block is in flight.
    is_asking: bool,
    /// Time of the next request.
    again_at: Instant,
}

impl SaleAdmission {
    pub(super) fn new(
        (meta, home): (&Arc<CachedCampaign>, PartitionId),
        ratio: AdmissionRatio,
        signal: &Arc<AdmissionSignal>,
        now: Instant,
    ) -> Self {
        Self {
            meta: Arc::clone(meta),
            home,
            ratio: Some(ratio),
            signal: Arc::clone(signal),
            places: Arc::new(UserPermits::new(Arc::clone(signal))),
            waiting: VecDeque::new(),
            block: 0,
            until: now,
            left: None,
            left_when_leased: None,
            lease_asked_at: now,
            changed_at: now,
            sold_out_at: None,
            is_asking: false,
            again_at: now,
        }
    }

    pub(super) fn is_waited_in(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds claims after the waiting ones. Returns the claims that may proceed at once.
    pub(super) fn enter(&mut self, claims: Vec<PendingClaim>, now: Instant) -> Vec<PendingClaim> {
        self.signal.add(self.home, claims.len());
        let (count, since) = (claims.len(), now);
        let waits = |pending| WaitingClaim { pending, since };
        self.waiting.extend(claims.into_iter().map(waits));
        self.admit(now, count)
    }

    /// Removes the first claim if `goes` returns true.
    pub(super) fn pop(
        &mut self,
        goes: impl FnOnce(&mut WaitingClaim) -> bool,
    ) -> Option<PendingClaim> {
        self.waiting.front_mut().is_some_and(goes).then_some(())?;
        self.signal.sub(self.home, 1);
        self.waiting.pop_front().map(|waiting| waiting.pending)
    }

    /// Removes claims that may proceed, from the front, at most `claims`.
    pub(super) fn admit(&mut self, now: Instant, claims: usize) -> Vec<PendingClaim> {
        let places = Arc::clone(&self.places);
        let most = self.permits_max(now);
        let alone = most.max(self.admitted_alone(now).unwrap_or(0));
        let mut go = Vec::new();
        let may_go = |waiting: &mut WaitingClaim| {
            if waiting.pending.answer.is_abandoned() {
                return true;
            }
            let most = match waiting.has_waited(GOES_AFTER, now) {
                true => alone,
                false => most,
            };
            let place = places.take(&waiting.pending.claim.user, most);
            let goes = place.is_some();
            if let Some(place) = place {
                waiting.pending.admission = Admission::Admitted(place);
            }
            goes
        };
        while go.len() < claims
            && let Some(pending) = self.pop(may_go)
        {
            if matches!(pending.admission, Admission::Admitted(_)) {
                go.push(pending);
            }
        }
        go
    }

    /// Maximum users in flight: at least one, unless Redis has just reported that no units are left.
    fn permits_max(&self, now: Instant) -> usize {
        let is_recent = |at: Instant| now < at + SOLD_OUT_LASTS;
        if self.sold_out_at.is_some_and(is_recent) {
            return 0;
        }
        let block = if now < self.until { self.block } else { 0 };
        let left = self.left.filter(|left| left.is_recent(now));
        let without_block = left.map_or(0, |left| self.admitted(left) / PART_WITHOUT_BLOCK);
        without_block.max(block as usize).max(1)
    }

    /// Users that the sale admits with these remaining units.
    fn admitted(&self, left: RemainingUnits) -> usize {
        (self.ratio).map_or(usize::MAX, |ratio| ratio.users(left.units) as usize)
    }

    /// Maximum users in flight if there were no other node; `None` without a recent report of remaining units.
    fn admitted_alone(&self, now: Instant) -> Option<usize> {
        let left = self.left_when_leased.filter(|left| left.is_recent(now))?;
        Some(match left.units {
            // The gate is late, so Redis answers that no units are left.
            0 => BATCH_MAX,
            _ => self.admitted(left),
        })
    }

    /// Removes claims to refuse. They have waited for long, and so have as many other users before them as the sale
    /// admits. All of these waited when Redis was asked for the remaining units, so there were more users than the sale
    /// admitted then. No claim is refused if units may have been restocked since.
    pub(super) fn turn_away(&mut self, now: Instant) -> Vec<PendingClaim> {
        let Some(most) = self.admitted_alone(now) else {
            return Vec::new();
        };
        if self.lease_asked_at < self.changed_at {
            return Vec::new();
        }
        let has_waited = |it: &WaitingClaim| {
            it.has_waited(TURNED_AWAY_AFTER, now) && it.since < self.lease_asked_at
        };
        let overdue = self.waiting.partition_point(has_waited);
        if overdue <= most {
            return Vec::new();
        }
        let young = self.waiting.split_off(overdue);
        let (mut users, mut away) = (HashSet::new(), Vec::new());
        let mut stay = Vec::new();
        for waiting in std::mem::replace(&mut self.waiting, young) {
            let user = fingerprint(&waiting.pending.claim.user);
            if waiting.pending.answer.is_abandoned() {
                self.signal.sub(self.home, 1);
            } else if users.len() < most || users.contains(&user) {
                users.insert(user);
                stay.push(waiting);
            } else {
                self.signal.sub(self.home, 1);
                away.push(waiting.pending);
            }
        }
        for waiting in stay.into_iter().rev() {
            self.waiting.push_front(waiting);
        }
        away
    }

    /// Size of the block to lease, if one is needed. `Some` counts as a request.
    pub(super) fn ask(&mut self, now: Instant) -> Option<usize> {
        let asks = self.is_waited_in() && !self.is_asking && now >= self.again_at;
        self.is_asking |= asks;
        asks.then(|| self.places.taken() + self.waiting.len())
    }

    /// Records the reply to a request for a block made at `asked_at`; `None` if Redis did not answer.
    pub(super) fn leased(&mut self, asked_at: Instant, block: Option<Block>, now: Instant) {
        self.is_asking = false;
        let is_old = asked_at < self.changed_at;
        self.again_at = if is_old { now } else { now + LEASE_AGAIN };
        let Some(block) = block else { return };
        self.left_when_leased = Some(RemainingUnits {
            units: block.left,
            answered_at: now,
        });
        self.ratio = block.ratio;
        self.lease_asked_at = asked_at;
        self.sold_out_at = (block.left == 0 && !is_old).then_some(now);
        // A late reply is used too, because an additional user in flight does no harm.
        self.until = now + BLOCK_LASTS;
        let keeps_track = block.grants <= GRANTS_MAX;
        self.block = if keeps_track { block.users } else { u32::MAX };
    }

    /// Records the grants of a call, and the units left after it.
    pub(super) fn granted(&mut self, grants: u32, units: u64, now: Instant) {
        self.block = self.block.saturating_sub(grants);
        self.sold_out_at = (units == 0).then_some(now);
        self.left = Some(RemainingUnits {
            units,
            answered_at: now,
        });
    }

    /// Records that units may have been restocked.
    pub(super) fn reopen(&mut self, now: Instant) {
        self.changed_at = now;
        self.again_at = now;
        self.sold_out_at = None;
    }

    /// Removes all waiting claims.
    pub(super) fn empty(&mut self) -> Vec<PendingClaim> {
        self.signal.sub(self.home, self.waiting.len());
        self.waiting.drain(..).map(|it| it.pending).collect()
    }

    /// Whether the room is empty, and its knowledge too old to be useful.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_known = self.left.is_some_and(|left| left.is_recent(now));
        let is_idle = self.waiting.is_empty() && !self.is_asking && self.places.taken() == 0;
        is_idle && now >= self.until && !is_known
    }
}

#[cfg(test)]
mod tests;
