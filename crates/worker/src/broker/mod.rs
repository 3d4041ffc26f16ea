//! RabbitMQ transport from a partition's log to the ledger.
//!
//! A relay reads the log and publishes it, with publisher confirms, to a durable quorum queue, one per partition. A
//! worker consumes the queue and acknowledges explicitly, after the ledger's commit. The queue has a single active
//! consumer. So one worker consumes a partition at a time, and another one follows if it dies.
//!
//! Correctness does not depend on the queue. If the queue loses, duplicates or reorders entries, the consumer reads
//! them from the log, by the ledger's position. So the relay stores no position either. It starts at the ledger's
//! position, and entries that it publishes twice change nothing.

mod consumer;
mod link;
mod message;
mod options;
mod relay;
mod transport;

pub use self::{
    link::{BrokerError, check},
    options::BrokerOptions,
    transport::RabbitTransport,
};
