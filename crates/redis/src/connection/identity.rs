//! Identity of an installation and its engine, as this process knows them, and the marks of partitions in Redis.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::event::PartitionId;

/// The engine that a partition in Redis belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The engine of the ledger.
    Own,
    /// Another engine; empty if the partition has no mark. Redis came up without its data, or is another Redis.
    Other(String),
    /// An engine of another installation, named here.
    Foreign(String),
}

/// Identity that a presence call states.
#[derive(Debug)]
pub(crate) struct IdentityClaim {
    pub(crate) installation: Arc<str>,
    pub(crate) engine: Arc<str>,
    /// Server on which the call may mark the partition as the engine's: [`ANY_SERVER`], no server if empty, or the one
    /// with this replication id.
    pub(crate) marks_on: String,
    /// Whether the engine is new, so that the call may create a partition.
    pub(crate) may_create: bool,
    at: Instant,
}

/// Stands for any server.
const ANY_SERVER: &str = "1";
/// Longest time since its last answer for which the ledger counts as reachable.
const LEDGER_SILENT_MAX: Duration = Duration::from_secs(2);

/// Mark that calls found on a partition.
#[derive(Debug)]
struct SeenMark {
    mark: Mark,
    /// The replication id of the server that answered.
    server: String,
    /// When the first of an unbroken series of answers came with this mark from this server.
    first: Instant,
    /// When the last call with this answer was sent.
    last: Instant,
}

/// This process's view of its installation.
#[derive(Debug)]
pub struct Identity {
    installation: Arc<str>,
    state: Mutex<IdentityState>,
}

#[derive(Debug)]
struct IdentityState {
    engine: Arc<str>,
    seen: BTreeMap<PartitionId, SeenMark>,
    /// Partitions that this process has marked since it took over; `None` if it did not take over.
    marked: Option<BTreeSet<PartitionId>>,
    /// Whether no process has served the engine before.
    is_new: bool,
    /// Partitions that lost their mark, while others did not, and the server on which each is marked again.
    lost: BTreeMap<PartitionId, String>,
    /// Reason why partitions without the engine's mark are not served, and the remedy.
    advice: String,
    /// When the ledger last answered; `None` if this process does not watch the ledger.
    ledger_answered: Option<Instant>,
}

impl Identity {
    /// Identity of an installation whose ledger belongs to this engine.
    #[must_use]
    pub fn new(installation: &str, engine: &str) -> Self {
        Self {
            installation: installation.into(),
            state: Mutex::new(IdentityState {
                engine: engine.into(),
                seen: BTreeMap::new(),
                marked: None,
                is_new: false,
                lost: BTreeMap::new(),
                advice: String::new(),
                ledger_answered: None,
            }),
        }
    }

    /// The engine that the ledger belongs to.
    pub fn engine(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().engine)
    }

    /// Switches to another engine, because the ledger belongs to it now. If this process caused the switch (`is_ours`),
    /// it marks each partition once.
    pub fn follow(&self, engine: &str, is_ours: bool) {
        let mut state = self.state.lock();
        state.engine = engine.into();
        state.seen.clear();
        state.lost.clear();
        state.marked = is_ours.then(BTreeSet::new);
        state.is_new = false;
    }

    /// Allows partitions to be created, because no process has served the engine before.
    pub fn create(&self) {
        self.state.lock().is_new = true;
    }

    /// Allows partitions that lost their data to be marked again, if other partitions of the same Redis have theirs. As
    /// proof, a call sent after the lost partition answered must have found the engine. Returns whether there are any.
    ///
    /// If all partitions are on one server, the same server must have answered that call. An address may lead to two
    /// servers for a while, and a partition that is marked on both would grant twice. `is_sharded` if partitions are on
    /// several servers.
    pub fn mark_again(&self, is_sharded: bool) -> bool {
        let mut state = self.state.lock();
        let is_known = |lost: &SeenMark| {
            let mut own = state.seen.values().filter(|seen| seen.mark == Mark::Own);
            own.any(|own| own.last > lost.first && (is_sharded || own.server == lost.server))
        };
        let lost = state.unmarked().filter(|(_, lost)| is_known(lost));
        let server = |lost: &SeenMark| match is_sharded {
            true => ANY_SERVER.to_owned(),
            false => lost.server.clone(),
        };
        state.lost = lost.map(|(id, lost)| (id, server(lost))).collect();
        !state.lost.is_empty()
    }

    /// Sets the reason that [`note`](Self::note) returns for partitions without the engine's mark.
    pub fn advise(&self, advice: &str) {
        advice.clone_into(&mut self.state.lock().advice);
    }

    /// Records that the ledger accepted a heartbeat, or answered if it needs none.
    pub fn note_ledger(&self) {
        self.state.lock().ledger_answered = Some(Instant::now());
    }

    /// Whether payments can be recorded: the ledger answered within the last two seconds, or this process does not
    /// watch it.
    #[must_use]
    pub fn has_ledger(&self) -> bool {
        let answered = self.state.lock().ledger_answered;
        answered.is_none_or(|at| at.elapsed() < LEDGER_SILENT_MAX)
    }

    /// Whether a call that was sent within this time found a partition of the engine.
    pub fn is_seen(&self, recent: Duration) -> bool {
        let state = self.state.lock();
        let mut own = state.seen.values().filter(|seen| seen.mark == Mark::Own);
        own.any(|own| own.last.elapsed() < recent)
    }

    /// Whether a partition without the engine's mark was found.
    pub fn is_missing(&self) -> bool {
        self.state.lock().unmarked().next().is_some()
    }

    /// The other installation that this Redis belongs to, if one was found.
    pub fn foreign(&self) -> Option<String> {
        let state = self.state.lock();
        state.seen.values().find_map(|seen| match &seen.mark {
            Mark::Foreign(installation) => Some(installation.clone()),
            _ => None,
        })
    }

    /// Identity that a call to a partition states.
    pub(crate) fn claim(&self, partition: PartitionId) -> IdentityClaim {
        let state = self.state.lock();
        let marked = state.marked.as_ref();
        let marks_on = match marked.is_some_and(|marked| !marked.contains(&partition)) {
            true => ANY_SERVER.to_owned(),
            false => state.lost.get(&partition).cloned().unwrap_or_default(),
        };
        IdentityClaim {
            installation: Arc::clone(&self.installation),
            engine: Arc::clone(&state.engine),
            marks_on,
            may_create: state.is_new,
            at: Instant::now(),
        }
    }

    /// Records the mark that a call found on a server. Returns why the partition is not served; empty if it is the
    /// engine's.
    pub(crate) fn note(
        &self,
        partition: PartitionId,
        claim: &IdentityClaim,
        mark: Mark,
        server: &str,
    ) -> String {
        let mut state = self.state.lock();
        if *state.engine != *claim.engine {
            // The engine changed after the call was sent. The next call finds out more.
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
                "this Redis is not marked as the ledger's engine".to_owned()
            }
            Mark::Other(_) => state.advice.clone(),
        };
        let before = state.seen.remove(&partition);
        let before = before.filter(|seen| seen.mark == mark && seen.server == server);
        let first = before.map_or_else(Instant::now, |seen| seen.first);
        let seen = SeenMark {
            mark,
            server: server.to_owned(),
            first,
            last: claim.at,
        };
        state.seen.insert(partition, seen);
        reason
    }
}

impl IdentityState {
    fn unmarked(&self) -> impl Iterator<Item = (PartitionId, &SeenMark)> {
        let seen = self.seen.iter().map(|(partition, seen)| (*partition, seen));
        seen.filter(|(_, seen)| seen.mark != Mark::Own)
    }
}

/// Reason why this process leaves a Redis of another installation alone.
pub fn foreign(installation: &str) -> String {
    format!(
        "this Redis belongs to installation {installation}, but the ledger belongs to another one: configure a \
        separate `redis.prefix` or Redis for this installation, or correct the ledger"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: [PartitionId; 2] = [PartitionId(0), PartitionId(1)];

    fn note(identity: &Identity, partition: PartitionId, mark: Mark, server: &str) {
        // Calls are distinguished by the time at which they were sent.
        std::thread::sleep(Duration::from_millis(1));
        let claim = identity.claim(partition);
        identity.note(partition, &claim, mark, server);
    }

    fn none() -> Mark {
        Mark::Other(String::new())
    }

    #[test]
    fn partition_is_marked_once_per_takeover() {
        let identity = Identity::new("i", "e");
        let marks_on = |partition| identity.claim(partition).marks_on;
        assert_eq!(marks_on(PARTITIONS[0]), "");
        identity.follow("f", true);
        assert_eq!(marks_on(PARTITIONS[0]), ANY_SERVER);
        note(&identity, PARTITIONS[0], Mark::Own, "s");
        assert_eq!(marks_on(PARTITIONS[0]), "", "the partition was marked");
        assert_eq!(marks_on(PARTITIONS[1]), ANY_SERVER);
        identity.follow("g", false);
        assert_eq!(marks_on(PARTITIONS[1]), "");
    }

    #[test]
    fn lost_part_is_told_from_a_lost_engine() {
        let identity = Identity::new("i", "e");
        note(&identity, PARTITIONS[0], Mark::Own, "a");
        note(&identity, PARTITIONS[1], none(), "b");
        assert!(identity.is_missing());
        assert!(!identity.mark_again(true), "both partitions may be lost");
        note(&identity, PARTITIONS[0], Mark::Own, "a");
        // The lost partition is asked much more often than the other one.
        note(&identity, PARTITIONS[1], none(), "b");
        assert!(identity.mark_again(true));
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, ANY_SERVER);
        note(&identity, PARTITIONS[1], Mark::Own, "b");
        assert!(!identity.mark_again(true) && !identity.is_missing());
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, "");
    }

    #[test]
    fn another_server_proves_nothing_where_there_is_one() {
        let identity = Identity::new("i", "e");
        note(&identity, PARTITIONS[1], none(), "new");
        note(&identity, PARTITIONS[0], Mark::Own, "old");
        assert!(!identity.mark_again(false));
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, "");
        // The old server has lost the partition, too. Earlier answers about it prove nothing.
        note(&identity, PARTITIONS[1], none(), "old");
        assert!(!identity.mark_again(false));
        note(&identity, PARTITIONS[0], Mark::Own, "old");
        assert!(identity.mark_again(false));
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, "old");
        // Once the address leads elsewhere, no partition is marked.
        note(&identity, PARTITIONS[1], none(), "new");
        assert!(!identity.mark_again(false));
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, "");
    }

    #[test]
    fn answer_for_an_earlier_engine_says_nothing() {
        let identity = Identity::new("i", "e");
        let claim = identity.claim(PARTITIONS[0]);
        identity.follow("f", false);
        identity.note(PARTITIONS[0], &claim, Mark::Own, "s");
        assert!(!identity.is_seen(Duration::from_secs(1)));
    }
}
