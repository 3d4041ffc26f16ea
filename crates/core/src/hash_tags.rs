//! Hash tags of partitions on Redis Cluster.
//!
//! A Cluster assigns a key to one of 16,384 slots by the CRC-16 of its hash tag. Each primary has a contiguous range of
//! slots. Tags that only contain a number are distributed unevenly: of `p00` to `p11`, three primaries get 3, 3 and 6.
//! The tags here have slots at equal distances, so equal ranges have equal numbers of partitions, or one more.

use crc::{CRC_16_XMODEM, Crc};

use crate::event::PartitionId;

/// Number of slots of Redis Cluster.
pub const CLUSTER_SLOTS: u16 = 16_384;
/// Maximum distance between a tag's slot and its even position, in slots. A smaller distance takes longer to find.
const SLOTS_OFF_MAX: u16 = 2;
/// Checksum that Redis Cluster specifies.
static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// Hash tag of a partition on a server outside a Cluster: `p07`.
#[must_use]
pub fn plain_tag(partition: PartitionId) -> String {
    format!("p{:02}", partition.0)
}

/// Hash tags of all partitions of an installation on Redis Cluster, in order: `p00`, `p01-2403`, …
///
/// The slot of tag `i` of `n` is at most two slots from that of `p00` plus `i / n` of all slots. The first tag does not
/// depend on the number of partitions, so that number can be stored there. Keys depend on these tags, so the tags never
/// change.
#[must_use]
pub fn cluster_tags(partitions: u16) -> Vec<String> {
    let first = slot_of(&plain_tag(PartitionId(0)));
    let tag = |index: u16| {
        let plain = plain_tag(PartitionId(index));
        if index == 0 {
            return plain;
        }
        let steps = u32::from(index) * u32::from(CLUSTER_SLOTS) / u32::from(partitions);
        let place = (u32::from(first) + steps) % u32::from(CLUSTER_SLOTS);
        (0_u32..)
            .map(|n| format!("{plain}-{n}"))
            .find(|tag| slots_between(slot_of(tag), place as u16) <= SLOTS_OFF_MAX)
            .unwrap_or(plain)
    };
    (0..partitions).map(tag).collect()
}

/// Redis Cluster slot of the keys with this hash tag.
#[must_use]
pub fn slot_of(tag: &str) -> u16 {
    CRC16.checksum(tag.as_bytes()) % CLUSTER_SLOTS
}

/// Distance between two slots on the circle of all slots.
fn slots_between(a: u16, b: u16) -> u16 {
    let apart = a.abs_diff(b);
    apart.min(CLUSTER_SLOTS - apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-16/XMODEM, and the slot from the documentation of Redis.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(CRC16.checksum(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }

    /// Keys of running installations have these tags.
    #[test]
    fn tags_stay_as_they_are() {
        assert_eq!(cluster_tags(3), ["p00", "p01-6850", "p02-1173"]);
        assert_eq!(
            cluster_tags(12)[..4],
            ["p00", "p01-2403", "p02-1205", "p03-5047"]
        );
    }

    #[test]
    fn partitions_fall_evenly_on_2_to_16_primaries() {
        for partitions in (1..=100).chain([128]) {
            let slots: Vec<u16> = cluster_tags(partitions)
                .iter()
                .map(|tag| slot_of(tag))
                .collect();
            for primaries in 2..=16_u16 {
                // Ranges as `redis-cli --cluster create` assigns them.
                let bound = |n: u16| {
                    (f64::from(n) * f64::from(CLUSTER_SLOTS) / f64::from(primaries)).round() as u16
                };
                let counts: Vec<usize> = (0..primaries)
                    .map(|n| {
                        slots
                            .iter()
                            .filter(|slot| (bound(n)..bound(n + 1)).contains(slot))
                            .count()
                    })
                    .collect();
                let (least, most) = (counts.iter().min(), counts.iter().max());
                assert!(
                    most <= least.map(|n| n + 1).as_ref(),
                    "{partitions} partitions on {primaries} primaries: {counts:?}"
                );
            }
        }
    }
}
