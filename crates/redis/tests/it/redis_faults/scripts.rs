//! Direct calls of the scripts that maintain a partition, in states that otherwise need a rare history.

use std::{collections::BTreeMap, time::Duration};

use qiang_testkit::servers::redis::{Reply, Server};

use crate::redis_faults::harness::{blocking, prefix, shared};

const PRESENCE: &str = include_str!("../../../../redis/src/connection/lua/presence.lua");
const RESUME: &str = include_str!("../../../../redis/src/connection/lua/resume.lua");
const OFFER: &str = include_str!("../../../src/lua/repair_offer.lua");
const BEGIN: &str = include_str!("../../../src/lua/repair_begin.lua");

const GRACE_MS: u64 = 2_000;
/// Tokens of two repairers.
const ONE: &str = "1";
const TWO: &str = "2";

/// A partition that no other test uses, on a shared server.
struct Keys {
    partition: String,
    nodes: String,
    answers: String,
}

/// Report of a node in a presence call.
struct Said<'a> {
    epoch: &'a str,
    number: u64,
    /// An earlier term with observed entries: its epoch, its number, and the position where it began.
    before: (&'a str, u64, u64),
    observed: u64,
    stale_ms: u64,
}

impl Keys {
    fn new() -> Self {
        let prefix = prefix();
        let key = |what: &str| format!("{prefix}:{{p00}}:{what}");
        Self {
            partition: key("partition"),
            nodes: key("nodes"),
            answers: key("answers"),
        }
    }

    fn server(&self) -> &'static Server {
        shared().primary()
    }

    fn call(&self, words: &[&str]) -> Reply {
        self.server().call(words).unwrap()
    }

    fn set(&self, fields: &[(&str, &str)]) {
        for (field, value) in fields {
            self.call(&["HSET", &self.partition, field, value]);
        }
    }

    fn state(&self) -> BTreeMap<String, String> {
        let reply = self.call(&["HGETALL", &self.partition]);
        let texts: Vec<&str> = reply.array().iter().filter_map(Reply::text).collect();
        let pairs = texts.chunks_exact(2);
        pairs
            .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
            .collect()
    }

    /// A presence call. Returns the words of the reply.
    fn presence(&self, node: &str, said: &Said<'_>) -> Vec<String> {
        // Without an installation, any engine's partition is accepted.
        self.presence_of(node, said, ["", "", ""])
    }

    /// The same, with an installation, an engine, and the server to mark the partition on.
    fn presence_of(&self, node: &str, said: &Said<'_>, identity: [&str; 3]) -> Vec<String> {
        let (number, observed) = (said.number.to_string(), said.observed.to_string());
        let (epoch, before, began) = said.before;
        let (before, began) = (before.to_string(), began.to_string());
        let (grace, stale) = (GRACE_MS.to_string(), said.stale_ms.to_string());
        let [installation, engine, marks_on] = identity;
        let reply = self.call(&[
            "EVAL",
            PRESENCE,
            "2",
            &self.partition,
            &self.nodes,
            node,
            said.epoch,
            &number,
            "elsewhere",
            epoch,
            &before,
            "elsewhere",
            &began,
            &observed,
            "0",
            &grace,
            "1",
            "",
            &stale,
            installation,
            engine,
            marks_on,
        ]);
        let words = reply.array().iter().filter_map(Reply::text);
        words.map(str::to_owned).collect()
    }

    /// First word of `repair_begin`'s reply, and its milliseconds.
    fn begin(&self, token: &str, millis: u64) -> (String, Option<u64>) {
        let millis = millis.to_string();
        let reply = self.call(&["EVAL", BEGIN, "1", &self.partition, token, &millis]);
        let words: Vec<&str> = reply.array().iter().filter_map(Reply::text).collect();
        let millis = words[1].split(' ').next();
        let millis = millis.and_then(|millis| millis.parse().ok());
        (words[0].to_owned(), millis)
    }

    /// Offers a chunk of a node's attempt for the loss of 101 to 110.
    fn offer(&self, node: &str, (attempt, chunk): (u32, u32), lines: &str, done: &str) -> String {
        let (attempt, chunk) = (attempt.to_string(), chunk.to_string());
        let reply = self.call(&[
            "EVAL",
            OFFER,
            "2",
            &self.partition,
            &self.answers,
            "101-110",
            node,
            &attempt,
            &chunk,
            lines,
            done,
        ]);
        reply.array()[0].text().unwrap().to_owned()
    }

    fn resume(&self, epoch: &str, new: &str) -> String {
        let reply = self.call(&[
            "EVAL",
            RESUME,
            "2",
            &self.partition,
            &self.answers,
            epoch,
            new,
            "0",
            "1",
        ]);
        reply.array()[0].text().unwrap().to_owned()
    }

    /// Milliseconds of the server's clock.
    fn now(&self) -> u64 {
        let reply = self.call(&["TIME"]);
        let part = |at: usize| reply.array()[at].text().unwrap().parse::<u64>().unwrap();
        1_000 * part(0) + part(1) / 1_000
    }
}

/// A server is halted in an earlier term than nodes know: the end of the halt, or all later data, is lost. Nodes move
/// it to a term later than the one they know, without opening it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_reach_a_server_that_is_halted_in_an_earlier_term() {
    blocking(|| {
        let keys = Keys::new();
        keys.set(&[
            ("count", "1"),
            ("epoch", "e1"),
            ("seq", "100"),
            ("term", "4"),
            ("server", "0123456789"),
            ("began", "90"),
            ("terms", "4:90:01234567"),
            ("halted", "lost"),
            ("lost_from", "101"),
            ("lost_to", "110"),
        ]);
        let mut said = Said {
            epoch: "e2",
            number: 5,
            before: ("", 0, 0),
            observed: 160,
            stale_ms: 0,
        };
        // At first, the server may be the wrong one.
        for stale_ms in [0, GRACE_MS / 2 - 1] {
            said.stale_ms = stale_ms;
            assert_eq!(keys.presence("a", &said)[2], "4");
        }
        said.stale_ms = GRACE_MS / 2;
        let words = keys.presence("a", &said);
        assert_eq!((words[2].as_str(), words[5].as_str()), ("6", "halted"));
        // In the new term, the node reports its observations of the lost term.
        let said = Said {
            epoch: "e1",
            number: 6,
            before: ("e2", 5, 110),
            observed: 160,
            stale_ms: 0,
        };
        let words = keys.presence("a", &said);
        assert_eq!((words[2].as_str(), words[5].as_str()), ("6", "halted"));
        assert_eq!(words[9], "160");
        let state = keys.state();
        assert!(!state.contains_key("open"), "{state:?}");
        assert_eq!(state["terms"].split(' ').count(), 2, "{state:?}");
        assert_eq!(state["past"], "e2:?");
        // Nodes that know no later term change nothing, however long they have waited.
        let said = Said {
            epoch: "e1",
            number: 6,
            before: ("", 0, 0),
            observed: 0,
            stale_ms: 10 * GRACE_MS,
        };
        assert_eq!(keys.presence("b", &said)[2], "6");
    });
}

/// A node's chunks may arrive repeatedly and in any order. The stored ones are those of one attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_offered_again_are_kept_once() {
    blocking(|| {
        let keys = Keys::new();
        assert_eq!(
            keys.offer("a", (0, 0), "one", "1"),
            "over",
            "nothing is lost"
        );
        keys.set(&[("halted", "lost"), ("lost_from", "101"), ("lost_to", "110")]);
        let kept = || {
            let all = keys.call(&["HGETALL", &keys.answers]);
            let texts: Vec<&str> = all.array().iter().filter_map(Reply::text).collect();
            let mut pairs: Vec<String> = texts.chunks(2).map(|it| it.join(": ")).collect();
            pairs.sort_unstable();
            pairs
        };
        assert_eq!(keys.offer("b", (7, 0), "other", "5"), "ok");
        // The answer to a chunk was lost several times.
        for _ in 0..3 {
            assert_eq!(keys.offer("a", (1, 0), "one", ""), "ok");
        }
        let other = ["b 0: other", "b: 101-110 7 5"];
        assert_eq!(kept(), ["a 0: one", "a: 101-110 1", other[0], other[1]]);
        for _ in 0..3 {
            assert_eq!(keys.offer("a", (1, 1), "two", "3"), "ok");
        }
        let whole = ["a 0: one", "a 1: two", "a: 101-110 1 3", other[0], other[1]];
        assert_eq!(kept(), whole);
        // The next attempt has fewer entries, because some are settled. The rest of the first attempt arrives late.
        assert_eq!(keys.offer("a", (2, 0), "two", "4"), "ok");
        let next = ["a 0: two", "a: 101-110 2 4", other[0], other[1]];
        assert_eq!(kept(), next);
        for chunk in 0..2 {
            assert_eq!(keys.offer("a", (1, chunk), "late", "3"), "over");
        }
        assert_eq!(kept(), next);
        // If Redis has lost a chunk, the offer is incomplete.
        assert_eq!(keys.offer("a", (3, 1), "two", "4"), "gap");
        assert_eq!(kept(), ["a 1: two", "a: 101-110 3", other[0], other[1]]);
    });
}

/// Records of crashed processes are deleted, a few per call. Neither a jumping clock nor a halt deletes any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_have_crashed_are_forgotten() {
    const HOUR_MS: u64 = 3_600_000;
    const CRASHED: usize = 1_000;
    blocking(|| {
        let keys = Keys::new();
        let (now, server) = (keys.now(), keys.server());
        let own = server.info("replication", "master_replid").unwrap();
        let said = Said {
            epoch: "",
            number: 0,
            before: ("", 0, 0),
            observed: 0,
            stale_ms: 0,
        };
        let nodes = |entry: &str| {
            let mut words = vec!["HSET".to_owned(), keys.nodes.clone()];
            for n in 0..CRASHED {
                words.extend([format!("crashed{n}"), entry.to_owned()]);
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            keys.call(&words);
        };
        let all = || keys.call(&["HLEN", &keys.nodes]).integer().unwrap() as usize;
        let present = |calls: usize| {
            for n in 0..calls {
                let words = keys.presence(if n % 2 == 0 { "a" } else { "b" }, &said);
                assert_eq!(words[0], "ok");
            }
        };
        keys.set(&[
            ("count", "1"),
            ("epoch", "e1"),
            ("seq", "0"),
            ("term", "4"),
            ("server", &own),
            ("began", "0"),
            ("terms", &format!("4:0:{}", &own[..8])),
            ("open", &format!("e1.4.{}", &own[..8])),
        ]);
        let (old, marked) = (now - 3 * HOUR_MS, now - 2 * HOUR_MS);
        // The state of all records after a jump of the clock.
        nodes(&format!("{old} 4 7"));
        present(100);
        assert_eq!(all(), CRASHED + 2);
        let entries = keys.call(&["HVALS", &keys.nodes]);
        let is_marked = |it: &&Reply| it.text().is_some_and(|it| it.split(' ').count() == 4);
        assert!(entries.array().iter().filter(is_marked).count() > 0);
        // A node that calls again has a fresh record.
        keys.call(&["HSET", &keys.nodes, "a", &format!("{old} 4 7 {marked}")]);
        present(2);
        let own_entry = keys.call(&["HGET", &keys.nodes, "a"]);
        assert_eq!(own_entry.text().unwrap().split(' ').count(), 3);

        nodes(&format!("{old} 4 7 {marked}"));
        // A repair waits for all nodes that the partition knows.
        keys.set(&[("halted", "by hand")]);
        keys.call(&["HDEL", &keys.partition, "open"]);
        present(100);
        assert_eq!(all(), CRASHED + 2);
        keys.call(&["HDEL", &keys.partition, "halted"]);
        keys.set(&[("open", &format!("e1.4.{}", &own[..8]))]);
        let mut calls = 0;
        while all() > 2 {
            calls += 100;
            present(100);
            assert!(calls < 100 * CRASHED, "{} are left", all());
        }
    });
}

/// A partition that has lost its data is assigned to the engine on the named server only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_marked_on_the_named_server_alone() {
    blocking(|| {
        let keys = Keys::new();
        let own = keys.server().info("replication", "master_replid").unwrap();
        let said = Said {
            epoch: "",
            number: 0,
            before: ("", 0, 0),
            observed: 0,
            stale_ms: 0,
        };
        let other = "0".repeat(own.len());
        for marks_on in ["", &other] {
            let words = keys.presence_of("a", &said, ["i", "e", marks_on]);
            assert_eq!(words, ["mark", "", &own]);
            assert_eq!(keys.state().get("engine"), None);
        }
        let words = keys.presence_of("a", &said, ["i", "e", &own]);
        assert_eq!((words[0].as_str(), words.last()), ("ok", Some(&own)));
        assert_eq!(keys.state()["engine"], "e");
        let words = keys.presence_of("a", &said, ["another", "e", "1"]);
        assert_eq!(words, ["foreign", "i", &own]);
    });
}

/// Data of a repair belongs to its loss, and is deleted when the partition continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_partition_keeps_nothing_of_a_repair() {
    blocking(|| {
        let keys = Keys::new();
        keys.set(&[
            ("epoch", "e1"),
            ("seq", "100"),
            ("term", "4"),
            ("halted", "lost"),
            ("lost_from", "101"),
            ("lost_to", "110"),
            ("repair_unnamed", "101-110 3"),
        ]);
        assert_eq!(keys.begin(ONE, 10_000).0, "ok");
        assert_eq!(keys.offer("a", (1, 0), "an entry", "1"), "ok");
        let there = || keys.call(&["EXISTS", &keys.answers]).integer();
        assert_eq!(keys.resume("e0", "e2"), "epoch");
        assert_eq!(there(), Some(1));
        assert_eq!(keys.resume("e1", "e2"), "ok");
        let state = keys.state();
        let left: Vec<&String> = state
            .keys()
            .filter(|key| key.starts_with("repair"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(there(), Some(0));
    });
}

/// Times of a repair may be from a server with a clock that was ahead. No repairer waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_does_not_wait_for_a_clock_that_was_ahead() {
    blocking(|| {
        const DAY_MS: u64 = 86_400_000;
        let keys = Keys::new();
        let ahead = (keys.now() + DAY_MS).to_string();
        let server = keys.server().info("replication", "master_replid");
        let server = server.unwrap();
        keys.set(&[
            ("halted", "lost"),
            ("lost_from", "101"),
            ("lost_to", "110"),
            ("repairer", &format!("{ONE}.{server}")),
            ("repair_until", &ahead),
            ("repair_since", &format!("101-110 {ahead}")),
        ]);
        assert_eq!(keys.begin(TWO, 60_000).0, "taken");
        let state = keys.state();
        let until: u64 = state["repair_until"].parse().unwrap();
        assert!(until <= keys.now() + 60_000, "{state:?}");
        let (_, since) = state["repair_since"].split_once(' ').unwrap();
        assert!(since.parse::<u64>().unwrap() <= keys.now(), "{state:?}");
        // The first repairer keeps the repair.
        assert_eq!(keys.begin(ONE, 60_000).0, "ok");
    });
}

/// A repairer that died keeps the repair until its lease expires. Then another repairer gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_passes_to_another_repairer_when_the_lease_expires() {
    blocking(|| {
        const LEASE_MS: u64 = 200;
        let keys = Keys::new();
        keys.set(&[("halted", "lost"), ("lost_from", "101"), ("lost_to", "110")]);
        assert_eq!(keys.begin(ONE, LEASE_MS).0, "ok");
        let state = keys.state();
        let until: u64 = state["repair_until"].parse().unwrap();
        assert!(until <= keys.now() + LEASE_MS, "{state:?}");
        loop {
            let before = keys.now();
            let (status, _) = keys.begin(TWO, LEASE_MS);
            if status == "ok" {
                assert!(keys.now() >= until, "the lease has not expired");
                break;
            }
            assert_eq!(status, "taken");
            assert!(before < until, "the lease has expired");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(keys.state()["repairer"].starts_with(TWO));
        // The first repairer is not dead: it must not continue beside the other one.
        let server = keys.server().info("replication", "master_replid");
        let one = format!("{ONE}.{}", server.unwrap());
        assert_ne!(keys.begin(&one, LEASE_MS).0, "ok");
    });
}

/// Nodes have the whole grace to offer their answers of a loss, also of a loss that has grown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grace_of_a_repair_is_that_of_its_loss() {
    blocking(|| {
        const HOUR_MS: u64 = 3_600_000;
        let keys = Keys::new();
        let long_ago = keys.now() - HOUR_MS;
        keys.set(&[
            ("halted", "lost"),
            ("lost_from", "101"),
            ("lost_to", "110"),
            ("repair_since", &format!("101-110 {long_ago}")),
        ]);
        let (status, waited) = keys.begin(ONE, 10_000);
        assert!(status == "ok" && waited.unwrap() >= HOUR_MS, "{waited:?}");
        keys.set(&[("lost_to", "120")]);
        let (status, waited) = keys.begin(ONE, 10_000);
        assert!(status == "ok" && waited.unwrap() < HOUR_MS, "{waited:?}");
    });
}
