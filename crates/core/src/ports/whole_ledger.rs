//! All of a ledger.

use super::{
    AccountStore, ActionStore, AudienceStore, BindingStore, CampaignStore, HistoryStore, KeyStore,
    PayoutStore, QuarantineStore, ReconcileStore, RepairStore, SettlementStore, WaitingRoomStore,
    WebhookStore,
};

/// The SQL book: the durable record that people query. Whatever implements its parts is one.
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
        + WaitingRoomStore
        + WebhookStore
{
}
