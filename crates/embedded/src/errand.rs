//! Reads of one campaign that are not answered at once.

use qiang_core::{
    book::{Book, Claim, OrderView},
    campaign::Tally,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Answer, EngineError},
    time::Timestamp,
};

/// Something that waits for a campaign: for one that the book does not have, or for the commit of what has changed it.
pub(crate) enum Errand {
    /// It is for the writer, which waits for it.
    Fetch(CampaignId),
    /// Its numbers.
    Tally(CampaignId, Answer<Option<Tally>>),
    /// One of its orders.
    Order(OrderId, Answer<Option<OrderView>>),
    /// What a claim would be answered; none where it may be granted.
    Look(Claim, Answer<Option<Outcome>>),
}

impl Errand {
    pub(crate) fn campaign(&self) -> CampaignId {
        match self {
            Self::Fetch(id) | Self::Tally(id, _) => *id,
            Self::Order(order, _) => order.campaign,
            Self::Look(claim, _) => claim.campaign,
        }
    }

    /// Answers from the book, which has the campaign, and no change of it that is not committed.
    pub(crate) fn answer(self, book: &Book, now: Timestamp) {
        match self {
            Self::Fetch(_) => {} // the book has it
            Self::Tally(id, answer) => answer.send(Ok(book.tally(now, id))),
            Self::Order(order, answer) => answer.send(Ok(book.order(order))),
            Self::Look(claim, answer) => answer.send(Ok(book.peek(now, &claim, book.head()))),
        }
    }

    pub(crate) fn refuse(self, error: &EngineError) {
        match self {
            Self::Fetch(_) => {} // the writer refuses what waits for it
            Self::Tally(_, answer) => answer.send(Err(error.clone())),
            Self::Order(_, answer) => answer.send(Err(error.clone())),
            Self::Look(_, answer) => answer.send(Err(error.clone())),
        }
    }
}
