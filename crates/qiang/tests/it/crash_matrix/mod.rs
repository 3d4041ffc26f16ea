//! kill -9 of every part of settlement at every step, under load: users go on claiming and paying all the while. Each
//! time all that was answered is in the ledger, once, to the last minor unit; the audit finds nothing, beside Redis and
//! by the ledger alone; users who ask again get the same answer; no partition has halted, and no transport has anything
//! left.
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
//! B: before it reads what is there; R: after it has read; T: in the transaction, which has written everything but the
//! position; C: after the commit, before it says so; P: published, and not confirmed; K: confirmed.
//!
//! A process of its own settles (`settler.rs`). It stops at the step, reports it, and is killed there, or goes on when
//! the server has been killed. After a worker comes `qiang worker`. A transaction stands still because what it
//! needs to move the position is held by somebody else (`ledgers.rs`). Nothing waits for a time.

mod cells;
mod harness;
mod ledgers;
mod pool;
mod settler;
mod users;
mod verdict;

use serde::{Deserialize, Serialize};

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// Whoever settles.
    Worker,
    Redis,
    RabbitMq,
    /// The one that the ledger is in.
    Database,
}

/// When it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// Entries are in the log, and nobody has taken them.
    BeforeRead,
    /// They are taken; of a relay: and not published.
    AfterRead,
    /// The transaction has written rows, and not the position.
    MidTransaction,
    /// It is committed, and that is not acknowledged.
    AfterCommit,
    /// The relay has published, and nothing is confirmed.
    Published,
    /// The relay has its confirms, and has not read on.
    Confirmed,
}

/// How entries travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TransportKind {
    Stream,
    List,
    RabbitMq,
}

impl TransportKind {
    /// As it is configured.
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
            Self::RabbitMq => "rabbitmq",
        }
    }
}

/// Where the ledger is.
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
