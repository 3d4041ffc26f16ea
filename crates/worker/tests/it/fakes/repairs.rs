//! Reconciliation and repair of the fake ledger: there is nothing to compare.

use async_trait::async_trait;
use qiang_core::{
    event::{PartitionId, Seq},
    id::{CampaignId, UserId},
    ports::{
        BindingStore, CampaignOutline, EngineBinding, LedgerError, LiveCampaign, ReconcileStore,
        RepairAttempt, RepairRecord, RepairStore, Restatement, SettledPart, SettledPayment,
        SettledReturn, SettledRow, WithheldRecord,
    },
    reconcile::{DeletedOrders, PartFacts},
};

use super::{FakeLedger, broken};

#[async_trait]
impl ReconcileStore for FakeLedger {
    async fn live_campaigns(
        &self,
        _: Option<CampaignId>,
        _: u32,
    ) -> Result<Vec<LiveCampaign>, LedgerError> {
        Err(broken())
    }

    async fn settled_part(
        &self,
        _: CampaignId,
        _: PartitionId,
    ) -> Result<Option<SettledPart>, LedgerError> {
        Err(broken())
    }

    async fn campaign_outline(
        &self,
        _: CampaignId,
    ) -> Result<Option<CampaignOutline>, LedgerError> {
        Err(broken())
    }

    async fn settled_rows(
        &self,
        _: CampaignId,
        _: u32,
        _: u32,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        Err(broken())
    }

    async fn settled_rows_of_user(
        &self,
        _: CampaignId,
        _: &UserId,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        Err(broken())
    }

    async fn last_order(&self, _: CampaignId) -> Result<u32, LedgerError> {
        Err(broken())
    }

    async fn settled_payments(
        &self,
        _: CampaignId,
        _: u32,
        _: u32,
    ) -> Result<Vec<SettledPayment>, LedgerError> {
        Err(broken())
    }

    async fn settled_returns(
        &self,
        _: CampaignId,
        _: u32,
        _: u32,
    ) -> Result<Vec<SettledReturn>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl BindingStore for FakeLedger {
    async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError> {
        Err(broken())
    }

    async fn bind(&self, _: &str, _: &EngineBinding) -> Result<EngineBinding, LedgerError> {
        Err(broken())
    }

    async fn beat(&self, _: &str) -> Result<bool, LedgerError> {
        Err(broken())
    }

    fn settle_for(&self, _: &str) {}

    fn is_shared(&self) -> bool {
        true
    }
}

#[async_trait]
impl RepairStore for FakeLedger {
    async fn last_attempt(&self, _: PartitionId) -> Result<u64, LedgerError> {
        Err(broken())
    }

    async fn claim_repair(&self, _: &RepairAttempt) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn begin_repair(&self, _: &RepairRecord, _: &RepairAttempt) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn withhold(&self, _: &WithheldRecord, _: &RepairAttempt) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn recount(&self, _: PartFacts, _: u64, _: &RepairAttempt) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn restore_orders(
        &self,
        _: &DeletedOrders,
        _: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn restate(&self, _: &Restatement) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn finish_repair(&self, _: &str, _: Seq, _: &RepairAttempt) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn release_withheld(&self, _: PartitionId) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn repairs(&self, _: PartitionId, _: u32) -> Result<Vec<RepairRecord>, LedgerError> {
        Err(broken())
    }

    async fn withheld(&self, _: PartitionId) -> Result<Vec<WithheldRecord>, LedgerError> {
        Err(broken())
    }
}
