//! The transport on RabbitMQ, as a subject of the suite.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeleteOptions},
};
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{Engine, EventLog, Ledger},
};
use qiang_redis::remove_transports;
use qiang_testkit::{
    ManualClock,
    conformance::transport::{TransportSubject, Worker},
    servers::rabbitmq::RabbitMq,
};
use qiang_worker::broker::{BrokerOptions, RabbitTransport};

use crate::node::ledgers::{InFile, LedgerDatabase};
use crate::node::transports::{on_redis::Ends, worker::Consumers};

/// Time that a worker waits for entries. Cases that kill the server wait this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Servers that cases have killed and restarted. The next case that needs its own server uses one, because a start
/// takes seconds.
static USED: Mutex<Vec<Arc<RabbitMq>>> = Mutex::new(Vec::new());

/// An engine on Redis, a ledger, and RabbitMQ between them.
pub(crate) struct OnRabbit<L = InFile> {
    pub(crate) ends: Ends,
    pub(crate) server: Arc<RabbitMq>,
    prefix: String,
    own: bool,
    ledger: PhantomData<L>,
}

impl<L> OnRabbit<L> {
    pub(crate) fn queue(&self, partition: PartitionId) -> String {
        format!("{}.p{:02}", self.prefix, partition.0)
    }

    /// A channel apart from those of the workers, and the connection that keeps it open.
    pub(crate) async fn channel(&self) -> (Connection, Channel) {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.server.url(), properties).await;
        let connection = connection.expect("RabbitMQ takes connections");
        let channel = connection.create_channel().await;
        (connection, channel.expect("a channel"))
    }

    pub(crate) async fn publish(&self, channel: &Channel, partition: PartitionId, body: &[u8]) {
        let published = channel.basic_publish(
            "".into(),
            self.queue(partition).as_str().into(),
            BasicPublishOptions::default(),
            body,
            BasicProperties::default(),
        );
        let confirm = published.await.expect("it is published").await;
        assert!(confirm.expect("an answer").is_ack());
    }

    pub(crate) fn worker_with(&self, options: BrokerOptions) -> Arc<dyn Worker> {
        let log = self.ends.engine.clone();
        let ledger = self.ends.book.shared();
        let transport = RabbitTransport::start(options, Arc::new(log.clone()), ledger);
        let transport = transport.unwrap_or_else(|error| panic!("{error}"));
        Arc::new(Consumers::new(transport, log))
    }

    pub(crate) fn options(&self, name: &str) -> BrokerOptions {
        let mut options = BrokerOptions::new(&self.server.url(), name);
        if self.own {
            options.patience = PATIENCE;
        }
        BrokerOptions {
            prefix: self.prefix.clone(),
            ..options
        }
    }
}

impl<L: LedgerDatabase> TransportSubject for OnRabbit<L> {
    const TAKEOVER_MAX: Duration = Duration::from_secs(5);

    async fn start(clock: Arc<ManualClock>, own: bool) -> Self {
        static SHARED: OnceLock<Arc<RabbitMq>> = OnceLock::new();
        static CASES: AtomicU64 = AtomicU64::new(0);
        let start = || Arc::new(RabbitMq::start());
        let server = if own {
            let used = USED.lock().expect("no panic").pop();
            used.unwrap_or_else(start)
        } else {
            Arc::clone(SHARED.get_or_init(start))
        };
        let ends = Ends::start::<L>(clock, own).await;
        let nothing = remove_transports(&ends.options).await;
        nothing.expect("Redis answers");
        Self {
            ends,
            server,
            prefix: format!("case{}", CASES.fetch_add(1, Ordering::Relaxed)),
            own,
            ledger: PhantomData,
        }
    }

    fn engine(&self) -> &dyn Engine {
        &self.ends.engine
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ends.book.ledger()
    }

    fn log(&self) -> &dyn EventLog {
        &self.ends.engine
    }

    async fn worker(&self, name: &str) -> Arc<dyn Worker> {
        self.worker_with(self.options(name))
    }

    async fn kill_servers(&self) {
        for partition in self.ends.engine.partitions() {
            self.server.wait_until_kept(&self.queue(partition));
        }
        self.ends.kill();
        self.server.kill();
    }

    async fn start_servers(&self) {
        self.ends.start_again();
        let server = Arc::clone(&self.server);
        let starting = tokio::task::spawn_blocking(move || server.start_again());
        starting.await.expect("RabbitMQ starts again");
    }

    async fn lose_transport(&self) {
        let (_connection, channel) = self.channel().await;
        for partition in self.ends.engine.partitions() {
            let queue = self.queue(partition);
            let options = QueueDeleteOptions::default();
            let deleted = channel.queue_delete(queue.as_str().into(), options).await;
            deleted.expect("the queue is deleted");
        }
    }

    async fn dump_ledger(&mut self, name: &str) {
        self.ends.dump_ledger(name);
    }

    async fn restore_ledger(&mut self, name: &str) {
        self.ends.restore_ledger(name).await;
    }

    async fn forget_settled(&self) {
        self.ends.forget_settled().await;
    }

    async fn bring_stale(&self, campaign: CampaignId) -> bool {
        let (_connection, channel) = self.channel().await;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await.expect("confirms");
        for partition in self.ends.engine.partitions() {
            let head = self.ends.engine.head(partition).await;
            let next = head.expect("the log has a head") + 1;
            for form in ["1", "2 0123456789abcdef"] {
                let body = format!(
                    "qiang {form} {} {next} {next}\n{next} 0 {campaign} paused",
                    partition.0
                );
                self.publish(&channel, partition, body.as_bytes()).await;
            }
        }
        true
    }

    async fn spoil(&self) -> bool {
        let (_connection, channel) = self.channel().await;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await.expect("confirms");
        for partition in self.ends.engine.partitions() {
            self.publish(&channel, partition, b"rubbish").await;
        }
        true
    }

    async fn stop(self) {
        self.ends.stop().await;
        if self.own {
            USED.lock().expect("no panic").push(self.server);
        }
    }
}
