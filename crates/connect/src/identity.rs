//! Identity of the installation and of the engine that its ledger belongs to, as this process knows them, and the
//! marks that partitions in Redis carry.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::event::PartitionId;

/// The engine that a partition in Redis belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The ledger's.
    Own,
    /// Another one, or none if empty: Redis came up without its data, or is another Redis.
    Other(String),
    /// One of another installation.
    Foreign(String),
}

/// What a presence call states.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) installation: Arc<str>,
    pub(crate) engine: Arc<str>,
    /// Whether the call may make the partition the engine's.
    pub(crate) marks: bool,
    at: Instant,
}

/// What this process knows of its installation.
#[derive(Debug)]
pub struct Identity {
    installation: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    engine: Arc<str>,
    /// Marks as they were found, and when the call that found each was sent.
    seen: BTreeMap<PartitionId, (Mark, Instant)>,
    /// Partitions that this process has made the engine's since it took over; none where it did not.
    marked: Option<BTreeSet<PartitionId>>,
    /// Partitions that have lost their mark alone, and are marked again.
    lost: BTreeSet<PartitionId>,
    /// Why it does not serve a partition that is not of the engine, and what to do.
    advice: String,
}

impl Identity {
    /// That of an installation whose ledger belongs to this engine.
    #[must_use]
    pub fn new(installation: &str, engine: &str) -> Self {
        Self {
            installation: installation.into(),
            state: Mutex::new(State {
                engine: engine.into(),
                seen: BTreeMap::new(),
                marked: None,
                lost: BTreeSet::new(),
                advice: String::new(),
            }),
        }
    }

    /// The engine.
    pub fn engine(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().engine)
    }

    /// The ledger belongs to another engine now. `is_ours` where this process has brought that about: then it makes
    /// each partition the engine's, once.
    pub fn follow(&self, engine: &str, is_ours: bool) {
        let mut state = self.state.lock();
        state.engine = engine.into();
        state.seen.clear();
        state.lost.clear();
        state.marked = is_ours.then(BTreeSet::new);
    }

    /// Partitions that have lost their mark while others of the same Redis keep it may be marked again.
    pub fn mark_again(&self) {
        let mut state = self.state.lock();
        state.lost = state.unmarked().collect();
    }

    /// Says why partitions that are not of the engine are not served.
    pub fn advise(&self, advice: &str) {
        advice.clone_into(&mut self.state.lock().advice);
    }

    /// Whether a call that was sent this recently has found a partition of the engine.
    pub fn is_seen(&self, recent: Duration) -> bool {
        let state = self.state.lock();
        let mut own = state.seen.values().filter(|(mark, _)| *mark == Mark::Own);
        own.any(|(_, at)| at.elapsed() < recent)
    }

    /// Whether a partition was found that is not of the engine.
    pub fn is_missing(&self) -> bool {
        self.state.lock().unmarked().next().is_some()
    }

    /// Whether a partition of the engine was found after each one that is not: the engine is there, and has lost a
    /// part.
    pub fn has_lost_a_part(&self) -> bool {
        let state = self.state.lock();
        let of = |own: bool| {
            let marks = state.seen.values();
            let marks = marks.filter(move |(mark, _)| (*mark == Mark::Own) == own);
            marks.map(|(_, at)| *at).max()
        };
        matches!((of(true), of(false)), (Some(own), Some(other)) if own > other)
    }

    /// The other installation whose Redis this is, if that was found.
    pub fn foreign(&self) -> Option<String> {
        let state = self.state.lock();
        state.seen.values().find_map(|(mark, _)| match mark {
            Mark::Foreign(installation) => Some(installation.clone()),
            _ => None,
        })
    }

    /// What a call to a partition states.
    pub(crate) fn claim(&self, partition: PartitionId) -> Claim {
        let state = self.state.lock();
        let marked = state.marked.as_ref();
        let marks = marked.is_some_and(|marked| !marked.contains(&partition));
        Claim {
            installation: Arc::clone(&self.installation),
            engine: Arc::clone(&state.engine),
            marks: marks || state.lost.contains(&partition),
            at: Instant::now(),
        }
    }

    /// Notes what a call has found; returns why the partition is not served, if it is not the engine's.
    pub(crate) fn note(&self, partition: PartitionId, claim: &Claim, mark: Mark) -> String {
        let mut state = self.state.lock();
        if *state.engine != *claim.engine {
            // The engine was followed in between: the next call says more.
            return "the ledger has passed to another engine".to_owned();
        }
        if mark == Mark::Own {
            state.lost.remove(&partition);
            if let Some(marked) = &mut state.marked {
                marked.insert(partition);
            }
        }
        let reason = match &mark {
            Mark::Own => String::new(),
            Mark::Foreign(installation) => foreign(installation),
            Mark::Other(_) if state.advice.is_empty() => {
                "this Redis does not carry the ledger's engine".to_owned()
            }
            Mark::Other(_) => state.advice.clone(),
        };
        state.seen.insert(partition, (mark, claim.at));
        reason
    }
}

impl State {
    fn unmarked(&self) -> impl Iterator<Item = PartitionId> {
        let other = |(_, (mark, _)): &(&PartitionId, &(Mark, Instant))| *mark != Mark::Own;
        self.seen
            .iter()
            .filter(other)
            .map(|(partition, _)| *partition)
    }
}

/// Why nothing is done on a Redis of another installation.
pub fn foreign(installation: &str) -> String {
    format!(
        "this Redis belongs to installation {installation}, and the ledger to another: give this installation a \
         `redis.prefix` or a Redis of its own, or correct the ledger"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: [PartitionId; 2] = [PartitionId(0), PartitionId(1)];

    #[test]
    fn partition_is_marked_once_per_takeover() {
        let identity = Identity::new("i", "e");
        assert!(!identity.claim(PARTITIONS[0]).marks);
        identity.follow("f", true);
        let claim = identity.claim(PARTITIONS[0]);
        assert!(claim.marks);
        identity.note(PARTITIONS[0], &claim, Mark::Own);
        assert!(!identity.claim(PARTITIONS[0]).marks, "it was marked");
        assert!(identity.claim(PARTITIONS[1]).marks);
        identity.follow("g", false);
        assert!(!identity.claim(PARTITIONS[1]).marks);
    }

    #[test]
    fn lost_part_is_told_from_a_lost_engine() {
        let identity = Identity::new("i", "e");
        let note = |partition, mark| {
            std::thread::sleep(Duration::from_millis(2));
            let claim = identity.claim(partition);
            identity.note(partition, &claim, mark);
        };
        note(PARTITIONS[0], Mark::Own);
        note(PARTITIONS[1], Mark::Other(String::new()));
        assert!(
            identity.is_missing() && !identity.has_lost_a_part(),
            "both may be lost"
        );
        note(PARTITIONS[0], Mark::Own);
        assert!(identity.has_lost_a_part());
        identity.mark_again();
        assert!(identity.claim(PARTITIONS[1]).marks);
    }

    #[test]
    fn answer_for_an_earlier_engine_says_nothing() {
        let identity = Identity::new("i", "e");
        let claim = identity.claim(PARTITIONS[0]);
        identity.follow("f", false);
        identity.note(PARTITIONS[0], &claim, Mark::Own);
        assert!(!identity.is_seen(Duration::from_secs(1)));
    }
}
