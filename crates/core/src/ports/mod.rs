//! The ports: where engines, ledgers, logs and clocks meet. Siblings never import each other; they implement these.

mod engine;
mod ledger;
mod log;
mod transport;

pub use self::{
    engine::{Answer, Claimed, Engine, EngineError, Ticket},
    ledger::{
        AccountStore, Balance, CampaignRecord, CampaignStore, GrantRecord, KeyBinding, KeyStore,
        Ledger, LedgerError, QuarantineCount, QuarantineStore, QuarantinedEntry, SettlementStore,
    },
    log::EventLog,
    transport::{Delivery, DeliveryTag, Received, Transport, TransportStatus},
};
pub use crate::time::Clock;
