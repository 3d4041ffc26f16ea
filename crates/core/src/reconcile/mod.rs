//! Reconciliation and repair: compares what an engine and a ledger have of one campaign, and merges both into one
//! state. Pure functions: rows in, differences and a plan out.
//!
//! An engine that has lost the end of its log is a prefix of the history. So is a ledger, which may be before or after
//! the engine. Entries after both ends are known only from the answers that nodes keep. [`compare()`] lists the
//! differences. [`Survey::repair`] merges both sides: every row of the ledger stays as it is. Rows of the engine and
//! kept answers are added as far as supply and limits allow, and units are withheld for unnamed entries.
//! [`ComparedCampaign`] compares facts of a campaign, such as its stock; the operator decides which side wins.
//!
//! [`SpreadSurvey::repair`] merges the parts of a spread campaign together, because units move between them.

mod campaign;
mod campaign_repair;
mod compare;
mod deleted_orders;
mod repair;
mod rows;
mod spread;
#[cfg(test)]
mod tests;
mod users;

pub use self::{
    campaign::{
        CampaignComparison, CampaignDifference, CampaignFacts, ComparedCampaign, NotCompared,
    },
    campaign_repair::{CampaignRefusal, CampaignSource},
    compare::{Difference, DifferenceKind, PartitionFindings, compare},
    deleted_orders::{DeletedOrder, DeletedOrders, deleted_orders, unrestorable_orders},
    repair::{EnginePart, PartFacts, Repair, Survey, WithheldUnits},
    rows::{GrantRow, OwnerReturn, PartRows},
    spread::SpreadSurvey,
    users::{UserUnits, compare_users},
};
