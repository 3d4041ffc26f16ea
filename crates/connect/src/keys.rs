//! Every key in Redis, in one place.
//!
//! A partition's keys share the hash tag `{pNN}`, so that Redis Cluster keeps them on one node and a script may touch
//! them together. On a Cluster all tags but the first have a suffix, `{pNN-N}`, which puts equal numbers of partitions
//! on each primary: see [`hash_tags`](qiang_core::hash_tags). `P` is the installation's prefix, `qiang` unless
//! configured:
//!
//! - `P:{pNN}:partition`, hash: `count` of partitions, `epoch` of this state, `seq` of the last log entry, `list`
//!   where records also go into the queue. Of the term: its number `term`, the replication id `server` of its primary,
//!   the entry `began` after which it began, `terms` with number, beginning and server of the last ones. `open` is the
//!   term as calls state it, while they are carried out; until then `since` when nodes have been reporting, and
//!   `alive_from`, the sighting from which on a node is waited for. `halted` is the reason while nothing is granted,
//!   `lost_from` and `lost_to` are the entries that were lost. `past` is the epochs that this one continues, each with
//!   its last entry. Of campaigns that have left: no entry behind `left` is about any of them, and none was created
//!   after `left_created`, in milliseconds. The end of a halt raises both to what there was by then. `enrolled` is 1
//!   once those that an earlier release has closed are in `closed`. `up` is when a node said last that it serves the
//!   partition, in milliseconds; `installation` and `engine` are those that the ledger names. `downs` is from when to
//!   when none did, the 64 newest such times, oldest first. While it is repaired, `repairer` is the process that does
//!   so until `repair_until`; `repair_since` is the loss and when it was found, and `repair_unnamed` what the first
//!   attempt found, from before it moves the log or the ledger. `call:NODE:CONNECTION` is the number of the
//!   connection's last call that changed something, and when that was, so that a call that is sent again is not carried
//!   out again; it goes an hour after the node has left, or is forgotten. `damaged:ID` is of a campaign whose keys do
//!   not belong together: `?`, or the last entry that may be about it once its keys are gone, see `damage.lua`.
//!   `recalled` is what campaigns take beyond `maxmemory` that were brought back since `recalled_since`, in bytes.
//! - `P:{pNN}:nodes`, hash: node → milliseconds of its last sighting, the term in which it has reported, the last entry
//!   it has observed; and when it was found not to have been seen for an hour. An hour after that it is forgotten.
//! - `P:{pNN}:log`, stream: the log. A record holds the entries of one step; its id is the sequence number of the last.
//! - `P:{pNN}:released`, list: up to where the log was settled when, as far as it still keeps that: see
//!   `transport/trim_log.lua`.
//! - `P:{pNN}:queue`, list: copies of the log's records for the transport `list`, oldest first: the last entry's
//!   sequence number, campaign, milliseconds, kind and the partition's epoch on one line, then what the record holds.
//! - `P:{pNN}:doing`, list: those that a worker has taken and not acknowledged.
//! - `P:{pNN}:dead`, list: the last ones that could not be read.
//! - `P:{pNN}:lease`, string: which worker settles the partition; it expires unless that worker renews it.
//! - `P:{pNN}:answers`, hash: while the partition is halted, entries past the end of the log that nodes have answered.
//!   Node and number of a chunk → entries as lines of text; node → the loss for which it has put its own there, the
//!   number of the attempt, and, once all are there, from which entry on. An earlier release has the list
//!   `P:{pNN}:kept` and the hash `P:{pNN}:offers` for that.
//! - `P:{pNN}:repairs`, list: what repairs have done, the last thousand.
//! - `P:{pNN}:reconciler`, string: which process reconciles the partition with the ledger; it expires unless that
//!   process renews it.
//! - `P:{pNN}:waiting`, hash: campaign → how many wait in its line. `P:{pNN}:waiting_all`, string: the sum of these; it
//!   expires after a minute and is counted again. `P:{pNN}:decider`, string: which process decides
//!   these; it expires unless that process renews it.
//! - `P:{pNN}:c:ID:line`, sorted set: users who wait, by the number of their place; `P:{pNN}:c:ID:places`, hash: user →
//!   the place as text; `P:{pNN}:c:ID:entered`, string: the number of the last place, for as long as there is the
//!   campaign; `P:{pNN}:c:ID:place:USER`, string: the number of the user's last place and what became of it, until that
//!   is forgotten.
//! - `P:{pNN}:agenda`, sorted set: campaigns by the milliseconds at which a tick has something to do for them.
//! - `P:{pNN}:closed`, sorted set: campaigns that are closed, by the milliseconds from which on they are kept a while.
//! - `P:{pNN}:retirer`, string: which process takes them out; it expires unless that process renews it.
//! - `P:{pNN}:call:NODE:CONNECTION`, string: the reply to the connection's last call that changed something, for 60 s.
//! - `P:{pNN}:mark:NODE:CONNECTION`, string: written before a `WAIT`, which only waits for what its own connection
//!   wrote.
//! - `P:{pNN}:c:ID`, hash: a campaign's rules and numbers, or those of the part that this partition has.
//! - `P:{pNN}:c:ID:shares`, list: a packet's shares to come: six digits of number in base 36, then the amount.
//!   Fields `withheld`, `withheld_minor` and `withheld_shares` of the campaign's hash are what a repair has taken out;
//!   `repaired` is the epoch of the last repair that wrote the numbers. `stock` is that of a spread sale, in its first
//!   part. `opens` is the start of the window if it was changed, `starts` what grants are dated from; `terms` is the
//!   revision of window, limit and price, and `behind` is 1 in the first part while others may have earlier ones.
//!   `touched` is the last entry about it, once it is closed. `buyers`, `paid`, `keyed` and `moving` are how many
//!   fields `users`, `payments` and `keys` of a sale, and `transfers`, have: see `whole.lua`.
//! - `P:{pNN}:c:ID:sums`, hash: the sums of the last 1000, 2000, … of these shares.
//! - `P:{pNN}:c:ID:users`, hash: user → share, milliseconds after the start, key; for a sale: user → units held, orders
//!   given back, newest order, keys and their orders; `+` before the first key where further ones are in `keys`.
//! - `P:{pNN}:c:ID:keys`, hash: user and key → order, for buyers with more keys than a row takes.
//! - `P:{pNN}:c:ID:orders`, hash: number → state, refunds due, user, units, price, milliseconds after the start, key.
//! - `P:{pNN}:c:ID:payments`, hash: order and payment → its outcome.
//! - `P:{pNN}:c:ID:admissions`, hash: node → users that it may have on their way to a decision, until when, in
//!   milliseconds, and how many it has asked for: see `admit.lua`. It goes when no node has asked for a while.
//! - `P:{pNN}:c:ID:plan`, string: over how many parts the campaign is to be spread, from before the first one opens.
//! - `P:{pNN}:c:ID:transfers`, hash: receiving part → units that are moving there. Fields of the campaign's hash are
//!   `sent`, the number of the last transfer that this part has begun, `from:NN`, that of the last one that has arrived
//!   from partition NN, and `frozen`, until when none begins, because another part is being repaired, and by whom.
//!
//! Invalidations for the gates are published on the channel `P:{pNN}:agenda:news`.

use std::sync::Arc;

use qiang_core::{
    event::PartitionId,
    hash_tags::{cluster_tags, plain_tag, slot_of},
    id::{CampaignId, UserId},
};

use crate::{Options, Topology};

/// The most partitions there may be.
pub const PARTITIONS_MAX: u16 = 1_000;

/// How many keys there are for scripts. Each takes those up to the last one that it names.
pub const SCRIPT_KEYS: usize = 17;

/// Builds the keys of one installation.
#[derive(Debug, Clone)]
pub struct KeySpace {
    prefix: String,
    /// Hash tags of the partitions on a Cluster; none elsewhere.
    tags: Arc<[String]>,
}

macro_rules! keys_of_a_partition {
    ($($name:ident)+) => {
        $(/// The key of this name in a partition; the head of this file says what it has.
        #[must_use]
        pub fn $name(&self, partition: PartitionId) -> String {
            self.in_partition(partition, stringify!($name))
        })+
    };
}

impl KeySpace {
    keys_of_a_partition! {
        partition nodes log released queue doing dead lease agenda kept offers answers repairs reconciler waiting
        waiting_all decider closed retirer
    }

    /// Keys as the options name and place them.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let tags = match options.topology {
            Topology::Cluster => cluster_tags(options.partitions),
            Topology::Standalone | Topology::Sentinel { .. } => Vec::new(),
        };
        Self {
            prefix: options.prefix.clone(),
            tags: tags.into(),
        }
    }

    /// A key of a partition; the head of this file says which there are.
    #[must_use]
    pub fn in_partition(&self, partition: PartitionId, rest: &str) -> String {
        match self.tags.get(usize::from(partition.0)) {
            Some(tag) => format!("{}:{{{tag}}}:{rest}", self.prefix),
            None => format!("{}:{{{}}}:{rest}", self.prefix, plain_tag(partition)),
        }
    }

    /// The pattern of a partition's keys.
    pub fn all(&self, partition: PartitionId) -> String {
        self.in_partition(partition, "*")
    }

    pub(crate) fn call(&self, partition: PartitionId, connection: &str) -> String {
        self.in_partition(partition, &format!("call:{connection}"))
    }

    /// The mark that a connection writes before a `WAIT`.
    #[must_use]
    pub fn mark(&self, partition: PartitionId, connection: &str) -> String {
        self.in_partition(partition, &format!("mark:{connection}"))
    }

    /// A campaign's rules and numbers, or those of a part.
    #[must_use]
    pub fn campaign(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}"))
    }

    /// Who holds what of a campaign.
    #[must_use]
    pub fn users(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:users"))
    }

    /// A campaign's orders by number.
    #[must_use]
    pub fn orders(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:orders"))
    }

    /// Units that are on their way from a part to others.
    #[must_use]
    pub fn transfers(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:transfers"))
    }

    /// A key of a campaign: `users`, `orders`, …
    pub fn of_campaign(&self, partition: PartitionId, campaign: CampaignId, rest: &str) -> String {
        self.in_partition(partition, &format!("c:{campaign}:{rest}"))
    }

    /// Over how many parts a campaign is to be spread.
    #[must_use]
    pub fn plan(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:plan"))
    }

    /// The pattern of the channels on which all partitions' invalidations are published.
    pub fn invalidations(&self) -> String {
        format!("{}:*:agenda:news", self.prefix)
    }

    /// The keys of scripts, in their order.
    pub fn of_script(
        &self,
        partition: PartitionId,
        connection: &str,
        campaign: CampaignId,
    ) -> [String; SCRIPT_KEYS] {
        let of_campaign = |rest: &str| self.in_partition(partition, &format!("c:{campaign}{rest}"));
        [
            self.partition(partition),
            self.log(partition),
            self.call(partition, connection),
            self.agenda(partition),
            of_campaign(""),
            of_campaign(":shares"),
            of_campaign(":sums"),
            of_campaign(":users"),
            of_campaign(":orders"),
            of_campaign(":payments"),
            of_campaign(":transfers"),
            self.queue(partition),
            of_campaign(":keys"),
            of_campaign(":admissions"),
            self.closed(partition),
            of_campaign(":plan"),
            of_campaign(":entered"),
        ]
    }

    /// The slot of Redis Cluster that a partition's keys are in.
    pub(crate) fn cluster_slot(&self, partition: PartitionId) -> u16 {
        match self.tags.get(usize::from(partition.0)) {
            Some(tag) => slot_of(tag),
            None => slot_of(&plain_tag(partition)),
        }
    }
}

/// Where a campaign is, or the first part of one that is spread; the others follow in order.
pub fn home_of(campaign: CampaignId, partitions: u16) -> PartitionId {
    PartitionId((fnv1a(campaign.as_bytes()) % u64::from(partitions)) as u16)
}

/// The part of a spread campaign that serves a user.
pub fn part_of(user: &UserId, parts: u16) -> u16 {
    (fnv1a(user.as_str().as_bytes()) % u64::from(parts)) as u16
}

/// 64-bit FNV-1a (Fowler, Noll, Vo), finished by the mixer of SplitMix64: its low bits alone are uneven for short
/// names. Placement depends on it, so it never changes.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_spread_evenly_over_parts() {
        for parts in [2_u16, 3, 8] {
            let mut seen = vec![0_u32; usize::from(parts)];
            for n in 0..8_000 {
                let user = UserId::new(&format!("user-{n}")).expect("a good id");
                seen[usize::from(part_of(&user, parts))] += 1;
            }
            let mean = 8_000 / u32::from(parts);
            // Binomial: six standard deviations.
            let far = 6.0 * f64::from(mean).sqrt();
            assert!(
                seen.iter().all(|n| f64::from(n.abs_diff(mean)) < far),
                "{seen:?}"
            );
        }
    }
}
