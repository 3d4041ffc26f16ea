//! Claims: a share of a red packet, units of a sale.

use hyper::{StatusCode, header::HeaderName};
use serde::Serialize;

use crate::{
    answers::{Grant, Place},
    call::{Call, read},
    client::Client,
    error::Error,
    ids::CampaignId,
    paths::Kind,
    requests::{NewClaim, NewOrder},
    tickets::GrabTicket,
};

const GRAB_TICKET: HeaderName = HeaderName::from_static("grab-ticket");
/// Tickets that a call gets at most: the first, and one more if that expires while the claim is tried again.
const TICKETS_MAX: usize = 2;

/// What a claim came to that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The grant: now, or by an earlier attempt or request, whose grant this is.
    Granted(Grant),
    /// The campaign has a waiting room, and the claim has a place. [`Client::wait_in_line`] waits for what becomes of
    /// it.
    Waiting(Place),
}

impl Client {
    /// Claims a share of a red packet. Again gives the same share. Scope `claim`.
    ///
    /// Where the packet asks for a grab ticket and none is given, the client gets one, and solves the challenge for it.
    ///
    /// # Errors
    /// Problems such as `sold-out`, `ended`, `not-started`, `not-named`; see [`Error`].
    pub async fn claim_share(
        &self,
        packet: &CampaignId,
        claim: &NewClaim,
    ) -> Result<Claimed, Error> {
        self.claim(Kind::RedPacket, packet, claim, claim.ticket.as_ref())
            .await
    }

    /// Orders units of a sale. Scope `claim`. Repetitions of this call give the same order; another call is another
    /// order, or `limit-reached`, unless it is made [`with_key`](Client::with_key) of the first.
    ///
    /// Tickets are got as for [`Client::claim_share`].
    ///
    /// # Errors
    /// Problems such as `sold-out`, `limit-reached`, `ended`; see [`Error`].
    pub async fn order(&self, sale: &CampaignId, order: &NewOrder) -> Result<Claimed, Error> {
        self.claim(Kind::Sale, sale, order, order.ticket.as_ref())
            .await
    }

    async fn claim(
        &self,
        kind: Kind,
        campaign: &CampaignId,
        body: &impl Serialize,
        ticket: Option<&GrabTicket>,
    ) -> Result<Claimed, Error> {
        let path = match kind {
            Kind::RedPacket => format!("{}/claims", kind.path(campaign)),
            Kind::Sale => format!("{}/orders", kind.path(campaign)),
        };
        let until = self.deadline();
        let mut call = Call::post(path).json(body)?.keyed(self).until(until);
        if let Some(ticket) = ticket {
            call = call.header(GRAB_TICKET, &ticket.ticket)?;
        }
        for _ in 0..TICKETS_MAX {
            match self.call(&call).await {
                Err(error) if error.is(&["ticket-missing", "ticket-expired"]) => {}
                answer => return claimed(&answer?),
            }
            // Under the same key: whatever an attempt without a ticket has come to, this is the same claim.
            let ticket = self.ticket(kind, campaign, until).await?;
            call = call.header(GRAB_TICKET, &ticket.ticket)?;
        }
        claimed(&self.call(&call).await?)
    }
}

fn claimed(answer: &crate::wire::Answer) -> Result<Claimed, Error> {
    match answer.status {
        StatusCode::ACCEPTED => read(answer).map(Claimed::Waiting),
        _ => read(answer).map(Claimed::Granted),
    }
}
