//! Who may take part in a campaign, kept beside it.

use async_trait::async_trait;

use super::{GrantRecord, LedgerError};
use crate::id::{CampaignId, UserId};

/// The audiences of campaigns, and what those who look at a packet's draws ask for.
#[async_trait]
pub trait AudienceStore: Send + Sync + 'static {
    /// Keeps who may take part in a campaign, as a text that means nothing to the ledger. It is kept once: another text
    /// for the same campaign changes nothing. The campaign need not be there yet.
    async fn put_audience(&self, id: CampaignId, rules: &str) -> Result<(), LedgerError>;

    /// The text that was kept for a campaign; none for campaigns that are for everybody.
    async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError>;

    /// Whether a user has a settled share of a packet.
    async fn has_share(&self, id: CampaignId, user: &UserId) -> Result<bool, LedgerError>;

    /// The largest settled share of a packet, and the first of them if there are several.
    async fn luckiest(&self, id: CampaignId) -> Result<Option<GrantRecord>, LedgerError>;
}
