//! Audiences of campaigns.

use async_trait::async_trait;

use super::{GrantRecord, LedgerError};
use crate::id::{CampaignId, UserId};

/// Store of campaigns' audiences, and reads that decide who may see a red packet's claimed shares.
#[async_trait]
pub trait AudienceStore: Send + Sync + 'static {
    /// The audience's text, stored when the campaign was created; `None` if all users may claim.
    async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError>;

    /// Whether a user has a settled share of a red packet.
    async fn has_share(&self, id: CampaignId, user: &UserId) -> Result<bool, LedgerError>;

    /// The largest settled share of a red packet; the earliest one if several are equal.
    async fn luckiest(&self, id: CampaignId) -> Result<Option<GrantRecord>, LedgerError>;
}
