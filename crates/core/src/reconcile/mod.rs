//! Reconciliation and repair: what an engine and a ledger say of one campaign, held against each other, and one state
//! made of both. Pure: rows in, differences and a plan out.
//!
//! An engine that has lost the end of its log is a prefix of what happened; so is a ledger, which may be behind the
//! engine or ahead of it. What lies past both is known as far as nodes have kept what they answered. [`compare()`] says
//! where the sides differ. [`Survey::repair`] unites them: every row of the ledger stays as it is, rows of the engine
//! and kept answers are added as long as supply and limits hold, and for entries that nobody can name units are
//! withheld. Facts of a campaign, such as its stock, are compared by [`ComparedCampaign`]; which side wins is the
//! operator's decision.
//!
//! Parts of a spread campaign are united together, by [`SpreadSurvey::repair`]: units move between them.

mod campaign;
mod campaign_repair;
mod compare;
mod deleted_orders;
mod repair;
mod rows;
mod spread;
#[cfg(test)]
mod tests;

pub use self::{
    campaign::{
        CampaignComparison, CampaignDifference, CampaignFacts, ComparedCampaign, NotCompared,
    },
    campaign_repair::{CampaignRefusal, CampaignSource},
    compare::{Difference, DifferenceKind, PartitionFindings, compare},
    deleted_orders::{DeletedOrder, DeletedOrders, deleted_orders, unrestorable_orders},
    repair::{EnginePart, PartFacts, Repair, Survey, Withheld},
    rows::{GoneBack, GrantRow, PartRows},
    spread::SpreadSurvey,
};
