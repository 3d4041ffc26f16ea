//! The `SampleEngine` port of the embedded engine: the grants of its book are held against the tables of its file,
//! which follow from the same log.
//!
//! Of payments and keys a book has fingerprints alone: these are left to the audit.

use std::time::Duration;

use async_trait::async_trait;
use qiang_core::{
    book::{Book, OrderView},
    campaign::{CampaignKind, Phase},
    event::PartitionId,
    id::CampaignId,
    order::OrderState,
    ports::{EngineError, EventLog, Ledger, Sample, SampleCursor, SampleEngine},
    reconcile::{GrantRow, PartRows, compare},
};

use crate::{Embedded, waiting::engine_error};

/// With more entries in flight nothing is compared: most differences would be among them.
const IN_FLIGHT_MAX: usize = 10_000;
/// Campaigns that are listed at a time.
const CAMPAIGNS_PAGE: u32 = 500;

#[async_trait]
impl SampleEngine for Embedded {
    async fn campaigns_to_sample(
        &self,
        _: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError> {
        let mut live: Vec<CampaignId> = Vec::new();
        loop {
            let page = ledger.live_campaigns(live.last().copied(), CAMPAIGNS_PAGE);
            let page = page.await.map_err(engine_error)?;
            let is_last = page.len() < CAMPAIGNS_PAGE as usize;
            live.extend(page);
            if is_last {
                return Ok(live);
            }
        }
    }

    /// No other process has the file.
    async fn leads_sampling(&self, _: PartitionId, _: Duration) -> Result<bool, EngineError> {
        Ok(true)
    }

    async fn sample(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
        cursor: &SampleCursor,
        rows_max: u32,
    ) -> Result<Option<Sample>, EngineError> {
        let SampleCursor::Rows { after, until } = *cursor else {
            return Ok(Some(Sample::default()));
        };
        let (head, settled) = self.positions();
        if self.stopped().is_some() || head.saturating_sub(settled) > IN_FLIGHT_MAX as u64 {
            return Ok(None);
        }
        let until = match until {
            Some(until) => until,
            None => self.last_number(campaign, ledger).await?,
        };
        let upto = after.saturating_add(rows_max.max(1)).min(until);
        let rows = ledger.settled_rows(campaign, after, upto.saturating_sub(after));
        let rows = rows.await.map_err(engine_error)?.into_iter();
        let rows = rows.filter(|row| row.number <= upto);
        let mut in_ledger = PartRows::new(Phase::Scheduled);
        let numbered = rows.filter_map(|row| Some((row.number, row.grant()?)));
        in_ledger.grants.extend(numbered);
        let mut in_book = PartRows::new(Phase::Scheduled);
        let of_book = |book: &Book| -> Vec<(u32, GrantRow)> {
            let grant = |number| Some((number, row_of(book.grant(campaign, number)?)));
            (after + 1..=upto).filter_map(grant).collect()
        };
        in_book.grants.extend(self.read(of_book).await?);
        // Last, so that it has whatever the book was ahead of the tables by; but for what the writer has decided and
        // not committed yet, which looks as if it were missing in the ledger until it is looked at again.
        let in_flight = EventLog::read(self, partition, settled, 2 * IN_FLIGHT_MAX).await;
        let in_flight = in_flight.map_err(engine_error)?;
        let next = (upto < until).then_some(SampleCursor::Rows {
            after: upto,
            until: Some(until),
        });
        Ok(Some(Sample {
            rows: u64::from(upto.saturating_sub(after)),
            differences: compare(campaign, &in_book, &in_ledger, &in_flight),
            next,
        }))
    }
}

impl Embedded {
    /// The highest number that a grant of the campaign has in the book or the tables.
    async fn last_number(
        &self,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<u32, EngineError> {
        let record = ledger.campaign(campaign).await.map_err(engine_error)?;
        let now = self.clock.now();
        let tally = self.read(|book| book.tally(now, campaign)).await?;
        let granted = tally.map_or(0, |tally| tally.grants);
        let settled = match record.map(|record| record.campaign) {
            None => 0,
            Some(campaign) if campaign.kind() == CampaignKind::RedPacket => {
                u32::try_from(campaign.supply()).unwrap_or(u32::MAX)
            }
            Some(_) => ledger.last_order(campaign).await.map_err(engine_error)?,
        };
        Ok(granted.max(settled))
    }
}

/// An order or a share of the book.
fn row_of(OrderView { user, grant }: OrderView) -> GrantRow {
    GrantRow {
        user,
        quantity: grant.quantity,
        amount_minor: grant.amount_minor,
        granted_at: grant.granted_at,
        key: None,
        state: grant.order.map_or(OrderState::Held, |order| order.state),
    }
}
