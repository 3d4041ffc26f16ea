//! Sequence of faults. It is drawn from the seed only, so that the seed reproduces it.

use std::{fmt, time::Duration};

use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

/// Topology of Redis under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One server, without replicas.
    Standalone,
    /// A primary, two replicas, three Sentinels.
    Sentinel,
    /// Three primaries with one replica each.
    Cluster,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// SIGKILL, then a start.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Stop,
    /// No bytes pass in either direction, without an error.
    Cut,
    /// Requests pass, answers do not.
    HalfCut,
    /// A primary dies for good, and entries that its replicas lack are lost.
    Lose,
    /// The primary is disconnected from Sentinels and replicas, but not from nodes.
    Isolate,
    /// The primary starts again on older data.
    Older,
    /// A primary and its replicas lose all data.
    Empty,
    /// The primary starts again on older data, without free memory or disk space.
    Full,
    /// The ledger is restored from an older dump.
    Restore,
    /// Redis reaches `maxmemory`.
    Memory,
    /// `SCRIPT FLUSH`.
    Scripts,
    /// A slot of a Cluster moves to another primary.
    Slots,
    /// The clocks of all servers and nodes jump.
    Clock,
}

impl Kind {
    pub(crate) const ALL: [Self; 14] = [
        Self::Kill,
        Self::Stop,
        Self::Cut,
        Self::HalfCut,
        Self::Lose,
        Self::Isolate,
        Self::Older,
        Self::Empty,
        Self::Full,
        Self::Restore,
        Self::Memory,
        Self::Scripts,
        Self::Slots,
        Self::Clock,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::HalfCut => "halfcut",
            Self::Lose => "lose",
            Self::Isolate => "isolate",
            Self::Older => "older",
            Self::Empty => "empty",
            Self::Full => "full",
            Self::Restore => "restore",
            Self::Memory => "memory",
            Self::Scripts => "scripts",
            Self::Slots => "slots",
            Self::Clock => "clock",
        }
    }

    /// Parses a comma-separated list of kinds.
    ///
    /// # Errors
    /// The first unknown name.
    pub(crate) fn parse_list(list: &str) -> Result<Vec<Self>, String> {
        let names = list.split(',').map(str::trim);
        names
            .map(|name| {
                let mut all = Self::ALL.into_iter();
                all.find(|kind| kind.name() == name)
                    .ok_or_else(|| format!("there is no fault `{name}`"))
            })
            .collect()
    }
}

/// Target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A serving node.
    Node(usize),
    /// The settling worker.
    Worker,
    /// A primary; in a Cluster, the one with this partition.
    Primary(usize),
    /// A replica of that primary.
    Replica(usize),
    /// All replicas of that primary.
    Replicas(usize),
    /// A Sentinel.
    Sentinel(usize),
    /// All Sentinels.
    Sentinels,
    /// The ledger's database.
    Ledger,
    /// RabbitMQ.
    Rabbit,
    /// The link between a program (two nodes, then the worker) and Redis.
    RedisLink(usize),
    /// The link between a program and the ledger.
    LedgerLink(usize),
    /// The whole installation.
    Everything,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Worker => "worker",
            Self::Primary(_) => "primary",
            Self::Replica(_) => "replica",
            Self::Replicas(_) => "all replicas",
            Self::Sentinel(_) => "sentinel",
            Self::Sentinels => "all sentinels",
            Self::Ledger => "ledger",
            Self::Rabbit => "rabbitmq",
            Self::RedisLink(_) => "program-redis",
            Self::LedgerLink(_) => "program-ledger",
            Self::Everything => "redis",
        }
    }
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    /// Duration.
    pub(crate) hold: Duration,
    /// Parameter of the kind. `lose`: lost entries. `empty`: number of times that Redis is emptied; 0 is once without
    /// load. `full`: 0 for memory, 1 for disk. `clock`: seconds that clocks jump by.
    pub(crate) amount: i64,
    /// Pause before the next fault, under load.
    pub(crate) pause: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            target,
            hold,
            amount,
            ..
        } = self;
        write!(f, "{} {target:?} for {} ms", kind.name(), hold.as_millis())?;
        match kind {
            Kind::Lose => write!(f, ", {amount} entries"),
            Kind::Empty => match amount {
                0 => f.write_str(", without load"),
                times => write!(f, ", {times} times"),
            },
            Kind::Full => f.write_str(match amount {
                0 => ", memory",
                _ => ", disk",
            }),
            Kind::Clock => write!(f, ", {amount} s"),
            _ => Ok(()),
        }
    }
}

/// Possible targets of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) topology: Topology,
    pub(crate) has_rabbit: bool,
    pub(crate) has_clock: bool,
    /// Whether primaries of Redis are neither killed, stopped nor cut off.
    pub(crate) spares_primaries: bool,
}

/// Processes of `qiang`: two nodes and a worker.
pub(crate) const PROGRAMS: usize = 3;
pub(crate) const NODES: usize = 2;
const SENTINELS: usize = 3;
/// Partitions of the installation.
pub(crate) const PARTITIONS: usize = 4;
/// Prefix of the installation's keys.
pub(crate) const PREFIX: &str = "faults";

/// Entries lost by a failover: one or many.
const LOST: [i64; 2] = [1, 500];
/// Number of times that Redis is emptied in a row; 0 is once without load.
const EMPTIED: [i64; 3] = [0, 1, 2];
/// Seconds by which clocks jump.
const STEPS_S: [i64; 4] = [-30, -2, 2, 30];
/// Duration of a fault, in milliseconds.
const HOLD_MS: std::ops::Range<u64> = 100..2_500;
const PAUSE_MS: std::ops::Range<u64> = 100..700;
/// Minimum weight of a kind: a kind with few targets is drawn as often as one with this many.
const CHOICES_MIN: usize = 3;

/// The sequence of faults of a seed.
#[derive(Debug)]
pub(crate) struct Plan {
    random: ChaCha8Rng,
    /// Choices of kind and target.
    choices: Vec<(Kind, Target)>,
}

impl Plan {
    /// Creates a plan with the faults of these kinds that fit the installation.
    pub(crate) fn new(seed: u64, kinds: &[Kind], scope: Scope) -> Self {
        let choices = kinds.iter().flat_map(|kind| {
            let targets = targets(*kind, scope);
            let count = match targets.len() {
                0 => 0,
                count => count.max(CHOICES_MIN),
            };
            let choices = targets.into_iter().map(|target| (*kind, target));
            choices.collect::<Vec<_>>().into_iter().cycle().take(count)
        });
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            choices: choices.collect(),
        }
    }
}

impl Iterator for Plan {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        let random = &mut self.random;
        let (kind, target) = *self.choices.choose(random)?;
        let amount = match kind {
            Kind::Lose => *LOST.choose(random)?,
            Kind::Empty => *EMPTIED.choose(random)?,
            Kind::Full => i64::from(random.random_bool(0.5)),
            Kind::Clock => *STEPS_S.choose(random)?,
            _ => 0,
        };
        Some(Fault {
            kind,
            target,
            amount,
            hold: Duration::from_millis(random.random_range(HOLD_MS)),
            pause: Duration::from_millis(random.random_range(PAUSE_MS)),
        })
    }
}

fn targets(kind: Kind, scope: Scope) -> Vec<Target> {
    let sentinel = scope.topology == Topology::Sentinel;
    let cluster = scope.topology == Topology::Cluster;
    let shards = if cluster { PARTITIONS } else { 1 };
    let with_replicas = match scope.topology {
        Topology::Standalone => 0,
        Topology::Sentinel | Topology::Cluster => shards,
    };
    let mut processes: Vec<Target> = (0..NODES).map(Target::Node).collect();
    processes.extend([Target::Worker, Target::Ledger]);
    let primaries = (0..shards).map(Target::Primary);
    let mortal = (0..shards * usize::from(!scope.spares_primaries)).map(Target::Primary);
    let replicas = (0..with_replicas).map(Target::Replica);
    if scope.has_rabbit {
        processes.push(Target::Rabbit);
    }
    match kind {
        Kind::Kill | Kind::Stop => {
            processes.extend(mortal.chain(replicas));
            if sentinel {
                processes.extend((0..SENTINELS).map(Target::Sentinel));
            }
            if sentinel && kind == Kind::Stop {
                processes.extend([Target::Replicas(0), Target::Sentinels]);
            }
            processes
        }
        Kind::Cut | Kind::HalfCut => {
            processes.extend(mortal.chain(replicas));
            processes.extend((0..PROGRAMS).map(Target::LedgerLink));
            // The nodes of a Cluster announce the same addresses to all programs, so programs have no links of their
            // own.
            if sentinel {
                processes.extend((0..SENTINELS).map(Target::Sentinel));
                processes.extend((0..PROGRAMS).map(Target::RedisLink));
            }
            // No client connects to the worker.
            processes.retain(|target| *target != Target::Worker);
            processes
        }
        // Only a promoted replica lacks entries.
        Kind::Lose => (0..with_replicas).map(Target::Primary).collect(),
        Kind::Older | Kind::Full | Kind::Memory => primaries.collect(),
        // Outside a Cluster, the only primary has all data.
        Kind::Empty if !cluster => vec![Target::Everything],
        Kind::Empty => primaries.chain([Target::Everything]).collect(),
        Kind::Isolate if sentinel => primaries.collect(),
        Kind::Slots if cluster => primaries.collect(),
        Kind::Isolate | Kind::Slots => Vec::new(),
        Kind::Restore => vec![Target::Ledger],
        Kind::Scripts => vec![Target::Everything],
        Kind::Clock if scope.has_clock => vec![Target::Everything],
        Kind::Clock => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope = Scope {
        topology: Topology::Sentinel,
        has_rabbit: true,
        has_clock: true,
        spares_primaries: false,
    };

    #[test]
    fn the_seed_reproduces_the_sequence() {
        let plan =
            |seed, scope| -> Vec<Fault> { Plan::new(seed, &Kind::ALL, scope).take(200).collect() };
        assert_eq!(plan(7, SCOPE), plan(7, SCOPE));
        assert_ne!(plan(7, SCOPE), plan(8, SCOPE));
        let topology = Topology::Cluster;
        let faults = plan(7, Scope { topology, ..SCOPE });
        assert!(faults.iter().any(|fault| fault.kind == Kind::Slots));
        assert!(faults.iter().all(|fault| fault.kind != Kind::Isolate));
    }

    #[test]
    fn one_server_has_no_failovers_and_no_slots() {
        let topology = Topology::Standalone;
        let scope = Scope { topology, ..SCOPE };
        let faults: Vec<Fault> = Plan::new(7, &Kind::ALL, scope).take(400).collect();
        let of_failovers = [Kind::Lose, Kind::Isolate, Kind::Slots];
        for kind in Kind::ALL {
            let comes = faults.iter().any(|fault| fault.kind == kind);
            assert_eq!(comes, !of_failovers.contains(&kind), "{}", kind.name());
        }
        let is_there = |target: Target| match target {
            Target::Primary(partition) => partition == 0,
            Target::Replica(_) | Target::Replicas(_) => false,
            Target::Sentinel(_) | Target::Sentinels | Target::RedisLink(_) => false,
            _ => true,
        };
        assert!(faults.iter().all(|fault| is_there(fault.target)));
    }

    #[test]
    fn every_kind_comes_and_only_the_kinds_that_were_asked_for() {
        for kind in Kind::ALL {
            let topology = match kind {
                Kind::Slots => Topology::Cluster,
                _ => Topology::Sentinel,
            };
            let mut plan = Plan::new(1, &[kind], Scope { topology, ..SCOPE });
            assert_eq!(plan.next().map(|fault| fault.kind), Some(kind));
        }
        let mut without = Plan::new(1, &[Kind::Slots], SCOPE);
        assert_eq!(without.next(), None);
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!(
            Kind::parse_list("kill, cut"),
            Ok(vec![Kind::Kill, Kind::Cut])
        );
        assert!(
            Kind::parse_list("kill,flood")
                .unwrap_err()
                .contains("flood")
        );
    }
}
