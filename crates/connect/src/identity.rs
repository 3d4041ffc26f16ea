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
    /// The server on which the call may make the partition the engine's: [`ANY_SERVER`], none if empty, or the one
    /// with this replication id.
    pub(crate) marks_on: String,
    at: Instant,
}

/// Stands for whatever server answers.
const ANY_SERVER: &str = "1";
/// How long after its last answer the ledger counts as there.
const LEDGER_SILENT_MAX: Duration = Duration::from_secs(2);

/// A mark as calls have found it.
#[derive(Debug)]
struct Seen {
    mark: Mark,
    /// The replication id of the server that answered.
    server: String,
    /// When the first answer came with this mark from this server, one after another.
    first: Instant,
    /// When the last call was sent that was answered so.
    last: Instant,
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
    seen: BTreeMap<PartitionId, Seen>,
    /// Partitions that this process has made the engine's since it took over; none where it did not.
    marked: Option<BTreeSet<PartitionId>>,
    /// Partitions that have lost their mark alone, and the server on which each is marked again.
    lost: BTreeMap<PartitionId, String>,
    /// Why it does not serve a partition that is not of the engine, and what to do.
    advice: String,
    /// When the ledger last answered, if this process looks for that.
    ledger_answered: Option<Instant>,
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
                lost: BTreeMap::new(),
                advice: String::new(),
                ledger_answered: None,
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

    /// Marks partitions again that have lost their data while others of the same Redis have theirs: a call that was
    /// sent after each of them had answered so has found the engine. Returns whether there are any.
    ///
    /// Where all partitions are on one server, that call must have been answered by the same server. An address may
    /// lead to two of them for a while, and a partition that is marked on both would grant twice. `is_sharded` where
    /// partitions are on servers of their own.
    pub fn mark_again(&self, is_sharded: bool) -> bool {
        let mut state = self.state.lock();
        let is_known = |lost: &Seen| {
            let mut own = state.seen.values().filter(|seen| seen.mark == Mark::Own);
            own.any(|own| own.last > lost.first && (is_sharded || own.server == lost.server))
        };
        let lost = state.unmarked().filter(|(_, lost)| is_known(lost));
        let server = |lost: &Seen| match is_sharded {
            true => ANY_SERVER.to_owned(),
            false => lost.server.clone(),
        };
        state.lost = lost.map(|(id, lost)| (id, server(lost))).collect();
        !state.lost.is_empty()
    }

    /// Says why partitions that are not of the engine are not served.
    pub fn advise(&self, advice: &str) {
        advice.clone_into(&mut self.state.lock().advice);
    }

    /// Notes that the ledger took a sign of life, or answered where it is asked for none.
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

    /// Whether a call that was sent this recently has found a partition of the engine.
    pub fn is_seen(&self, recent: Duration) -> bool {
        let state = self.state.lock();
        let mut own = state.seen.values().filter(|seen| seen.mark == Mark::Own);
        own.any(|own| own.last.elapsed() < recent)
    }

    /// Whether a partition was found that is not of the engine.
    pub fn is_missing(&self) -> bool {
        self.state.lock().unmarked().next().is_some()
    }

    /// The other installation whose Redis this is, if that was found.
    pub fn foreign(&self) -> Option<String> {
        let state = self.state.lock();
        state.seen.values().find_map(|seen| match &seen.mark {
            Mark::Foreign(installation) => Some(installation.clone()),
            _ => None,
        })
    }

    /// What a call to a partition states.
    pub(crate) fn claim(&self, partition: PartitionId) -> Claim {
        let state = self.state.lock();
        let marked = state.marked.as_ref();
        let marks_on = match marked.is_some_and(|marked| !marked.contains(&partition)) {
            true => ANY_SERVER.to_owned(),
            false => state.lost.get(&partition).cloned().unwrap_or_default(),
        };
        Claim {
            installation: Arc::clone(&self.installation),
            engine: Arc::clone(&state.engine),
            marks_on,
            at: Instant::now(),
        }
    }

    /// Notes what a call has found on a server; returns why the partition is not served, if it is not the engine's.
    pub(crate) fn note(
        &self,
        partition: PartitionId,
        claim: &Claim,
        mark: Mark,
        server: &str,
    ) -> String {
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
        let before = state.seen.remove(&partition);
        let before = before.filter(|seen| seen.mark == mark && seen.server == server);
        let first = before.map_or_else(Instant::now, |seen| seen.first);
        let seen = Seen {
            mark,
            server: server.to_owned(),
            first,
            last: claim.at,
        };
        state.seen.insert(partition, seen);
        reason
    }
}

impl State {
    fn unmarked(&self) -> impl Iterator<Item = (PartitionId, &Seen)> {
        let seen = self.seen.iter().map(|(partition, seen)| (*partition, seen));
        seen.filter(|(_, seen)| seen.mark != Mark::Own)
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

    fn note(identity: &Identity, partition: PartitionId, mark: Mark, server: &str) {
        // Calls are told apart by when they were sent.
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
        assert_eq!(marks_on(PARTITIONS[0]), "", "it was marked");
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
        assert!(!identity.mark_again(true), "both may be lost");
        note(&identity, PARTITIONS[0], Mark::Own, "a");
        // The lost part is asked much more often than the other one.
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
        // The old one has lost the partition, too; what was seen of it before says nothing of that.
        note(&identity, PARTITIONS[1], none(), "old");
        assert!(!identity.mark_again(false));
        note(&identity, PARTITIONS[0], Mark::Own, "old");
        assert!(identity.mark_again(false));
        assert_eq!(identity.claim(PARTITIONS[1]).marks_on, "old");
        // Once the address leads elsewhere, nothing is marked any more.
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
