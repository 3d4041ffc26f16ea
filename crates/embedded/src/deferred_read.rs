//! Deferred reads of one campaign.

use qiang_core::{
    book::{Book, Claim, OrderView},
    campaign::Tally,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{EngineError, ReplySender},
    time::Timestamp,
};

/// Read that waits for a campaign to be reloaded, or for the commit of the campaign's last change.
pub(crate) enum DeferredRead {
    /// Reload for the writer, which has tasks of the campaign.
    Fetch(CampaignId),
    /// Counts of the campaign.
    Tally(CampaignId, ReplySender<Option<Tally>>),
    /// One order of the campaign.
    Order(OrderId, ReplySender<Option<OrderView>>),
    /// Gate answer to a claim; `None` if the claim may be granted.
    Look(Claim, ReplySender<Option<Outcome>>),
}

impl DeferredRead {
    pub(crate) fn campaign(&self) -> CampaignId {
        match self {
            Self::Fetch(id) | Self::Tally(id, _) => *id,
            Self::Order(order, _) => order.campaign,
            Self::Look(claim, _) => claim.campaign,
        }
    }

    /// Answers from the book. The book must have the campaign, without uncommitted changes.
    pub(crate) fn answer(self, book: &Book, now: Timestamp) {
        match self {
            Self::Fetch(_) => {} // // the campaign is in the book
            Self::Tally(id, answer) => answer.send(Ok(book.tally(now, id))),
            Self::Order(order, answer) => answer.send(Ok(book.order(order))),
            Self::Look(claim, answer) => {
                answer.send(Ok(book.try_gate_outcome(now, &claim, book.head())))
            }
        }
    }

    pub(crate) fn refuse(self, error: &EngineError) {
        match self {
            Self::Fetch(_) => {} // // the writer refuses the waiting tasks
            Self::Tally(_, answer) => answer.send(Err(error.clone())),
            Self::Order(_, answer) => answer.send(Err(error.clone())),
            Self::Look(_, answer) => answer.send(Err(error.clone())),
        }
    }
}
