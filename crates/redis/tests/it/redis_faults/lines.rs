//! Queues of waiting rooms. Their scripts are called directly, and their counts must match the queues.

use std::collections::{BTreeMap, BTreeSet};

use qiang_testkit::servers::redis::Reply;

use crate::redis_faults::harness::{blocking, prefix, shared};

const ENTER: &str = concat!(
    include_str!("../../../src/lua/queue/whole_line.lua"),
    include_str!("../../../src/lua/queue/enter.lua")
);
const RECORD: &str = concat!(
    include_str!("../../../src/lua/queue/whole_line.lua"),
    include_str!("../../../src/lua/queue/record.lua")
);

const CAMPAIGNS: u64 = 5;
const USERS: u64 = 12;
/// Maximum entries per queue, and per partition.
const PLACES_MAX: usize = 8;
const ALL_MAX: usize = 25;
const STEPS: usize = 1_000;

/// Queues of a partition that no other test uses, with the expected queue entries.
struct Lines {
    prefix: String,
    waiting: BTreeMap<u64, BTreeSet<String>>,
    /// Stored value of each queue entry.
    places: BTreeMap<(u64, String), String>,
}

/// Reproducible pseudo-random numbers: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl Lines {
    fn key(&self, rest: &str) -> String {
        format!("{}:{{p00}}:{rest}", self.prefix)
    }

    fn of(&self, campaign: u64, rest: &str) -> String {
        self.key(&format!("c:{campaign}:{rest}"))
    }

    fn call(words: &[String]) -> Reply {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        shared().primary().call(&words).unwrap()
    }

    fn size(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }

    fn enter(&mut self, campaign: u64, users: &[String]) {
        let mut keys = vec![
            self.key("waiting"),
            self.of(campaign, "entered"),
            self.key("waiting_all"),
            self.of(campaign, "line"),
            self.of(campaign, "places"),
        ];
        let place = |user: &String| self.of(campaign, &format!("place:{user}"));
        keys.extend(users.iter().map(place));
        let mut words = vec!["EVAL".to_owned(), ENTER.to_owned(), keys.len().to_string()];
        words.extend(keys);
        words.extend([campaign, PLACES_MAX as u64, ALL_MAX as u64].map(|n| n.to_string()));
        for user in users {
            words.extend([user.clone(), format!("kept-of-{user}")]);
        }
        let reply = Self::call(&words);
        assert_eq!(reply.array().len(), users.len(), "{reply:?}");
        for (user, reply) in users.iter().zip(reply.array()) {
            let all = self.size();
            let line = self.waiting.entry(campaign).or_default();
            let is_full = line.len() >= PLACES_MAX || all >= ALL_MAX;
            let text = reply.text().unwrap();
            if !line.contains(user) && is_full {
                assert_eq!(text, "full");
                continue;
            }
            line.insert(user.clone());
            let place = text
                .splitn(3, ' ')
                .nth(2)
                .unwrap_or_else(|| panic!("{text}"));
            self.places
                .insert((campaign, user.clone()), place.to_owned());
        }
    }

    fn record(&mut self, campaign: u64, users: &[String]) {
        let mut keys = vec![
            self.key("waiting"),
            self.key("waiting_all"),
            self.of(campaign, "line"),
            self.of(campaign, "places"),
        ];
        let place = |user: &String| self.of(campaign, &format!("place:{user}"));
        keys.extend(users.iter().map(place));
        let mut words = vec!["EVAL".to_owned(), RECORD.to_owned(), keys.len().to_string()];
        words.extend(keys);
        words.extend([campaign.to_string(), "60000".to_owned()]);
        for user in users {
            let place = self.places.get(&(campaign, user.clone()));
            let place = place.cloned().unwrap_or_default();
            words.extend([user.clone(), place, "1 granted".to_owned()]);
        }
        let line = self.waiting.entry(campaign).or_default();
        let before = line.len();
        for user in users {
            line.remove(user);
        }
        let gone = (before - line.len()) as i64;
        let reply = Self::call(&words);
        let numbers: Vec<_> = reply.array().iter().filter_map(Reply::integer).collect();
        assert_eq!(numbers, [gone, 0]);
    }

    /// Checks that the scripts' counts equal the sizes of the queues.
    fn check(&self) {
        let get = |words: &[&str]| shared().primary().call(words).unwrap();
        let counts = get(&["HVALS", &self.key("waiting")]);
        let counts = counts.array().iter().filter_map(Reply::text);
        let sum: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
        assert_eq!(sum, self.size());
        let all = get(&["GET", &self.key("waiting_all")]);
        if let Some(all) = all.text() {
            assert_eq!(all.parse(), Ok(sum));
            let expires = get(&["TTL", &self.key("waiting_all")]);
            assert!(expires.integer() > Some(0), "{expires:?}");
        }
    }

    /// Whether the number of all waiting users is stored. An entry needs it, and sums no queues.
    fn has_sum(&self) -> bool {
        let found = Self::call(&["EXISTS".to_owned(), self.key("waiting_all")]);
        found.integer() == Some(1)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_number_counts_those_who_wait_in_all_lines() {
    blocking(|| {
        let mut lines = Lines {
            prefix: prefix(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        let mut numbers = Numbers(20);
        let mut fullest = 0;
        for step in 0..STEPS {
            let campaign = numbers.below(CAMPAIGNS);
            let count = 1 + numbers.below(4);
            let users: BTreeSet<String> = (0..count)
                .map(|_| format!("u{}", numbers.below(USERS)))
                .collect();
            let users: Vec<String> = users.into_iter().collect();
            match numbers.below(8) {
                0..4 => {
                    lines.enter(campaign, &users);
                    assert!(lines.has_sum(), "step {step}");
                }
                4..7 => lines.record(campaign, &users),
                // The key is deleted, as after its expiry.
                _ => {
                    let key = lines.key("waiting_all");
                    Lines::call(&["DEL".to_owned(), key]);
                }
            }
            fullest = fullest.max(lines.size());
            lines.check();
            assert!(lines.size() <= ALL_MAX, "step {step}");
        }
        assert_eq!(fullest, ALL_MAX, "the limit must be reached");
    });
}
