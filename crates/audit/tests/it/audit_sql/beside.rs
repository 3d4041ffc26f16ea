//! An engine on Redis, a ledger that follows it, and audits of both.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use qiang_audit::{AuditFindings, EnginePlace, LedgerPlace, ServerKind};
use qiang_core::{
    book::{CampaignAction, Command, Setup},
    campaign::SaleSettingsChange,
    event::PartitionId,
    id::{OrderId, PaymentRef},
    money::Money,
    payment::ReceivedMoney,
    ports::{Engine as _, EventLog as _, Ledger},
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{self as engine, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPEN_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::redis::{Options as ServerOptions, Standalone},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{AUDIT_PAGE, LedgerKind, next, opened, runtime};

pub(super) const PARTITIONS: u16 = 3;

pub(super) fn server() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

/// Place of the ledger.
pub(super) enum TestLedger {
    File { path: PathBuf, _folder: TempDir },
    Database(String),
}

pub(super) struct World {
    pub(super) runtime: Runtime,
    clock: Arc<ManualClock>,
    pub(super) test_ledger: TestLedger,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) engine: RedisEngine,
    pub(super) prefix: String,
    /// Place of the engine.
    pub(super) place: EnginePlace,
}

impl World {
    /// Starts an engine that spreads campaigns of ten or more units over three partitions, with a ledger in a database
    /// or in a file.
    pub(super) fn new(kind: Option<LedgerKind>) -> Self {
        let urls = vec![server().url()];
        let options = RedisOptions {
            urls,
            ..RedisOptions::default()
        };
        Self::on(kind, options)
    }

    /// The same on another Redis.
    pub(super) fn on(kind: Option<LedgerKind>, options: RedisOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let clock = ManualClock::new(OPENS);
        let prefix = format!("audit{}", next());
        let (test_ledger, ledger) = match kind {
            Some(kind) => {
                let url = kind.database();
                let ledger = runtime.block_on(opened(&url, Arc::clone(&clock)));
                (TestLedger::Database(url), ledger)
            }
            None => {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("ledger.db");
                let ledger = SqliteLedger::open(&path, Arc::clone(&clock) as _);
                let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
                (
                    TestLedger::File {
                        path,
                        _folder: folder,
                    },
                    Arc::new(ledger) as _,
                )
            }
        };
        let place = EnginePlace {
            urls: options.urls.clone(),
            topology: match &options.topology {
                engine::Topology::Standalone => ServerKind::Standalone,
                engine::Topology::Sentinel { master } => ServerKind::Sentinel {
                    master: master.clone(),
                },
                engine::Topology::Cluster => ServerKind::Cluster,
            },
            username: None,
            password: None,
            database: 0,
            prefix: prefix.clone(),
            partitions: None,
        };
        let options = RedisOptions {
            prefix: prefix.clone(),
            partitions: PARTITIONS,
            shard_supply_min: 10,
            shards_max: PARTITIONS,
            clock: Some(Arc::clone(&clock) as _),
            ..options
        };
        let engine = runtime.block_on(RedisEngine::connect(options, &[]));
        Self {
            engine: engine.unwrap_or_else(|error| panic!("{error:?}")),
            runtime,
            clock,
            test_ledger,
            ledger,
            prefix,
            place,
        }
    }

    pub(super) fn enter(&self, n: u64, builder: &Builder) -> Setup {
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

    pub(super) fn open(&self, n: u64, builder: &Builder) -> Target {
        let setup = self.enter(n, builder);
        self.submit(Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    pub(super) fn submit(&self, command: Command) {
        self.runtime.block_on(self.engine.submit(command)).unwrap();
    }

    pub(super) fn granted(&self, target: Target, name: &str) -> OrderId {
        let claimed = self.runtime.block_on(self.engine.claim(target.one(name)));
        claimed
            .unwrap()
            .outcome
            .grant()
            .expect("granted")
            .order_id()
    }

    pub(super) fn set_stock(&self, target: Target, stock: u64) {
        let campaign = target.id;
        self.submit(Command::SetStock { campaign, stock });
    }

    pub(super) fn set_price(&self, target: Target, minor: i64) {
        let campaign = target.id;
        let change = SaleSettingsChange {
            unit_price_minor: Some(minor),
            ..SaleSettingsChange::default()
        };
        self.submit(Command::SetTerms { campaign, change });
    }

    pub(super) fn close(&self, target: Target) {
        let (campaign, action) = (target.id, CampaignAction::Close);
        self.submit(Command::Act { campaign, action });
    }

    /// Settles all partitions, except for `but` entries at the end of each. Returns the number of unsettled entries.
    pub(super) fn settle(&self, but: usize) -> usize {
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

    /// Audits the ledger together with an engine.
    pub(super) fn audit(&self, place: &EnginePlace) -> anyhow::Result<AuditFindings> {
        let ledger = match &self.test_ledger {
            TestLedger::File { path, .. } => LedgerPlace::File(path),
            TestLedger::Database(url) => LedgerPlace::Database(url),
        };
        runtime().block_on(qiang_audit::audit_beside(ledger, place))
    }

    /// Broken checks with their first lines, and the number of entries in flight.
    pub(super) fn broken(&self) -> (Vec<(String, String)>, u64) {
        let report = serde_json::to_value(self.audit(&self.place).unwrap()).unwrap();
        let checks = report["checks"].as_array().unwrap();
        for name in [
            "engine_positions",
            "engine_counts",
            "engine_stock",
            "engine_terms",
            "engine_withheld",
            "engine_users",
        ] {
            assert!(AUDIT_PAGE.contains(&format!("`{name}`")), "{name}");
            let made = checks.iter().find(|check| check["name"] == name).unwrap();
            assert!(made["ok"].is_boolean());
        }
        let broken = checks.iter().filter(|check| check["ok"] == false);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let broken = broken.map(|check| (text(&check["name"]), text(&check["offending"][0])));
        (broken.collect(), report["in_flight"].as_u64().unwrap())
    }

    /// Offending lines of a check.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let report = serde_json::to_value(self.audit(&self.place).unwrap()).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        let lines = check["offending"].as_array().unwrap().iter();
        lines
            .map(|line| line.as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) fn redis(&self, args: &[&str]) {
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

/// Packets and sales, spread and in one part, with every kind of step. The first half is settled.
pub(super) fn history(world: &World) {
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

    for (sale, stock) in [(spread, 50), (single, 20)] {
        world.set_stock(sale, stock);
        world.set_price(sale, 8);
    }
    world.settle(0);

    // The rest stays in flight for a while: orders that end before and after a close.
    for packet in [lazy, normal, closed] {
        world.granted(packet, "u2");
    }
    for (sale, stock) in [(spread, 20), (single, 15), (single, 6), (spread, 30)] {
        world.set_stock(sale, stock);
        world.set_price(sale, stock as i64);
    }
    world.close(closed);
    for orders in &first {
        let payment = PaymentRef::new("p-0").unwrap();
        world.submit(Command::Pay {
            order: orders[0],
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        });
        world.submit(Command::Cancel {
            order: orders[1],
            part: None,
        });
    }
    for sale in [spread, single] {
        let order = world.granted(sale, "u7");
        world.granted(sale, "u8");
        world.submit(Command::Cancel { order, part: None });
    }
    world.clock.advance(HOLD_MS);
    world.submit(Command::Tick { events_max: 1_000 });
    for orders in &first[..2] {
        let payment = PaymentRef::new("p-2").unwrap();
        world.submit(Command::Pay {
            order: orders[2],
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        });
    }
    world.close(spread);
    world.enter(7, &sale(3));
    world.open(8, &sale(30));
}
