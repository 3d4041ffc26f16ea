//! Combination of all traits of a ledger.

use super::{
    AccountStore, ActionStore, AudienceStore, BindingStore, CampaignStore, HistoryStore, KeyStore,
    MetadataStore, PayoutStore, QuarantineStore, ReconcileStore, RepairStore, SettlementStore,
    WaitingRoomStore, WebhookStore,
};

/// The ledger: the durable SQL record that people query. Implemented for every type that implements its parts.
pub trait Ledger:
    KeyStore
    + AccountStore
    + PayoutStore
    + HistoryStore
    + ActionStore
    + CampaignStore
    + SettlementStore
    + QuarantineStore
    + ReconcileStore
    + RepairStore
    + AudienceStore
    + BindingStore
    + MetadataStore
    + WaitingRoomStore
    + WebhookStore
{
}

impl<T> Ledger for T where
    T: KeyStore
        + AccountStore
        + PayoutStore
        + HistoryStore
        + ActionStore
        + CampaignStore
        + SettlementStore
        + QuarantineStore
        + ReconcileStore
        + RepairStore
        + AudienceStore
        + BindingStore
        + MetadataStore
        + MetadataStore
        + WaitingRoomStore
        + WebhookStore
{
}
