//! kill -9 of every part of settlement at every step, while users claim and pay. After each kill, every answered grant
//! and payment is in the ledger once, to the last minor unit. The audit finds no fault, beside Redis and by the ledger
//! alone. Repeated claims get the same answers. No partition has halted, and no transport has entries left.
//!
//! | killed | at | over | into |
//! |---|---|---|---|
//! | worker | B R T C | stream, list, rabbitmq | PostgreSQL, MariaDB, SQLite |
//! | Redis, which syncs its AOF before it answers | B R T C | stream, rabbitmq | PostgreSQL |
//! | the same | B R T C | list | MariaDB |
//! | PostgreSQL | B R T C | stream, list, rabbitmq | itself |
//! | MariaDB | B R T C | stream, list, rabbitmq | itself |
//! | RabbitMQ | B R T C | rabbitmq | PostgreSQL |
//! | RabbitMQ, halted before | P | rabbitmq | MariaDB |
//! | relay | B, P | rabbitmq | PostgreSQL |
//! | relay | R, K | rabbitmq | MariaDB |
//!
//! B: before it reads waiting entries; R: after the read; T: in the transaction, which has written everything but the
//! position; C: after the commit, before the acknowledgement; P: published, and not confirmed; K: confirmed.
//!
//! A process of its own settles (`settler.rs`). It stops at the step and reports it. Then it is killed, or it continues
//! after the kill of a server. `qiang worker` follows a killed worker. A transaction is blocked because another
//! transaction has the lock that it needs to write the position (`ledgers.rs`). No step waits for a fixed time.

mod cells;
mod harness;
mod ledgers;
mod pool;
mod settler;
mod users;
mod verdict;

pub(crate) use self::verdict::audit;

use serde::{Deserialize, Serialize};

/// Part that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// The process that settles.
    Worker,
    Redis,
    RabbitMq,
    /// The database of the ledger.
    Database,
}

/// Step at which the part is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Entries are in the log, and no process has read them.
    BeforeRead,
    /// Entries are read; a relay has not published them.
    AfterRead,
    /// The transaction has written rows, and not the position.
    MidTransaction,
    /// The transaction is committed, and not acknowledged.
    AfterCommit,
    /// The relay has published entries, and none is confirmed.
    Published,
    /// The relay has the confirms, and has not read the next entries.
    Confirmed,
}

/// Transport of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TransportKind {
    Stream,
    List,
    RabbitMq,
}

impl TransportKind {
    /// Name in the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
            Self::RabbitMq => "rabbitmq",
        }
    }
}

/// Storage of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerKind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// A test for every step.
macro_rules! steps {
    ($($name:ident: $victim:ident, $transport_kind:ident, $kind:ident;)*) => {$(
        mod $name {
            use crate::crash_matrix::{TransportKind, LedgerKind, Step, Victim, cells::crash};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn before_read() {
                crash(Victim::$victim, Step::BeforeRead, TransportKind::$transport_kind, LedgerKind::$kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn after_read() {
                crash(Victim::$victim, Step::AfterRead, TransportKind::$transport_kind, LedgerKind::$kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mid_transaction() {
                crash(Victim::$victim, Step::MidTransaction, TransportKind::$transport_kind, LedgerKind::$kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn after_commit() {
                crash(Victim::$victim, Step::AfterCommit, TransportKind::$transport_kind, LedgerKind::$kind).await;
            }
        }
    )*};
}

mod worker {
    steps! {
        stream_into_postgres: Worker, Stream, Postgres;
        list_into_postgres: Worker, List, Postgres;
        rabbitmq_into_postgres: Worker, RabbitMq, Postgres;
        stream_into_mariadb: Worker, Stream, MariaDb;
        list_into_mariadb: Worker, List, MariaDb;
        rabbitmq_into_mariadb: Worker, RabbitMq, MariaDb;
        stream_into_sqlite: Worker, Stream, Sqlite;
        list_into_sqlite: Worker, List, Sqlite;
        rabbitmq_into_sqlite: Worker, RabbitMq, Sqlite;
    }
}

mod redis {
    steps! {
        stream_into_postgres: Redis, Stream, Postgres;
        list_into_mariadb: Redis, List, MariaDb;
        rabbitmq_into_postgres: Redis, RabbitMq, Postgres;
    }
}

mod postgres {
    steps! {
        under_stream: Database, Stream, Postgres;
        under_list: Database, List, Postgres;
        under_rabbitmq: Database, RabbitMq, Postgres;
    }
}

mod mariadb {
    steps! {
        under_stream: Database, Stream, MariaDb;
        under_list: Database, List, MariaDb;
        under_rabbitmq: Database, RabbitMq, MariaDb;
    }
}

mod rabbitmq {
    steps! {
        into_postgres: RabbitMq, RabbitMq, Postgres;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unconfirmed_into_mariadb() {
        crate::crash_matrix::cells::crash_rabbit_unconfirmed(
            crate::crash_matrix::LedgerKind::MariaDb,
        )
        .await;
    }
}

mod relay {
    use crate::crash_matrix::{
        LedgerKind::{MariaDb, Postgres},
        Step,
        cells::crash_relay,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn before_read() {
        crash_relay(Step::BeforeRead, Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_read() {
        crash_relay(Step::AfterRead, MariaDb).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unconfirmed() {
        crash_relay(Step::Published, Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn confirmed() {
        crash_relay(Step::Confirmed, MariaDb).await;
    }
}
