//! Comparison of a ledger with the engine on Redis that it follows, with entries in flight.

use qiang_audit::{AuditFindings, EnginePlace, LedgerPlace};
use qiang_core::{
    event::PartitionId,
    ports::{EventLog as _, RepairAttempt, RepairRecord, WithheldRecord},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
    servers::Port,
};
use tempfile::TempDir;

use super::{
    LedgerKind,
    beside::{PARTITIONS, TestLedger, World, history, server},
    runtime,
};

/// Number of audits during grants, settlement and releases, and maximum grants.
const AUDITS: usize = 8;
const GRANTS_MAX: u32 = 100_000;
/// Grants per settlement.
const BATCH: usize = 3;

#[test]
fn what_is_in_flight_is_understood() {
    for kind in [Some(LedgerKind::Postgres), Some(LedgerKind::MariaDb), None] {
        let world = World::new(kind);
        assert_eq!(world.broken(), (vec![], 0), "before the first campaign");
        history(&world);
        for but in [1_000, 20, 9, 4, 1, 0] {
            let left = world.settle(but);
            assert_eq!(world.broken(), (vec![], left as u64));
            if but == 1_000 {
                assert!(left > 30, "{left} entries in flight");
                let text = world.audit(&world.place).unwrap().to_string();
                let line =
                    format!("in flight, in the engine's log and not settled: {left} entries");
                assert!(text.contains(&line), "{text}");
            }
        }
        // Settled entries may be trimmed from the log.
        for partition in 0..PARTITIONS {
            world.redis(&[
                "XTRIM",
                &format!("P:{{p{partition:02}}}:log"),
                "MAXLEN",
                "0",
            ]);
        }
        assert_eq!(world.broken(), (vec![], 0));
    }
}

/// The audit knows quarantined entries: with them, the engine's grants add up.
#[test]
fn what_is_set_aside_is_not_lost() {
    for kind in [Some(LedgerKind::Postgres), Some(LedgerKind::MariaDb), None] {
        let world = World::new(kind);
        history(&world);
        let mut aside = Vec::new();
        world.runtime.block_on(async {
            for partition in (0..PARTITIONS).map(PartitionId) {
                let after = world.ledger.settled(partition).await.unwrap();
                let log = world.engine.read(partition, after, 100_000).await.unwrap();
                // Quarantines every third entry. Others may wait for a quarantined one.
                for (n, entry) in log.iter().enumerate() {
                    let refused = match n % 3 {
                        0 => world.ledger.quarantine(partition, entry, "asked for").await,
                        _ => {
                            world
                                .ledger
                                .settle(partition, std::slice::from_ref(entry))
                                .await
                        }
                    };
                    assert_eq!(refused, Ok(entry.seq));
                }
                let list = world.ledger.list_quarantined(None, 1_000).await.unwrap();
                let own = list.iter().filter(|row| row.partition == partition);
                aside.extend(own.map(|row| (partition, row.entry.seq)));
                // Settled and quarantined entries may be trimmed from the log.
                let head = log.last().map_or(after, |entry| entry.seq);
                world.engine.release(partition, head).await.unwrap();
            }
        });
        assert!(aside.len() > 10, "{aside:?}");
        let (broken, in_flight) = world.broken();
        let names: Vec<_> = broken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (names, in_flight),
            (vec!["nothing_aside"], 0),
            "{broken:#?}"
        );
        for (partition, seq) in aside {
            let driven = world.ledger.redrive(partition, seq);
            assert_eq!(world.runtime.block_on(driven), Ok(true));
        }
        assert_eq!(world.broken(), (vec![], 0));
    }
}

/// A buyer's row that was edited by hand, one without orders, and one that is missing.
#[test]
fn units_of_buyers_are_compared() {
    let script = "local all = redis.call('HGETALL', KEYS[1]) \
                  for i = 1, #all, 2 do \
                      local units, rest = string.match(all[i + 1], '^(%d+)(.*)$') \
                      if tonumber(units) > 0 then \
                          if ARGV[1] == 'missing' then redis.call('HDEL', KEYS[1], all[i]) \
                          else redis.call('HSET', KEYS[1], all[i], units + 1 .. rest) end \
                          return 1 \
                      end \
                  end";
    let world = World::new(Some(LedgerKind::Postgres));
    history(&world);
    world.settle(0);
    assert_eq!(world.broken(), (vec![], 0));
    // In one part, and spread.
    for n in [5, 4] {
        let id = sale(6).price(7).setup(n).campaign.id;
        let keys = (0..PARTITIONS).map(|part| format!("P:{{p{part:02}}}:c:{id}:users"));
        let keys: Vec<_> = keys.collect();
        for (change, shown) in [
            ("edited", "the engine counts"),
            (
                "unknown",
                "the engine counts 2 units of user stranger, and the orders have 0",
            ),
            ("missing", "the engine does not have user"),
        ] {
            for key in &keys {
                world.redis(&["COPY", key, &format!("{key}:kept"), "REPLACE"]);
                if change == "unknown" {
                    world.redis(&["HSET", key, "stranger", "2\t0\t1"]);
                } else {
                    world.redis(&["EVAL", script, "1", key, change]);
                }
            }
            let (broken, _) = world.broken();
            let names: Vec<_> = broken.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["engine_users"], "{change} in {n}: {broken:#?}");
            assert!(broken[0].1.contains(shown), "{change} in {n}: {broken:#?}");
            for key in &keys {
                world.redis(&["DEL", key]);
                world.redis(&["COPY", &format!("{key}:kept"), key, "REPLACE"]);
            }
            assert_eq!(world.broken(), (vec![], 0));
        }
    }
}

#[test]
fn what_differs_is_reported() {
    let world = World::new(Some(LedgerKind::Postgres));
    history(&world);
    let left = world.settle(3);
    let TestLedger::Database(url) = &world.test_ledger else {
        panic!("it is in a database")
    };
    let check = |names: &[&str], shown: &str| {
        let (broken, _) = world.broken();
        let found: Vec<&str> = broken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names, "{broken:#?}");
        let found = broken.iter().any(|(_, line)| line.contains(shown));
        assert!(found, "{shown}: {broken:#?}");
    };
    assert_eq!(world.broken(), (vec![], left as u64));

    // A grant that only the engine has.
    let id = sale(6).price(7).setup(5).campaign.id;
    let count = |by: &str| {
        let script = "if redis.call('EXISTS', KEYS[1]) == 1 then \
                          redis.call('HINCRBY', KEYS[1], 'granted', ARGV[1]) end";
        for partition in 0..PARTITIONS {
            let key = format!("P:{{p{partition:02}}}:c:{id}");
            world.redis(&["EVAL", script, "1", &key, by]);
        }
    };
    count("1");
    check(
        &["engine_counts", "engine_stock"],
        "campaign #5 in partition",
    );
    count("-1");
    assert_eq!(world.broken(), (vec![], left as u64));

    // Other units or terms in the engine than in the ledger, for a sale in one part and for a spread one.
    for (n, field, check_name) in [
        (5, "supply", "engine_stock"),
        (4, "stock", "engine_stock"),
        (5, "price", "engine_terms"),
        (4, "limit", "engine_terms"),
        (5, "admit", "engine_terms"),
    ] {
        let id = sale(6).price(7).setup(n).campaign.id;
        let add = |by: &str| {
            let script = "if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then \
                              redis.call('HINCRBY', KEYS[1], ARGV[2], ARGV[1]) end";
            for partition in 0..PARTITIONS {
                let key = format!("P:{{p{partition:02}}}:c:{id}");
                world.redis(&["EVAL", script, "1", &key, by, field]);
            }
        };
        add("3");
        check(&[check_name], &format!("campaign #{n} in partition"));
        add("-3");
        assert_eq!(world.broken(), (vec![], left as u64));
    }

    // Units without an origin that one part of a spread sale can grant.
    let id_of_spread = sale(30).price(7).setup(8).campaign.id;
    let create = |units: &str| {
        let key = format!("P:{{p01}}:c:{id_of_spread}");
        for field in ["supply", "remaining"] {
            world.redis(&["HINCRBY", &key, field, units]);
        }
    };
    create("4");
    check(
        &["engine_stock"],
        "campaign #8: its parts in the engine have 34 units together, and there are 30",
    );
    create("-4");
    assert_eq!(world.broken(), (vec![], left as u64));

    // Units that a repair withholds, but the engine can grant.
    world.runtime.block_on(async {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let repair = RepairRecord {
                partition,
                epoch: "e".to_owned(),
                follows: String::new(),
                at: OPENS,
                lost_from: 1,
                lost_to: 2,
                unnamed: 2,
                reason: "asked for".to_owned(),
                upto: None,
            };
            let attempt = attempt(partition);
            world.ledger.claim_repair(&attempt).await.unwrap();
            world.ledger.begin_repair(&repair, &attempt).await.unwrap();
            let withheld = WithheldRecord {
                partition,
                epoch: repair.epoch.clone(),
                campaign: id,
                units: 2,
                amount_minor: 0,
                numbers: Vec::new(),
                released_at: None,
            };
            world.ledger.withhold(&withheld, &attempt).await.unwrap();
        }
    });
    assert_eq!(
        world.broken(),
        (vec![], left as u64),
        "the repair is running"
    );
    world.runtime.block_on(async {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let attempt = attempt(partition);
            let finished = world.ledger.finish_repair("e", 1_000_000, &attempt);
            finished.await.unwrap();
        }
    });
    check(
        &["engine_withheld"],
        "repairs withhold 2 units, and the engine 0",
    );
    let withhold = |units: &str| {
        let script = "if redis.call('EXISTS', KEYS[1]) == 1 then \
                          local before = redis.call('HGET', KEYS[1], 'withheld') or 0; \
                          redis.call('HINCRBY', KEYS[1], 'supply', before - ARGV[1]); \
                          redis.call('HINCRBY', KEYS[1], 'remaining', before - ARGV[1]); \
                          redis.call('HSET', KEYS[1], 'withheld', ARGV[1]) end";
        for partition in 0..PARTITIONS {
            let key = format!("P:{{p{partition:02}}}:c:{id}");
            world.redis(&["EVAL", script, "1", &key, units]);
        }
    };
    withhold("1");
    check(
        &["engine_withheld"],
        "repairs withhold 2 units, and the engine 1",
    );
    withhold("2");
    assert_eq!(world.broken(), (vec![], left as u64));

    // Entries that the ledger never received.
    let settled = world
        .runtime
        .block_on(world.ledger.settled(PartitionId(1)))
        .unwrap();
    world.redis(&["XTRIM", "P:{p01}:log", "MAXLEN", "0"]);
    let (broken, _) = world.broken();
    let missing = format!("partition 1: entry {} of {}", settled + 1, settled + 3);
    assert!(
        broken.contains(&(
            "engine_positions".to_owned(),
            format!("{missing} is neither settled nor in the log")
        )),
        "{broken:#?}"
    );

    // The ledger has more than the engine.
    LedgerKind::Postgres.run(
        url,
        "UPDATE settled SET seq = seq + 1000 WHERE partition = 0",
    );
    let (broken, _) = world.broken();
    assert!(
        broken.iter().any(|(name, line)| name == "engine_positions"
            && line.contains("partition 0 is settled up to")
            && line.contains("the engine's log ends at")),
        "{broken:#?}"
    );

    // The engine has lost everything.
    for partition in 0..PARTITIONS {
        world.redis(&["DEL", &format!("P:{{p{partition:02}}}:partition")]);
    }
    let (broken, _) = world.broken();
    assert!(
        broken
            .iter()
            .any(|(_, line)| line.contains("the engine has no state of it")),
        "{broken:#?}"
    );
}

fn attempt(partition: PartitionId) -> RepairAttempt {
    RepairAttempt {
        partition,
        number: 1,
        repairer: "r".to_owned(),
    }
}

/// Grants are made, settled and released during the reads of both sides.
#[test]
fn both_are_read_as_of_the_same_moment() {
    for kind in [LedgerKind::Postgres, LedgerKind::MariaDb] {
        let world = World::new(Some(kind));
        let target = world.open(1, &sale(GRANTS_MAX).price(7));
        std::thread::scope(|scope| {
            let audits = scope.spawn(|| {
                for _ in 0..AUDITS {
                    let (broken, _) = world.broken();
                    assert_eq!(broken, vec![]);
                }
            });
            let mut users = 0..GRANTS_MAX;
            while !audits.is_finished() {
                for n in users.by_ref().take(BATCH) {
                    world.granted(target, &format!("u{n}"));
                }
                assert!(!users.is_empty(), "the audits take for ever");
                world.settle(0);
                // The engine trims the log lazily; the test trims it at once.
                for partition in 0..PARTITIONS {
                    world.redis(&[
                        "XTRIM",
                        &format!("P:{{p{partition:02}}}:log"),
                        "MAXLEN",
                        "0",
                    ]);
                }
            }
            audits.join().unwrap();
        });
    }
}

#[test]
fn engines_that_cannot_be_compared_are_refused() {
    let world = World::new(None);
    let check = |audited: anyhow::Result<AuditFindings>, expected: &str| {
        let text = crate::outcome::refusal(audited);
        assert!(text.contains(expected), "{text}");
    };
    let with = |urls: &str, partitions: Option<u16>| EnginePlace {
        urls: vec![urls.to_owned()],
        partitions,
        ..world.place.clone()
    };
    check(
        world.audit(&with(&server().url(), Some(8))),
        "the engine has 3 partitions, and --partitions says 8",
    );
    let port = Port::free();
    let url = format!("redis://ann:secret@{}", port.addr());
    check(world.audit(&with(&url, None)), "cannot connect to Redis");
    let url = "redis://ann:secret@127.0.0.1:port";
    check(
        world.audit(&with(url, None)),
        "the engine's URL cannot be read",
    );

    let folder = TempDir::new().unwrap();
    let own = folder.path().join("engine.db");
    let embedded = qiang_embedded::Embedded::open(&own, ManualClock::new(OPENS)).unwrap();
    let beside = qiang_audit::audit_beside(LedgerPlace::File(&own), &world.place);
    check(
        runtime().block_on(beside),
        "it has its log in it, and cannot be compared with another engine",
    );
    embedded.close();
}
