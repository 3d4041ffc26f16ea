//! Every key in Redis, in one place.
//!
//! A partition's keys share the hash tag `{pNN}`, so that Redis Cluster keeps them on one node and a script may use
//! them together. On a Cluster all tags but the first have a suffix, `{pNN-N}`, which puts equal numbers of partitions
//! on each primary: see [`hash_tags`](qiang_core::hash_tags). `P` is the installation's prefix, `qiang` unless
//! configured:
//!
//! - `P:{pNN}:partition`, hash: `count` of partitions, `epoch` of this state, `seq` of the last log entry, `list` if
//!   records also go into the queue. The term has its number `term`, the replication id `server` of its primary, the
//!   entry `began` after which it began, and `terms` with number, beginning and server of the last ones. `open` is the
//!   term as calls state it, while they are carried out; until then `since` is the time since when nodes have been
//!   reporting, and `alive_from` the sighting from which on a node is waited for. `halted` is the reason while nothing
//!   is granted, `lost_from` and `lost_to` are the entries that were lost, and `gap_from` is the epoch and the first
//!   unsettled entry that was deleted from the log. `ledger_position` is the highest position that the ledger ever had,
//!   as far as entries were trimmed or campaigns were evicted: an entry after it that the log lacks was deleted by
//!   hand. `past` is the epochs that this one continues, each with its last entry. No entry after `left` concerns an
//!   evicted campaign, and no evicted campaign was created after `left_created`, in milliseconds. The end of a halt
//!   raises them to the log's end, and to ten minutes from then. `up` is when a node last reported that it serves the
//!   partition, in milliseconds; the ledger has the same `installation` and `engine`. `downs` has the 64 newest
//!   times without such
//!   a report, from and to, oldest first. During a repair, `repairer` is the process that repairs until `repair_until`;
//!   `repair_since` is the loss and when it was found, and `repair_unnamed` the result of the first attempt, from
//!   before it moves the log or the ledger. `call:NODE:CONNECTION` is the number and time of the connection's last call
//!   that changed something, so that a repeated call is not carried out again; it is deleted an hour after the node has
//!   left, or is forgotten. `damaged:ID` belongs to a campaign whose keys contradict each other: `?`, or the last entry
//!   that may be about it once its keys are gone, see `damage.lua`. `unreadable:ID` belongs to a campaign that a repair
//!   takes out of service, because the ledger cannot read it: `?`, or the epoch of that repair once its keys are gone,
//!   see `repair_suspend.lua`. `skipped:ID` is the number of ordinals that the shard of a sale skips when it opens.
//!   `recalled` is the size beyond `maxmemory` of the campaigns that were reloaded since
//!   `recalled_since`, in bytes.
//! - `P:{pNN}:nodes`, hash: node → milliseconds of its last sighting, the term in which it has reported, the last entry
//!   it has observed; and when it was found not to have been seen for an hour. An hour after that it is forgotten.
//! - `P:{pNN}:log`, stream: the log. A record holds the entries of one step; its id is the sequence number of the last.
//! - `P:{pNN}:released`, list: settled positions of the log with their times, as far as the log still keeps the
//!   entries; see `transport/trim_log.lua`.
//! - `P:{pNN}:queue`, list: copies of the log's records for the transport `list`, oldest first. The first line has the
//!   last entry's sequence number, campaign, milliseconds, kind and the partition's epoch; then follows the record.
//! - `P:{pNN}:doing`, list: records that a worker has taken and not acknowledged.
//! - `P:{pNN}:dead`, list: the last unreadable records.
//! - `P:{pNN}:lease`, string: the worker that settles the partition; it expires unless that worker renews it.
//! - `P:{pNN}:answers`, hash, for a halted partition: entries past the end of the log that nodes have answered for.
//!   Node and number of a chunk → entries as lines of text. Node → the loss for which it has stored its answers, the
//!   number of the attempt, and, once all are stored, the first entry.
//! - `P:{pNN}:repairs`, list: results of the last thousand repairs.
//! - `P:{pNN}:reconciler`, string: the process that reconciles the partition with the ledger; it expires unless that
//!   process renews it.
//! - `P:{pNN}:waiting`, hash: campaign → users in its queue. `P:{pNN}:waiting_all`, string: the sum of these; it
//!   expires after a minute and is counted again. `P:{pNN}:decider`, string: the process that decides queue entries; it
//!   expires unless that process renews it.
//! - `P:{pNN}:c:ID:line`, sorted set: users in the queue, by the number of their queue entry. `P:{pNN}:c:ID:places`,
//!   hash: user → the queue entry as text. Scripts compare the two, see `queue/whole_line.lua`. `P:{pNN}:c:ID:entered`,
//!   string: the number of the last queue entry, for the life of the campaign. `P:{pNN}:c:ID:place:USER`, string: the
//!   number and the result of the user's last queue entry, until it expires.
//! - `P:{pNN}:agenda`, sorted set: campaigns by the milliseconds of their next tick. The score of `+` counts
//!   changes, as
//!   the field `agenda` of the partition does: see `agenda.lua`.
//! - `P:{pNN}:closed`, sorted set: closed campaigns, by the milliseconds from which their retention counts.
//! - `P:{pNN}:retirer`, string: the process that evicts closed campaigns; it expires unless that process renews it.
//! - `P:{pNN}:call:NODE:CONNECTION`, string: the reply to the connection's last call that changed something, for 60 s.
//! - `P:{pNN}:mark:NODE:CONNECTION`, string: written before a `WAIT`, which only waits for writes of its own
//!   connection.
//! - `P:{pNN}:c:ID`, hash: rules and counters of a campaign, or of its shard in this partition.
//! - `P:{pNN}:c:ID:shares`, list: remaining shares of a red packet: the number as six digits in base 36, then the
//!   amount. Fields `withheld`, `withheld_minor` and `withheld_shares` of the campaign's hash count what a repair has
//!   withheld. `repaired` is the epoch of the last repair that wrote the counters. `stock` is the stock of a spread
//!   sale, in its first shard. `opens` is the start of the window if it was changed; `starts` is the origin of
//!   grant times. `terms` is the revision of window, limit and price. `before` are the terms before the last
//!   change, with their revision, as in the log. `behind` is 1 in the first shard while others
//!   may have earlier ones. `touched` is the last entry about a closed campaign. `buyers`, `paid`, `keyed` and `moving`
//!   are the numbers of fields in `users`, in a sale's `payments` and `keys`, and in `transfers`: see `whole.lua`.
//!   `owner` is the digest of the seller or sender. `skipped` are runs of ordinals, `FIRST-LAST FIRST-LAST …`, that no
//!   order of a sale has, because users may have received them before Redis and the ledger lost their orders.
//!   `extended` are the held orders of a sale with extended holds: see `campaign.lua`.
//! - `P:{pNN}:c:ID:sums`, hash: the sums of the last 1000, 2000, … of these shares.
//! - `P:{pNN}:c:ID:users`, hash: user → share, milliseconds after the start, key. For a sale: user → units held,
//!   returned orders, newest order, keys and their orders; `+` before the first key if further ones are in `keys`.
//! - `P:{pNN}:c:ID:keys`, hash: user and key → order, for buyers with more keys than a row has room for.
//! - `P:{pNN}:c:ID:orders`, hash: number → state, refunds due, user, units, price, milliseconds after the start, key.
//! - `P:{pNN}:c:ID:payments`, hash: order and payment → its outcome.
//! - `P:{pNN}:c:ID:admissions`, hash: node → admission permits granted to it, their expiry in milliseconds, and the
//!   number requested: see `admit.lua`. The key is removed when no node has requested permits for a while.
//! - `P:{pNN}:c:ID:plan`, string: the number of shards of the campaign, written before the first one opens.
//! - `P:{pNN}:c:ID:transfers`, hash: receiving shard → units in transfer to it. Related fields of the campaign's hash:
//!   `sent` is the number of the last transfer that this shard has begun. `from:NN` is that of the last one that
//!   arrived from partition NN. `frozen` is the time until which no transfer begins because another shard is being
//!   repaired, and the repairer.
//!
//! The gates get invalidations on the channel `P:{pNN}:agenda:news`.

use std::sync::Arc;

use qiang_core::{
    event::PartitionId,
    hash_tags::{cluster_tags, plain_tag, slot_of},
    id::{CampaignId, UserId},
};

use crate::connection::{RedisOptions, Topology};

/// Maximum number of partitions.
pub const PARTITIONS_MAX: u16 = 1_000;

/// Number of keys available to scripts. A script gets the keys up to the last one that it names.
pub(crate) const SCRIPT_KEYS: usize = 17;

/// Builds the keys of one installation.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    prefix: String,
    /// Hash tags of the partitions on a Cluster; empty elsewhere.
    tags: Arc<[String]>,
}

macro_rules! keys_of_a_partition {
    ($($name:ident)+) => {
        $(/// The key of this name in a partition; the head of this file says what it has.
        #[must_use]
        pub(crate) fn $name(&self, partition: PartitionId) -> String {
            self.in_partition(partition, stringify!($name))
        })+
    };
}

impl KeySpace {
    keys_of_a_partition! {
        partition nodes log released queue doing dead lease agenda answers repairs reconciler waiting
        waiting_all decider closed retirer
    }

    /// Key space of the configured prefix and topology.
    #[must_use]
    pub(crate) fn new(options: &RedisOptions) -> Self {
        let tags = match options.topology {
            Topology::Cluster => cluster_tags(options.partitions),
            Topology::Standalone | Topology::Sentinel { .. } => Vec::new(),
        };
        Self {
            prefix: options.prefix.clone(),
            tags: tags.into(),
        }
    }

    /// A key of a partition; the head of this file lists them.
    #[must_use]
    pub(crate) fn in_partition(&self, partition: PartitionId, rest: &str) -> String {
        match self.tags.get(usize::from(partition.0)) {
            Some(tag) => format!("{}:{{{tag}}}:{rest}", self.prefix),
            None => format!("{}:{{{}}}:{rest}", self.prefix, plain_tag(partition)),
        }
    }

    /// Pattern that matches all keys of a partition.
    pub(crate) fn all(&self, partition: PartitionId) -> String {
        self.in_partition(partition, "*")
    }

    pub(crate) fn call(&self, partition: PartitionId, connection: &str) -> String {
        self.in_partition(partition, &format!("call:{connection}"))
    }

    /// The mark that a connection writes before a `WAIT`.
    #[must_use]
    pub(crate) fn mark(&self, partition: PartitionId, connection: &str) -> String {
        self.in_partition(partition, &format!("mark:{connection}"))
    }

    /// Hash of a campaign or of one of its shards: rules and counters.
    #[must_use]
    pub(crate) fn campaign(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}"))
    }

    /// Hash of a campaign's users and what they have.
    #[must_use]
    pub(crate) fn users(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:users"))
    }

    /// Hash of a campaign's orders by number.
    #[must_use]
    pub(crate) fn orders(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:orders"))
    }

    /// Hash of units that are in transfer from a shard to other shards.
    #[must_use]
    pub(crate) fn transfers(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:transfers"))
    }

    /// A key of a campaign: `users`, `orders`, …
    pub(crate) fn for_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        rest: &str,
    ) -> String {
        self.in_partition(partition, &format!("c:{campaign}:{rest}"))
    }

    /// Number of shards that a campaign will have.
    #[must_use]
    pub(crate) fn plan(&self, partition: PartitionId, campaign: CampaignId) -> String {
        self.in_partition(partition, &format!("c:{campaign}:plan"))
    }

    /// Pattern of the channels that carry all partitions' invalidations.
    pub(crate) fn invalidations(&self) -> String {
        format!("{}:*:agenda:news", self.prefix)
    }

    /// Keys of scripts, in the order in which scripts number them.
    pub(crate) fn for_script(
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

    /// Slot of Redis Cluster that has a partition's keys.
    pub(crate) fn cluster_slot(&self, partition: PartitionId) -> u16 {
        match self.tags.get(usize::from(partition.0)) {
            Some(tag) => slot_of(tag),
            None => slot_of(&plain_tag(partition)),
        }
    }
}

/// Partition of a campaign, or of the first shard of a spread campaign; the other shards follow in order.
pub(crate) fn home_of(campaign: CampaignId, partitions: u16) -> PartitionId {
    PartitionId((fnv1a(campaign.as_bytes()) % u64::from(partitions)) as u16)
}

/// Shard of a spread campaign that serves a user.
pub(crate) fn part_of(user: &UserId, parts: u16) -> u16 {
    (fnv1a(user.as_str().as_bytes()) % u64::from(parts)) as u16
}

/// Hash of some bytes: 64-bit FNV-1a (Fowler, Noll, Vo), finished by the mixer of SplitMix64. The low bits of FNV-1a
/// alone are uneven for short names. Placement depends on this hash, so it never changes.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
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
                let user = UserId::new(&format!("user-{n}")).expect("a valid id");
                seen[usize::from(part_of(&user, parts))] += 1;
            }
            let mean = 8_000 / u32::from(parts);
            // Limit for a binomial distribution: six standard deviations.
            let far = 6.0 * f64::from(mean).sqrt();
            assert!(
                seen.iter().all(|n| f64::from(n.abs_diff(mean)) < far),
                "{seen:?}"
            );
        }
    }
}
