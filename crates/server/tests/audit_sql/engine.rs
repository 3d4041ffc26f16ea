//! A ledger held against the engine on Redis that it follows from, with entries in flight.

use std::{
    path::PathBuf,
    process::Output,
    sync::{Arc, OnceLock},
};

use qiang_core::{
    book::{Command, Setup, Steer},
    event::PartitionId,
    id::{OrderId, PaymentRef},
    money::Money,
    ports::{Engine as _, EventLog as _, Ledger},
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{Options, RedisEngine};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPEN_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::{
        Port,
        redis::{Options as ServerOptions, Standalone},
    },
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{DATA_MODEL, Kind, audit, next, opened};

const PARTITIONS: u16 = 3;
/// Audits that are made while grants are made, settled and released, and at most how many grants.
const AUDITS: usize = 8;
const GRANTS_MAX: u32 = 100_000;
/// Grants that are made before they are settled together.
const BATCH: usize = 3;

fn server() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

/// Where the ledger is.
enum Place {
    File(TempDir, PathBuf),
    Database(String),
}

struct World {
    runtime: Runtime,
    clock: Arc<ManualClock>,
    place: Place,
    ledger: Arc<dyn Ledger>,
    engine: RedisEngine,
    prefix: String,
}

impl World {
    /// An engine that spreads all campaigns of ten units and more over three partitions; in a database or in a file.
    fn new(kind: Option<Kind>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let clock = ManualClock::new(OPENS);
        let prefix = format!("audit{}", next());
        let (place, ledger) = match kind {
            Some(kind) => {
                let url = kind.database();
                let ledger = runtime.block_on(opened(&url, Arc::clone(&clock)));
                (Place::Database(url), ledger)
            }
            None => {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("ledger.db");
                let ledger = SqliteLedger::open(&path, Arc::clone(&clock) as _);
                let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
                (Place::File(folder, path), Arc::new(ledger) as _)
            }
        };
        let options = Options {
            urls: vec![server().url()],
            prefix: prefix.clone(),
            partitions: PARTITIONS,
            spread_from: 10,
            spread_over: PARTITIONS,
            clock: Some(Arc::clone(&clock) as _),
            ..Options::default()
        };
        let engine = runtime.block_on(RedisEngine::connect(options, &[]));
        Self {
            engine: engine.unwrap_or_else(|error| panic!("{error:?}")),
            runtime,
            clock,
            place,
            ledger,
            prefix,
        }
    }

    fn enter(&self, n: u64, builder: &Builder) -> Setup {
        let setup = builder.clone().window(OPENS, 100 * OPEN_MS).setup(n);
        let minor = setup.campaign.funded_minor();
        self.runtime.block_on(async {
            if minor > 0 {
                let (id, amount) = (Uuid::from_u128(n.into()), Money::new(minor, currency()));
                self.ledger.deposit(id, &user(OWNER), amount).await.unwrap();
            }
            self.ledger.create(&setup).await.unwrap();
        });
        setup
    }

    fn open(&self, n: u64, builder: &Builder) -> Target {
        let setup = self.enter(n, builder);
        self.submit(Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    fn submit(&self, command: Command) {
        self.runtime.block_on(self.engine.submit(command)).unwrap();
    }

    fn granted(&self, target: Target, name: &str) -> OrderId {
        let claimed = self.runtime.block_on(self.engine.claim(target.one(name)));
        claimed
            .unwrap()
            .outcome
            .grant()
            .expect("granted")
            .order_id()
    }

    fn close(&self, target: Target) {
        let (campaign, steer) = (target.id, Steer::Close);
        self.submit(Command::Steer { campaign, steer });
    }

    /// Settles all partitions, but for so many entries at the end of each; returns how many those are.
    fn settle(&self, but: usize) -> usize {
        self.runtime.block_on(async {
            let mut left = 0;
            for partition in (0..PARTITIONS).map(PartitionId) {
                let after = self.ledger.settled(partition).await.unwrap();
                let log = self.engine.read(partition, after, 100_000).await.unwrap();
                let upto = log.len().saturating_sub(but);
                self.ledger.settle(partition, &log[..upto]).await.unwrap();
                left += log.len() - upto;
            }
            left
        })
    }

    fn audit(&self, more: &[&str]) -> Output {
        let (url, prefix) = (server().url(), self.prefix.clone());
        let mut args = vec!["--redis", &url, "--prefix", &prefix];
        match &self.place {
            Place::File(_, path) => args.extend(["--db", path.to_str().unwrap()]),
            Place::Database(url) => args.extend(["--ledger", url]),
        }
        args.extend(more);
        audit(&args)
    }

    /// What is broken, with the first line of each, and how many entries are in flight.
    fn broken(&self) -> (Vec<(String, String)>, u64) {
        let output = self.audit(&["--json"]);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let checks = report["checks"].as_array().unwrap();
        for name in ["engine_positions", "engine_counts"] {
            assert!(DATA_MODEL.contains(&format!("`{name}`")), "{name}");
            let made = checks.iter().find(|check| check["name"] == name).unwrap();
            assert!(made["ok"].is_boolean());
        }
        let broken = checks.iter().filter(|check| check["ok"] == false);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let broken = broken.map(|check| (text(&check["name"]), text(&check["offending"][0])));
        (broken.collect(), report["in_flight"].as_u64().unwrap())
    }

    fn redis(&self, args: &[&str]) {
        let client = redis::Client::open(server().url()).unwrap();
        let mut conn = client.get_connection().unwrap();
        let mut command = redis::cmd(args[0]);
        for arg in &args[1..] {
            command.arg(arg.replace("P:", &format!("{}:", self.prefix)));
        }
        let _: redis::Value = command.query(&mut conn).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.close());
    }
}

/// Packets and sales, spread and in one piece, with something of everything. After the first half all is settled.
fn history(world: &World) {
    let lazy = world.open(1, &red_packet(500, 10, SplitRule::Lazy { min: 10 }));
    let normal = world.open(
        2,
        &red_packet(1_000, 12, SplitRule::Normal { min: 50, max: 200 }),
    );
    let closed = world.open(3, &red_packet(100, 5, SplitRule::Equal));
    let spread = world.open(4, &sale(30).price(7));
    let single = world.open(5, &sale(6).price(7));
    let done = world.open(6, &sale(6).price(7));
    let first: Vec<_> = [spread, single, done]
        .into_iter()
        .map(|sale| {
            (0..5)
                .map(|n| world.granted(sale, &format!("u{n}")))
                .collect::<Vec<_>>()
        })
        .collect();
    for packet in [lazy, normal, closed] {
        world.granted(packet, "u0");
        world.granted(packet, "u1");
    }
    world.close(done);
    world.settle(0);

    // What follows stays in flight for a while: ends of orders from before and from after, before a close and after it.
    for packet in [lazy, normal, closed] {
        world.granted(packet, "u2");
    }
    world.close(closed);
    for orders in &first {
        let payment = PaymentRef::new("p-0").unwrap();
        world.submit(Command::Pay {
            order: orders[0],
            payment,
        });
        world.submit(Command::Cancel { order: orders[1] });
    }
    for sale in [spread, single] {
        let order = world.granted(sale, "u7");
        world.granted(sale, "u8");
        world.submit(Command::Cancel { order });
    }
    world.clock.advance(HOLD_MS);
    world.submit(Command::Tick { events_max: 1_000 });
    for orders in &first[..2] {
        let payment = PaymentRef::new("p-2").unwrap();
        world.submit(Command::Pay {
            order: orders[2],
            payment,
        });
    }
    world.close(spread);
    world.enter(7, &sale(3));
    world.open(8, &sale(30));
}

#[test]
fn what_is_in_flight_is_understood() {
    for kind in [Some(Kind::Postgres), Some(Kind::MariaDb), None] {
        let world = World::new(kind);
        assert_eq!(world.broken(), (vec![], 0), "before the first campaign");
        history(&world);
        for but in [1_000, 20, 9, 4, 1, 0] {
            let left = world.settle(but);
            assert_eq!(world.broken(), (vec![], left as u64));
            if but == 1_000 {
                assert!(left > 30, "{left} entries in flight");
                let text = String::from_utf8(world.audit(&[]).stdout).unwrap();
                let line =
                    format!("in flight, in the engine's log and not settled: {left} entries");
                assert!(text.contains(&line), "{text}");
            }
        }
        // What is settled may be gone from the log.
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

/// What the ledger has set aside is known, and not lost: what the engine has granted adds up with it.
#[test]
fn what_is_set_aside_is_not_lost() {
    for kind in [Some(Kind::Postgres), Some(Kind::MariaDb), None] {
        let world = World::new(kind);
        history(&world);
        let mut aside = Vec::new();
        world.runtime.block_on(async {
            for partition in (0..PARTITIONS).map(PartitionId) {
                let after = world.ledger.settled(partition).await.unwrap();
                let log = world.engine.read(partition, after, 100_000).await.unwrap();
                // Each third one, unless it waits for one that is there already.
                for (n, entry) in log.iter().enumerate() {
                    let refused = match n % 3 {
                        0 => world.ledger.set_aside(partition, entry, "asked for").await,
                        _ => {
                            world
                                .ledger
                                .settle(partition, std::slice::from_ref(entry))
                                .await
                        }
                    };
                    assert_eq!(refused, Ok(entry.seq));
                }
                let list = world.ledger.list_aside(None, 1_000).await.unwrap();
                let own = list.iter().filter(|row| row.partition == partition);
                aside.extend(own.map(|row| (partition, row.entry.seq)));
                // What the ledger has in either way may be gone from the log.
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

#[test]
fn what_differs_is_reported() {
    let world = World::new(Some(Kind::Postgres));
    history(&world);
    let left = world.settle(3);
    let Place::Database(url) = &world.place else {
        panic!("it is in a database")
    };
    let check = |names: &[&str], shown: &str| {
        let (broken, _) = world.broken();
        let found: Vec<&str> = broken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names, "{broken:#?}");
        let told = broken.iter().any(|(_, line)| line.contains(shown));
        assert!(told, "{shown}: {broken:#?}");
    };
    assert_eq!(world.broken(), (vec![], left as u64));

    // A grant that one of them does not have.
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
    check(&["engine_counts"], "campaign #5 in partition");
    count("-1");
    assert_eq!(world.broken(), (vec![], left as u64));

    // Entries that the ledger never got.
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

    // More than the engine has.
    Kind::Postgres.run(
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

    // An engine that has lost everything.
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

/// Grants are made, settled and released for as long as both are read.
#[test]
fn both_are_read_as_of_the_same_moment() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
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
                // The engine trims what is cheap to trim; here it is gone at once.
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
fn engines_that_cannot_be_compared_are_said_to_be() {
    let world = World::new(None);
    let check = |output: &Output, said: &str| {
        let text = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(said) && !text.contains("secret"), "{text}");
    };
    check(
        &world.audit(&["--partitions", "8"]),
        "the engine has 3 partitions, and --partitions says 8",
    );
    let Place::File(folder, path) = &world.place else {
        panic!("it is in a file")
    };
    let path = path.to_str().unwrap();
    let port = Port::free();
    let url = format!("redis://ann:secret@{}", port.addr());
    check(
        &audit(&["--db", path, "--redis", &url]),
        "cannot connect to Redis",
    );
    let url = "redis://ann:secret@127.0.0.1:port";
    check(
        &audit(&["--db", path, "--redis", url]),
        "the engine's URL cannot be read",
    );

    let own = folder.path().join("engine.db");
    let embedded = qiang_embedded::Embedded::open(&own, ManualClock::new(OPENS)).unwrap();
    let url = server().url();
    check(
        &audit(&["--db", own.to_str().unwrap(), "--redis", &url]),
        "it has its log in it, and no other engine beside it",
    );
    embedded.close();
}
