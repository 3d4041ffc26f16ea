//! The suite with settlement as in production, over every transport into every ledger.
//!
//! The whole suite in nine combinations would take minutes and mostly test the engine again. So these are only the
//! cases that involve the ledger: `settling` in `engine_conformance!`. Each case ends with a comparison of ledger and
//! log.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use lapin::{Connection, ConnectionProperties, options::QueueDeleteOptions};
use qiang_core::ports::{Ledger, Transport};
use qiang_redis::{
    LogTransportKind, RedisEngine, RedisOptions, RedisTransport, TransportOptions,
    remove_transports,
};
use qiang_testkit::servers::rabbitmq::RabbitMq;
use qiang_worker::broker::RabbitTransport;

use crate::node::conformance::{
    Alone, alone,
    subject::{OnRedis, Place, Way},
};

/// Lease after which another worker replaces a dead one.
const LEASE: Duration = Duration::from_millis(500);
/// Longer than any case, so that slow messages are never replaced by reads of the log.
const PATIENCE: Duration = Duration::from_secs(120);

/// One server with two partitions. Each campaign is spread over both.
pub(crate) struct Kept;

impl Place for Kept {
    fn options() -> RedisOptions {
        RedisOptions {
            partitions: 2,
            shard_supply_min: 2,
            shards_max: 2,
            ..Alone::options()
        }
    }

    /// The audit at the end of a case reads the whole log. A group that has read nothing prevents trimming.
    fn prepare(options: &RedisOptions) {
        for partition in 0..options.partitions {
            let log = format!("{}:{{p{partition:02}}}:log", options.prefix);
            let words = ["XGROUP", "CREATE", &log, "auditor", "0", "MKSTREAM"];
            let made = alone().primary().call(&words);
            made.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A transport on Redis: `LIST` or the stream.
pub(crate) struct OverRedis<const LIST: bool>;

impl<const LIST: bool> Way for OverRedis<LIST> {
    async fn transport(
        options: &RedisOptions,
        _engine: &RedisEngine,
        _ledger: Arc<dyn Ledger>,
        worker: &str,
    ) -> Option<Arc<dyn Transport>> {
        let transport_kind = if LIST {
            LogTransportKind::List
        } else {
            LogTransportKind::Stream
        };
        let transport_options = TransportOptions {
            lease: LEASE,
            ..TransportOptions::new(transport_kind, worker)
        };
        let transport = RedisTransport::new(options.clone(), transport_options);
        Some(Arc::new(
            transport.unwrap_or_else(|error| panic!("{error:?}")),
        ))
    }
}

fn rabbitmq() -> &'static RabbitMq {
    static SERVER: OnceLock<RabbitMq> = OnceLock::new();
    SERVER.get_or_init(RabbitMq::start)
}

pub(crate) struct OverRabbit;

impl Way for OverRabbit {
    async fn transport(
        options: &RedisOptions,
        engine: &RedisEngine,
        ledger: Arc<dyn Ledger>,
        worker: &str,
    ) -> Option<Arc<dyn Transport>> {
        remove_transports(options).await.expect("Redis answers");
        let broker = qiang_worker::broker::BrokerOptions {
            prefix: options.prefix.clone(),
            patience: PATIENCE,
            ..qiang_worker::broker::BrokerOptions::new(&rabbitmq().url(), worker)
        };
        let transport = RabbitTransport::start(broker, Arc::new(engine.clone()), ledger);
        Some(Arc::new(
            transport.unwrap_or_else(|error| panic!("{error}")),
        ))
    }

    /// Deletes the queues: hundreds of quorum queues would slow the server down.
    async fn clear(options: &RedisOptions) {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&rabbitmq().url(), properties).await;
        let connection = connection.expect("RabbitMQ takes connections");
        let channel = connection.create_channel().await.expect("a channel");
        for partition in 0..options.partitions {
            for rest in ["", ".dead"] {
                let queue = format!("{}.p{partition:02}{rest}", options.prefix);
                let deleting =
                    channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
                deleting.await.expect("the queue is deleted");
            }
        }
    }
}

macro_rules! into_every_ledger {
    ($($transport:ident: $way:ty;)*) => {
        $(mod $transport {
            use super::*;

            mod into_a_file {
                use super::*;
                qiang_testkit::engine_conformance!(settling OnRedis<Kept, crate::node::ledgers::InFile, $way>);
            }

            mod into_postgres {
                use super::*;
                qiang_testkit::engine_conformance!(settling OnRedis<Kept, crate::node::ledgers::InPostgres, $way>);
            }

            mod into_mariadb {
                use super::*;
                qiang_testkit::engine_conformance!(settling OnRedis<Kept, crate::node::ledgers::InMariaDb, $way>);
            }
        })*
    };
}

into_every_ledger! {
    stream: OverRedis<false>;
    list: OverRedis<true>;
    rabbitmq: OverRabbit;
}
