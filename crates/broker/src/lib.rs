//! RabbitMQ between a partition's log and the ledger.
//!
//! A relay reads the log and publishes it, with publisher confirms, into one durable quorum queue a partition. A
//! worker consumes the queue and acknowledges by hand, after the ledger's commit. The queue has a single active
//! consumer, so that one worker has a partition at a time, and another one follows when it dies.
//!
//! Nothing depends on the queue: what it loses, doubles or brings out of order is put right from the log, by the
//! ledger's position. The relay keeps no position of its own for the same reason. It starts at the ledger's, and what
//! it publishes twice changes nothing.

mod consumer;
mod link;
mod message;
mod options;
mod relay;
mod transport;

pub use self::{
    link::{BrokerError, check},
    options::Options,
    transport::RabbitTransport,
};
