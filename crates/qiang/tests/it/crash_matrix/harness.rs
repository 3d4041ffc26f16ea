//! Fixture of a cell: servers, an engine with two campaigns, a ledger, and the process that settles.

use std::{
    path::PathBuf,
    process::Command as Program,
    time::{Duration, Instant},
};

use lapin::{Connection, ConnectionProperties, options::QueueDeleteOptions};
use qiang_core::{
    book::{Command, Reply, Setup},
    event::{PartitionId, Seq},
    money::Money,
    ports::{Engine as _, EventLog as _},
    split::SplitRule,
    time::Timestamp,
};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    campaign::{Target, currency, red_packet, sale, user},
    servers::{
        rabbitmq::RabbitMq,
        redis::{Options as ServerOptions, Standalone},
    },
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{UnixListener, UnixStream},
};
use uuid::Uuid;

use crate::crash_matrix::{
    LedgerKind, Step, TransportKind,
    ledgers::CellLedger,
    pool::{self, Lent},
    settler::{Order, Role, Settler, Stop},
};

/// Bound of every wait on a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for which a dead worker keeps its partitions.
pub(crate) const LEASE: Duration = Duration::from_millis(1_000);
/// Owner of the campaigns, the total of the packet, and the price of a unit.
pub(crate) const OWNER: &str = qiang_testkit::campaign::OWNER;
pub(crate) const PACKET_MINOR: i64 = 500_000;
pub(crate) const UNIT_MINOR: i64 = 100;
/// A process stops at the first step from this position on: by then settlement runs at full load.
pub(crate) const FROM: Seq = 200;

const PREFIX: &str = "crash";
const PARTITIONS: u16 = 2;
/// Stock: more units than users. Shares: fewer than users, so that the last share is claimed as well.
const STOCK: u32 = 50_000;
const SHARES: u32 = 500;
/// Hold that is longer than any cell takes.
const HOLD_MS: i64 = 3_600_000;
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Waits until `look` returns true, within a bound.
pub(crate) async fn wait_for(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !look().await {
        assert!(Instant::now() < until, "waited in vain for {what}");
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Runs synchronous code of fixtures.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

pub(crate) struct Harness {
    pub(crate) transport_kind: TransportKind,
    pub(crate) redis: Standalone,
    pub(crate) rabbit: Option<Lent<RabbitMq>>,
    pub(crate) ledger: CellLedger,
    pub(crate) engine: RedisEngine,
    pub(crate) setups: [Setup; 2],
    listener: UnixListener,
    socket: PathBuf,
    _folder: TempDir,
}

/// Report of a process that has stopped. The process continues when the value is dropped.
pub(crate) struct Report {
    pub(crate) what: String,
    pub(crate) partition: PartitionId,
    pub(crate) place: Seq,
    _stream: UnixStream,
}

impl Harness {
    /// Starts a cell. Redis syncs its append-only file before each answer. The engine retries a claim for `patience`,
    /// and then reports an unknown result.
    pub(crate) async fn new(
        transport_kind: TransportKind,
        kind: LedgerKind,
        patience: Duration,
    ) -> Self {
        let redis = blocking(|| Standalone::start(&ServerOptions::new().fsync_always()));
        let rabbit = (transport_kind == TransportKind::RabbitMq).then(|| blocking(pool::rabbitmq));
        let ledger = CellLedger::new(kind).await;
        let options = RedisOptions {
            urls: vec![redis.url()],
            prefix: PREFIX.to_owned(),
            partitions: PARTITIONS,
            shard_supply_min: STOCK,
            shards_max: PARTITIONS,
            call_timeout: Duration::from_millis(500),
            claim_timeout: patience,
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options, &[]).await;
        let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
        let split = SplitRule::DoubleAverage { min: 1 };
        // Open at any time of the clock of Redis: 20 years from 2020 on.
        let (opens, open_ms) = (Timestamp::from_millis(1_577_836_800_000), 631_152_000_000);
        let on_sale = sale(STOCK).price(UNIT_MINOR).hold_ms(HOLD_MS);
        let packet = red_packet(PACKET_MINOR, SHARES, split);
        let setups = [
            on_sale.window(opens, open_ms).setup(1),
            packet.window(opens, open_ms).setup(2),
        ];
        ledger
            .with(async |ledger| {
                let amount = Money::new(PACKET_MINOR, currency());
                let id = Uuid::from_u128(1);
                ledger.deposit(id, &user(OWNER), amount).await.unwrap();
                for setup in &setups {
                    ledger.create(setup).await.unwrap();
                }
            })
            .await;
        for setup in &setups {
            let opened = engine.submit(Command::Open(Box::new(setup.clone()))).await;
            assert_eq!(opened, Ok(Reply::Opened));
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        Self {
            transport_kind,
            redis,
            rabbit,
            ledger,
            engine,
            setups,
            listener: UnixListener::bind(&socket).unwrap(),
            socket,
            _folder: folder,
        }
    }

    pub(crate) fn targets(&self) -> [Target; 2] {
        [Target::of(&self.setups[0]), Target::of(&self.setups[1])]
    }

    fn rabbit_url(&self) -> String {
        self.rabbit
            .as_ref()
            .map(|rabbit| rabbit.url())
            .unwrap_or_default()
    }

    /// Starts the process that stops.
    pub(crate) fn stopping(
        &self,
        role: Role,
        step: Option<Step>,
        rabbit: Option<String>,
    ) -> Settler {
        let order = Order {
            role,
            redis: self.redis.url(),
            prefix: PREFIX.to_owned(),
            partitions: PARTITIONS,
            ledger: self.ledger.address().to_owned(),
            transport_kind: self.transport_kind,
            rabbit: rabbit.unwrap_or_else(|| self.rabbit_url()),
            stop: step.map(|step| Stop {
                step,
                from: FROM,
                socket: self.socket.clone(),
            }),
        };
        blocking(|| Settler::start(&order.command()))
    }

    /// Starts `qiang worker`.
    pub(crate) fn worker(&self) -> Settler {
        let mut command = Program::new(env!("CARGO_BIN_EXE_qiang"));
        let (redis, rabbit) = (self.redis.url(), self.rabbit_url());
        command
            .args(["worker", "--engine", "redis", "--redis", &redis])
            .args([self.ledger.flag(), self.ledger.address()])
            .args(["--transport", self.transport_kind.name()])
            .env("QIANG__WORKER__LISTEN", "")
            .env("QIANG__REDIS__PREFIX", PREFIX)
            .env("QIANG__REDIS__RETAIN_MS", "0")
            .env("QIANG__REDIS__PARTITIONS", PARTITIONS.to_string())
            .env("QIANG__SETTLEMENT__LEASE_MS", LEASE.as_millis().to_string());
        if self.rabbit.is_some() {
            command.env("QIANG__SETTLEMENT__RABBITMQ_URL", rabbit);
        }
        blocking(|| Settler::start(&command))
    }

    /// The next report of a process.
    pub(crate) async fn report(&self, from: &Settler) -> Report {
        let watch = async {
            loop {
                from.check();
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(WAIT_MAX, self.listener.accept()) => accepted,
            never = watch => never,
        };
        let accepted =
            accepted.unwrap_or_else(|_| panic!("nothing was reported: {}", from.output()));
        let mut stream = BufReader::new(accepted.unwrap().0);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, partition, place] = words[..] else {
            panic!("{line:?}: {}", from.output());
        };
        Report {
            what: what.to_owned(),
            partition: PartitionId(partition.parse().unwrap()),
            place: place.parse().unwrap(),
            _stream: stream.into_inner(),
        }
    }

    /// Waits until a partition is settled up to a position.
    pub(crate) async fn wait_for_settled(&self, partition: PartitionId, place: Seq) {
        wait_for("a place to be settled", async || {
            let positions = self.ledger.positions().await;
            positions.get(&partition.0).is_some_and(|seq| *seq >= place)
        })
        .await;
    }

    /// Waits until all entries of the logs are settled.
    pub(crate) async fn wait_for_all(&self, by: &Settler) {
        let until = Instant::now() + WAIT_MAX;
        for partition in self.engine.partitions() {
            let head = self.engine.head(partition).await.unwrap();
            loop {
                let positions = self.ledger.positions().await;
                let settled = positions.get(&partition.0).copied().unwrap_or(0);
                assert!(settled <= head, "{settled} of {head} are settled");
                if settled == head {
                    break;
                }
                by.check();
                let said = || format!("{settled} of {head} are settled\n{}", by.output());
                assert!(Instant::now() < until, "{}", said());
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// Waits until the transports on Redis are empty, and settled entries are trimmed from the log.
    pub(crate) async fn wait_for_nothing_left(&self) {
        const PENDING: &str = "for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
                if group[6] > 0 then return group[6] end
            end
            return redis.call('XLEN', KEYS[1]) + redis.call('LLEN', KEYS[2]) + redis.call('LLEN', KEYS[3])
                + redis.call('LLEN', KEYS[4])";
        for partition in self.engine.partitions() {
            let key = |rest| format!("{PREFIX}:{{p{:02}}}:{rest}", partition.0);
            let keys = ["log", "queue", "doing", "dead"].map(key);
            let [log, queue, doing, dead] = &keys;
            let call = ["EVAL", PENDING, "4", log, queue, doing, dead];
            let left = || blocking(|| self.redis.primary().call(&call).unwrap().integer());
            wait_for("nothing to be left", async || left() == Some(0)).await;
        }
    }

    fn queues(&self) -> Vec<String> {
        let partitions = self.engine.partitions().into_iter();
        partitions
            .map(|partition| format!("{PREFIX}.p{:02}", partition.0))
            .collect()
    }

    /// Waits until RabbitMQ would recover its queues after a kill. The cell must have it.
    pub(crate) fn rabbit_to_kill(&self) -> &RabbitMq {
        let rabbit = self.rabbit.as_ref().expect("a cell with RabbitMQ");
        for queue in self.queues() {
            rabbit.wait_until_kept(&queue);
        }
        rabbit
    }

    /// Restores RabbitMQ for the next cell. Checks that no message was unreadable.
    pub(crate) async fn clear_rabbit(&self) {
        let Some(rabbit) = &self.rabbit else { return };
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&rabbit.url(), properties)
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        for queue in self.queues() {
            for queue in [format!("{queue}.dead"), queue.clone()] {
                let options = QueueDeleteOptions::default();
                let deleted = channel.queue_delete(queue.as_str().into(), options).await;
                let left = deleted.unwrap();
                assert!(left == 0 || !queue.ends_with(".dead"), "{left} messages");
            }
        }
        connection.close(200, "OK".into()).await.unwrap();
    }

    /// Arguments that name the engine for the audit.
    pub(crate) fn engine_flags(&self) -> [String; 4] {
        [
            "--redis".to_owned(),
            self.redis.url(),
            "--prefix".to_owned(),
            PREFIX.to_owned(),
        ]
    }

    /// Reasons of halted partitions, from Redis.
    pub(crate) fn halted(&self) -> Vec<String> {
        let partitions = self.engine.partitions().into_iter();
        let halted = partitions.filter_map(|partition| {
            let key = format!("{PREFIX}:{{p{:02}}}:partition", partition.0);
            let reply = self
                .redis
                .primary()
                .call(&["HGET", &key, "halted"])
                .unwrap();
            reply.text().map(str::to_owned)
        });
        halted.collect()
    }
}
