//! Claims of shares of a red packet or of units of a sale.

use hyper::{StatusCode, header::HeaderName};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    answers::{Claim, Order, Place},
    call::{RepeatableCall, read},
    client::Client,
    error::Error,
    ids::CampaignId,
    paths::PathKind,
    requests::{NewClaim, NewOrder},
    tickets::GrabTicket,
};

const GRAB_TICKET: HeaderName = HeaderName::from_static("grab-ticket");
/// Maximum number of tickets per call: the first, and another one if it expires during retries.
const TICKETS_MAX: usize = 2;

/// Result of a claim that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimResult<T> {
    /// The granted claim or order, from this request or from an earlier attempt or request.
    Granted(T),
    /// The campaign has a queue, and the claim has a queue entry. [`Client::wait_in_line`] waits for its result.
    Waiting(Box<Place>),
}

impl Client {
    /// Claims a share of a red packet. A repeated claim returns the same share. Scope `claim`.
    ///
    /// If the red packet requires a grab ticket and `claim` has none, the client solves the challenge and gets one.
    ///
    /// # Errors
    /// Problems such as `sold-out`, `ended`, `not-started`, `not-in-audience`; see [`Error`].
    pub async fn claim_share(
        &self,
        packet: &CampaignId,
        claim: &NewClaim,
    ) -> Result<ClaimResult<Claim>, Error> {
        self.claim(PathKind::RedPacket, packet, claim, claim.ticket.as_ref())
            .await
    }

    /// Orders units of a sale. Scope `claim`. Retries of this call return the same order. Another call creates another
    /// order or returns `limit-reached`, unless it uses the key of the first by [`with_key`](Client::with_key).
    ///
    /// The client gets tickets as for [`Client::claim_share`].
    ///
    /// # Errors
    /// Problems such as `sold-out`, `limit-reached`, `ended`; see [`Error`].
    pub async fn order(
        &self,
        sale: &CampaignId,
        order: &NewOrder,
    ) -> Result<ClaimResult<Order>, Error> {
        self.claim(PathKind::Sale, sale, order, order.ticket.as_ref())
            .await
    }

    async fn claim<T: DeserializeOwned>(
        &self,
        kind: PathKind,
        campaign: &CampaignId,
        body: &impl Serialize,
        ticket: Option<&GrabTicket>,
    ) -> Result<ClaimResult<T>, Error> {
        let path = match kind {
            PathKind::RedPacket => format!("{}/claims", kind.path(campaign)),
            PathKind::Sale => format!("{}/orders", kind.path(campaign)),
        };
        let until = self.deadline();
        let mut call = RepeatableCall::post(path)
            .json(body)?
            .keyed(self)
            .until(until);
        if let Some(ticket) = ticket {
            call = call.header(GRAB_TICKET, &ticket.ticket)?;
        }
        for _ in 0..TICKETS_MAX {
            match self.call(&call).await {
                Err(error) if error.is(&["ticket-missing", "ticket-expired"]) => {}
                answer => return claimed(&answer?),
            }
            // The retry has the same key, so it is the same claim as the attempt without a ticket.
            let ticket = self.ticket(kind, campaign, until).await?;
            call = call.header(GRAB_TICKET, &ticket.ticket)?;
        }
        claimed(&self.call(&call).await?)
    }
}

fn claimed<T: DeserializeOwned>(answer: &crate::wire::RawAnswer) -> Result<ClaimResult<T>, Error> {
    match answer.status {
        StatusCode::ACCEPTED => read(answer).map(|place| ClaimResult::Waiting(Box::new(place))),
        _ => read(answer).map(ClaimResult::Granted),
    }
}
