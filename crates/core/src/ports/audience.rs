//! Who may take part in a campaign, kept beside it.

use async_trait::async_trait;

use super::{GrantRecord, LedgerError};
use crate::id::{CampaignId, UserId};

/// The audiences of campaigns, and what those who look at a packet's draws ask for.
#[async_trait]
pub trait AudienceStore: Send + Sync + 'static {
    /// The text that was kept for a campaign when it was created; none for campaigns that are for everybody.
    async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError>;

    /// Whether a user has a settled share of a packet.
    async fn has_share(&self, id: CampaignId, user: &UserId) -> Result<bool, LedgerError>;

    /// The largest settled share of a packet, and the earliest of them if there are several.
    async fn luckiest(&self, id: CampaignId) -> Result<Option<GrantRecord>, LedgerError>;
}
