//! A cluster of three primaries with one replica each.

use super::server::in_parallel;
use super::{Options, Reply, Server};
use crate::servers::wait_for;
use qiang_core::hash_tags::{cluster_tags, slot_of};
use std::time::Duration;

const PRIMARIES: usize = 3;
const NODES: usize = 2 * PRIMARIES;
const SLOTS: u16 = 16_384;

/// A node that is silent for this long counts as failing.
const NODE_TIMEOUT_MS: u32 = 1_000;

/// Maximum time for a cluster to form, and for a failover.
const AGREE_MAX: Duration = Duration::from_secs(60);

/// Six servers on loopback. The nodes 0, 1 and 2 are the primaries at the start, the nodes 3, 4 and 5 their replicas.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the nodes, joins them to a cluster, and waits until all serve.
    pub fn start(options: &Options) -> Self {
        let cluster = Self {
            options: options.clone(),
            nodes: Server::start_all(options, NODES, &lines()),
        };
        cluster.join();
        cluster.wait_until_whole();
        cluster
    }

    fn join(&self) {
        in_parallel(self.nodes.iter().enumerate(), |(index, node)| {
            must(
                node,
                &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()],
            );
            if index < PRIMARIES {
                add_first_slots(node, index);
            }
        });
        // Every node meets every other node, because gossip takes seconds.
        for (index, node) in self.nodes.iter().enumerate() {
            self.nodes[..index]
                .iter()
                .for_each(|other| meet(node, other));
        }
        in_parallel(PRIMARIES..NODES, |index| {
            replicate(&self.nodes[index], &self.nodes[index - PRIMARIES]);
        });
    }

    /// Kills the primary at this index, from 0 to 2, and its replica. Both must have their roles of the start.
    pub fn kill_pair(&self, primary: usize) {
        in_parallel([primary, primary + PRIMARIES], |index| {
            self.nodes[index].kill();
        });
    }

    /// Replaces a killed primary and its replica by new, empty nodes that serve the same slots, as an operator does
    /// who has lost both.
    pub fn replace_pair(&mut self, primary: usize) {
        let pair = [primary, primary + PRIMARIES];
        let known = views(&self.nodes[(primary + 1) % PRIMARIES]).expect("a node that answers");
        let fresh = Server::start_all(&self.options, pair.len(), &lines());
        let epoch = known
            .iter()
            .map(|view| view.epoch)
            .max()
            .unwrap_or_default()
            + 1;
        must(
            &fresh[0],
            &["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()],
        );
        add_first_slots(&fresh[0], primary);
        let left = known.iter().filter(|view| !view.healthy);
        let left: Vec<&str> = left.map(|view| view.id.as_str()).collect();
        assert_eq!(left.len(), pair.len(), "the killed nodes count as failed");
        let survivors = (0..NODES).filter(|index| !pair.contains(index));
        for survivor in survivors.map(|index| &self.nodes[index]) {
            for id in &left {
                must(survivor, &["CLUSTER", "FORGET", id]);
            }
            fresh.iter().for_each(|node| meet(survivor, node));
        }
        meet(&fresh[0], &fresh[1]);
        replicate(&fresh[1], &fresh[0]);
        for (index, node) in pair.into_iter().zip(fresh) {
            self.nodes[index] = node;
        }
        self.wait_until_whole();
    }

    /// Waits until the other primaries consider a killed primary and its replica failed.
    pub fn wait_until_pair_failed(&self, primary: usize) {
        let survivors = (0..NODES).filter(|index| index % PRIMARIES != primary);
        in_parallel(survivors.map(|index| &self.nodes[index]), |node| {
            wait_for("the pair to count as failed", AGREE_MAX, || {
                let failed = views(node)?.iter().filter(|view| !view.healthy).count();
                (failed == 2).then_some(())
            });
        });
    }

    /// Waits until every node sees all others healthy and all slots served, and every replica is in sync.
    pub fn wait_until_whole(&self) {
        in_parallel(&self.nodes, |node| {
            wait_for("the cluster to be whole", AGREE_MAX, || {
                let lines = views(node)?;
                let healthy = lines.iter().all(|view| view.healthy);
                let primaries = lines.iter().filter(|view| view.primary).count();
                let served: usize = lines.iter().map(View::slots_count).sum();
                let info = node.call(&["CLUSTER", "INFO"]).ok()?;
                let ok = info.text()?.contains("cluster_state:ok");
                let me = lines.iter().find(|view| view.myself)?;
                (lines.len() == NODES && primaries == PRIMARIES)
                    .then_some(())
                    .filter(|()| ok && healthy && served == usize::from(SLOTS))
                    .filter(|()| match me.primary {
                        true => node.is_acknowledged_by(1),
                        false => node.is_synced_replica(),
                    })
            });
        });
    }

    /// URLs of all nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// The node at this index, from 0.
    pub fn node(&self, index: usize) -> &Server {
        &self.nodes[index]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The node that claims to serve `slot`; of two, the one elected last. Waits while there is none.
    pub fn primary_of_slot(&self, slot: u16) -> &Server {
        self.wait_for_primary(slot, |_| true)
    }

    /// Kills the node that serves `slot`, and returns it for a restart.
    pub fn kill_primary_of_slot(&self, slot: u16) -> &Server {
        let primary = self.primary_of_slot(slot);
        primary.kill();
        primary
    }

    /// Waits until another node than `old` serves `slot`.
    pub fn wait_for_failover(&self, slot: u16, old: &Server) -> &Server {
        self.wait_for_primary(slot, |node| node.addr() != old.addr())
    }

    /// Moves a slot and its keys to another primary, a few keys at a time with pauses, as an operator does under load.
    /// Returns the number of moved keys.
    pub fn move_slot(&self, slot: u16, to: &Server, pause: Duration) -> usize {
        let from = self.primary_of_slot(slot);
        self.begin_move(slot, from, to);
        let moved = self.move_keys(slot, from, to, pause);
        self.end_move(slot, from, to);
        moved
    }

    /// Marks the slot as moving on both primaries. The owner then redirects clients to the target for missing keys.
    pub fn begin_move(&self, slot: u16, from: &Server, to: &Server) {
        let (from_id, to_id) = (
            must(from, &["CLUSTER", "MYID"]),
            must(to, &["CLUSTER", "MYID"]),
        );
        set_slot(to, slot, &["IMPORTING", &from_id]);
        set_slot(from, slot, &["MIGRATING", &to_id]);
    }

    /// Moves all keys that a moving slot has now, and returns their number.
    pub fn move_keys(&self, slot: u16, from: &Server, to: &Server, pause: Duration) -> usize {
        let number = slot.to_string();
        let port = to.addr().port().to_string();
        let mut moved = 0;
        loop {
            let keys = from.call(&["CLUSTER", "GETKEYSINSLOT", &number, "3"]);
            let keys = keys.unwrap_or_else(|error| panic!("read the keys of slot {slot}: {error}"));
            let keys: Vec<&str> = keys.array().iter().filter_map(Reply::text).collect();
            if keys.is_empty() {
                break;
            }
            let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "1000", "KEYS"];
            must(from, &[&migrate[..], &keys].concat());
            moved += keys.len();
            std::thread::sleep(pause);
        }
        moved
    }

    /// Assigns the slot to the primary that has its keys.
    pub fn end_move(&self, slot: u16, from: &Server, to: &Server) {
        let to_id = must(to, &["CLUSTER", "MYID"]);
        // First the new owner, then the old one, then all other primaries.
        set_slot(to, slot, &["NODE", &to_id]);
        set_slot(from, slot, &["NODE", &to_id]);
        for node in &self.nodes {
            let others = node.addr() != to.addr() && node.addr() != from.addr();
            let is_primary = node.info("replication", "role").as_deref() == Some("master");
            if others && is_primary {
                set_slot(node, slot, &["NODE", &to_id]);
            }
        }
    }

    fn wait_for_primary(&self, slot: u16, wanted: impl Fn(&Server) -> bool) -> &Server {
        wait_for(&format!("a primary of slot {slot}"), AGREE_MAX, || {
            let claims = self.nodes.iter().filter_map(|node| {
                let me = View::of_itself(node)?;
                (me.primary && me.serves(slot)).then_some((me.epoch, node))
            });
            let (_, node) = claims.max_by_key(|(epoch, _)| *epoch)?;
            wanted(node).then_some(node)
        })
    }
}

/// A node's view of a node: a line of `CLUSTER NODES`.
#[derive(Debug)]
pub struct View {
    /// The node's id.
    pub id: String,
    myself: bool,
    /// Whether it is a primary.
    pub primary: bool,
    /// The id of its primary; `-` for a primary.
    pub primary_id: String,
    healthy: bool,
    /// Epoch of its election. The view with the highest epoch is right.
    pub epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl View {
    /// A node's view of itself; `None` if it does not answer.
    pub fn of_itself(node: &Server) -> Option<Self> {
        views(node)?.into_iter().find(|view| view.myself)
    }

    /// Parses `id addr flags primary ping pong epoch link slot slot-slot …`. Moving slots are in brackets.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (flags, epoch, link) = (*words.get(2)?, words.get(6)?, *words.get(7)?);
        let flags: Vec<&str> = flags.split(',').collect();
        let sick = ["fail", "fail?", "handshake", "noaddr"];
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            id: words[0].to_owned(),
            myself: flags.contains(&"myself"),
            primary: flags.contains(&"master"),
            primary_id: words[3].to_owned(),
            healthy: link == "connected" && !sick.iter().any(|flag| flags.contains(flag)),
            epoch: epoch.parse().ok()?,
            slots: words[8..].iter().filter_map(range).collect(),
        })
    }

    /// Whether it serves a slot.
    pub fn serves(&self, slot: u16) -> bool {
        let mut ranges = self.slots.iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&slot))
    }

    fn slots_count(&self) -> usize {
        let lengths = self.slots.iter();
        lengths
            .map(|(first, last)| usize::from(last - first) + 1)
            .sum()
    }
}

/// Lines of the nodes' configuration.
fn lines() -> Vec<String> {
    vec![
        "cluster-enabled yes".to_owned(),
        format!("cluster-node-timeout {NODE_TIMEOUT_MS}"),
        "cluster-require-full-coverage no".to_owned(),
        // A replica stays with its primary and may be elected after any time of disconnection.
        "cluster-allow-replica-migration no".to_owned(),
        "cluster-replica-validity-factor 0".to_owned(),
    ]
}

/// Assigns to a node the slots that the primary at this index has at the start.
fn add_first_slots(node: &Server, index: usize) {
    let bound = |i: usize| (usize::from(SLOTS) * i + 1) / PRIMARIES;
    let (first, last) = (bound(index).to_string(), (bound(index + 1) - 1).to_string());
    must(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
}

fn meet(node: &Server, other: &Server) {
    let (port, bus) = (other.addr().port().to_string(), other.bus().to_string());
    must(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
}

fn replicate(replica: &Server, primary: &Server) {
    let id = must(primary, &["CLUSTER", "MYID"]);
    wait_for("a replica to know its primary", AGREE_MAX, || {
        replica.call(&["CLUSTER", "REPLICATE", &id]).ok()
    });
}

/// A node's view of all nodes; `None` if it does not answer.
fn views(node: &Server) -> Option<Vec<View>> {
    let reply = node.call(&["CLUSTER", "NODES"]).ok()?;
    reply.text()?.lines().map(View::parse).collect()
}

fn set_slot(node: &Server, slot: u16, words: &[&str]) {
    let number = slot.to_string();
    must(node, &[&["CLUSTER", "SETSLOT", &number], words].concat());
}

fn must(node: &Server, words: &[&str]) -> String {
    match node.call(words) {
        Ok(reply) => reply.text().unwrap_or_default().to_owned(),
        Err(error) => panic!("{}: {error}", words.join(" ")),
    }
}

/// Slot of a partition's keys, in an installation on a Cluster with this many partitions.
#[must_use]
pub fn slot_of_partition(partition: u16, partitions: u16) -> u16 {
    slot_of(&cluster_tags(partitions)[usize::from(partition)])
}

/// Key of a partition, in an installation on a Cluster with this many partitions.
#[must_use]
pub fn key_of_partition(prefix: &str, partition: u16, partitions: u16, rest: &str) -> String {
    let tag = &cluster_tags(partitions)[usize::from(partition)];
    format!("{prefix}:{{{tag}}}:{rest}")
}
