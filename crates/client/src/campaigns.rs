//! Campaigns: create, read, list, change and end them.

use futures_util::{Stream, stream};
use hyper::{
    StatusCode,
    header::{ETAG, IF_MATCH, IF_NONE_MATCH},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    answers::{
        CampaignAudience, Claim, GrantTimeline, Invitation, ListedRedPacket, RedPacket,
        RedPacketResult, Sale, SaleResult, ServerSeed, State,
    },
    call::{RepeatableCall, Replayable, read},
    client::Client,
    error::Error,
    ids::{CampaignId, Id, UserId},
    lists::List,
    paths::{PathKind, encoded, path, query_of, times},
    requests::{KeyedRedPacket, KeyedSale, NewRedPacket, NewSale, SaleChange},
    values::Timestamp,
    wire::RawAnswer,
    words::{BatchMode, Phase},
};

/// Filter for lists of campaigns. The default lists the caller's own campaigns that are not archived.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Sender or seller of the campaigns.
    pub owner: Option<UserId>,
    /// Whether to list campaigns of all users.
    pub all: bool,
    /// Product of sales; sorts them by start.
    pub product_id: Option<Id>,
    /// The shop's own number of the campaigns, in their metadata.
    pub reference: Option<String>,
    /// Phase of the campaigns.
    pub phase: Option<Phase>,
    /// Creation at this time or later.
    pub created_after: Option<Timestamp>,
    /// Creation before this time.
    pub created_before: Option<Timestamp>,
    /// Whether to include archived campaigns.
    pub archived: bool,
    /// Whether the newest come first. Not allowed with `product_id`.
    pub newest_first: bool,
    /// Campaigns per page, 1 to 100; default 50. Affects only the number of requests.
    pub page_size: Option<u32>,
}

impl Listing {
    fn query(&self) -> String {
        let given = [
            (
                "owner",
                self.owner.as_ref().map(|owner| encoded(owner.as_str())),
            ),
            (
                "product_id",
                self.product_id.as_ref().map(|id| encoded(id.as_str())),
            ),
            ("reference", self.reference.as_deref().map(encoded)),
            ("phase", self.phase.map(|phase| phase.to_string())),
            ("limit", self.page_size.map(|size| size.to_string())),
            ("all", self.all.then(|| "true".to_owned())),
            ("archived", self.archived.then(|| "true".to_owned())),
            ("order", self.newest_first.then(|| "newest".to_owned())),
        ];
        query_of(
            given
                .into_iter()
                .chain(times(self.created_after, self.created_before)),
        )
    }
}

/// Counters of a campaign, with their entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenState {
    /// The counters.
    pub state: State,
    /// Entity tag for [`Client::state_since`].
    pub etag: String,
}

/// Value with its entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged<T> {
    /// The value.
    pub value: T,
    /// Entity tag that detects a later change.
    pub etag: String,
}

fn tagged<T: DeserializeOwned>(answer: &RawAnswer) -> Result<Tagged<T>, Error> {
    let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
    let etag = etag.ok_or_else(|| Error::Answer("an answer has no entity tag".to_owned()))?;
    Ok(Tagged {
        value: read(answer)?,
        etag: etag.to_owned(),
    })
}

impl Client {
    /// Creates a sale. Scope `campaigns:write`.
    ///
    /// # Errors
    /// See [`Error`]; `invalid` names the wrong fields.
    pub async fn create_sale(&self, sale: &NewSale) -> Result<Sale, Error> {
        self.json(RepeatableCall::post("/v1/sales").json(sale)?.keyed(self))
            .await
    }

    /// As [`Client::create_sale`], with whether an earlier request under the same key made it.
    ///
    /// # Errors
    /// As for [`Client::create_sale`].
    pub async fn create_sale_replayable(&self, sale: &NewSale) -> Result<Replayable<Sale>, Error> {
        let call = RepeatableCall::post("/v1/sales").json(sale)?;
        self.replayable(call.keyed(self)).await
    }

    /// Creates 1 to 100 sales in one request; limits count each of them. Returns one result per sale, in the same
    /// order. A repeated call creates only the missing ones. Scope `campaigns:write`.
    ///
    /// # Errors
    /// `invalid` names the wrong fields of any sale; then none was created. See [`Error`].
    pub async fn create_sales(&self, sales: &[KeyedSale]) -> Result<Vec<SaleResult>, Error> {
        let call = RepeatableCall::post("/v1/sales/batch").json(&json!({ "sales": sales }))?;
        let results: List<SaleResult> = self.json(call.changing()).await?;
        Ok(results.data)
    }

    /// As [`Client::create_sales`], but if one sale is refused, none is created. A repeated call after a lost answer
    /// finds all of them or creates all of them.
    ///
    /// # Errors
    /// The first refused sale's problem; its `errors` name all refused sales. See [`Error`].
    pub async fn create_sales_together(
        &self,
        sales: &[KeyedSale],
    ) -> Result<Vec<SaleResult>, Error> {
        let body = json!({ "sales": sales, "mode": BatchMode::All });
        let call = RepeatableCall::post("/v1/sales/batch").json(&body)?;
        let results: List<SaleResult> = self.json(call.changing()).await?;
        Ok(results.data)
    }

    /// A sale with its current counters.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn sale(&self, id: &CampaignId) -> Result<Sale, Error> {
        self.json(RepeatableCall::get(PathKind::Sale.path(id)))
            .await
    }

    /// A sale and its entity tag; `None` if it has not changed since the given tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn sale_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<Sale>>, Error> {
        self.unless(PathKind::Sale.path(id), etag).await
    }

    /// Changes all the given fields of a sale, or none. Fields that have the given value already stay. Scope
    /// `campaigns:write`.
    ///
    /// # Errors
    /// Problems such as `stock-granted` and `phase-conflict`; see [`Error`].
    pub async fn change_sale(&self, id: &CampaignId, change: &SaleChange) -> Result<Sale, Error> {
        let call = RepeatableCall::patch(PathKind::Sale.path(id)).json(change)?;
        self.json(call.keyed(self)).await
    }

    /// As [`Client::change_sale`], if the sale still has this entity tag as far as this call changes it. The tag is
    /// that of [`Client::sale_unless`], for a client that may change the sale. Returns the sale with its new tag.
    ///
    /// # Errors
    /// `precondition-failed` if it was changed since; see [`Error`].
    pub async fn change_sale_if(
        &self,
        id: &CampaignId,
        change: &SaleChange,
        etag: &str,
    ) -> Result<Tagged<Sale>, Error> {
        let call = RepeatableCall::patch(PathKind::Sale.path(id)).json(change)?;
        self.tagged(call.header(IF_MATCH, etag)?.keyed(self)).await
    }

    /// Sales that match a filter. The stream loads one page after another as it is read.
    pub fn sales(
        &self,
        listing: &Listing,
    ) -> impl Stream<Item = Result<Sale, Error>> + Send + use<> {
        self.pages("/v1/sales", &listing.query())
    }

    /// Sends a red packet from the caller's account. Scope `send`.
    ///
    /// # Errors
    /// Problems such as `insufficient-funds`; see [`Error`].
    pub async fn create_red_packet(&self, packet: &NewRedPacket) -> Result<RedPacket, Error> {
        let call = RepeatableCall::post("/v1/red-packets").json(packet)?;
        self.json(call.keyed(self)).await
    }

    /// Commits the service to its server seed of a red packet, before it knows the client seed. To use it, send the red
    /// packet with this id, this `server_seed_hash`, and 32 random bytes of your own. Scope `send`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_server_seed(&self) -> Result<ServerSeed, Error> {
        self.json(RepeatableCall::post("/v1/red-packets/server-seeds"))
            .await
    }

    /// Sends 1 to 100 red packets from the caller's account in one request; limits count each of them. Returns one
    /// result per red packet, in the same order. A repeated call sends only the missing ones. Scope `send`.
    ///
    /// # Errors
    /// `invalid` names the wrong fields of any red packet; then none was sent. See [`Error`].
    pub async fn create_red_packets(
        &self,
        red_packets: &[KeyedRedPacket],
    ) -> Result<Vec<RedPacketResult>, Error> {
        let body = json!({ "red_packets": red_packets });
        let call = RepeatableCall::post("/v1/red-packets/batch").json(&body)?;
        let results: List<RedPacketResult> = self.json(call.changing()).await?;
        Ok(results.data)
    }

    /// As [`Client::create_red_packets`], but if one red packet is refused, none is sent. A repeated call after a lost
    /// answer finds all of them or sends all of them.
    ///
    /// # Errors
    /// The first refused red packet's problem; its `errors` name all refused ones. See [`Error`].
    pub async fn create_red_packets_together(
        &self,
        red_packets: &[KeyedRedPacket],
    ) -> Result<Vec<RedPacketResult>, Error> {
        let body = json!({ "red_packets": red_packets, "mode": BatchMode::All });
        let call = RepeatableCall::post("/v1/red-packets/batch").json(&body)?;
        let results: List<RedPacketResult> = self.json(call.changing()).await?;
        Ok(results.data)
    }

    /// A red packet with its current counters.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn red_packet(&self, id: &CampaignId) -> Result<RedPacket, Error> {
        self.json(RepeatableCall::get(PathKind::RedPacket.path(id)))
            .await
    }

    /// A red packet, as far as the caller may see it, and its entity tag; `None` if it has not changed since the given
    /// tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn red_packet_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<RedPacket>>, Error> {
        self.unless(PathKind::RedPacket.path(id), etag).await
    }

    /// Red packets that match a filter. The stream loads one page after another as it is read.
    pub fn red_packets(
        &self,
        listing: &Listing,
    ) -> impl Stream<Item = Result<ListedRedPacket, Error>> + Send + use<> {
        self.pages("/v1/red-packets", &listing.query())
    }

    /// Settled shares of a red packet with their users, in order of the grants. The stream loads one page after another
    /// as it is read.
    pub fn shares(
        &self,
        packet: &CampaignId,
    ) -> impl Stream<Item = Result<Claim, Error>> + Send + use<> {
        let path = format!("{}/claims", PathKind::RedPacket.path(packet));
        self.pages(&path, "")
    }

    /// Counters of a campaign and their entity tag. Needs no token.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self, id: &CampaignId) -> Result<SeenState, Error> {
        let seen = self.state_unless(id, None).await?;
        seen.ok_or_else(|| {
            Error::Answer("status 304 to a request without an entity tag".to_owned())
        })
    }

    /// Grants of a campaign over its whole life, at most 512 evenly spaced ones. Owners see those of their own
    /// campaigns.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn grant_timeline(&self, id: &CampaignId) -> Result<GrantTimeline, Error> {
        self.json(RepeatableCall::get(path(id, "grant-timeline")))
            .await
    }

    /// Counters of a campaign; `None` if they have not changed since this tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state_since(
        &self,
        id: &CampaignId,
        etag: &str,
    ) -> Result<Option<SeenState>, Error> {
        self.state_unless(id, Some(etag)).await
    }

    async fn state_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<SeenState>, Error> {
        let tagged = self.unless(path(id, "state"), etag).await?;
        Ok(tagged.map(|Tagged { value, etag }| SeenState { state: value, etag }))
    }

    async fn unless<T: DeserializeOwned>(
        &self,
        path: String,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<T>>, Error> {
        let mut call = RepeatableCall::get(path);
        if let Some(etag) = etag {
            call = call.header(IF_NONE_MATCH, etag)?;
        }
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::NOT_MODIFIED => Ok(None),
            _ => tagged(&answer).map(Some),
        }
    }

    /// Carries a call out and parses its answer with the entity tag.
    pub(crate) async fn tagged<T: DeserializeOwned>(
        &self,
        call: RepeatableCall,
    ) -> Result<Tagged<T>, Error> {
        tagged(&self.call(&call).await?)
    }

    /// Pauses a campaign. Idempotent. Scope `send`, `campaigns:write` or `campaigns:write:any`. Holds of unpaid orders
    /// continue.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pause(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "pause").await
    }

    /// Resumes a paused campaign. Idempotent. Before its start it is scheduled again. Scopes as for
    /// [`pause`](Self::pause).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "resume").await
    }

    /// Starts a scheduled sale now. A live sale does not change. Scope `campaigns:write` or `campaigns:write:any`.
    ///
    /// # Errors
    /// `phase-conflict` if it is paused or over; see [`Error`].
    pub async fn start_sale(&self, id: &CampaignId) -> Result<State, Error> {
        let call = RepeatableCall::post(format!("/v1/sales/{id}/start"));
        self.json(call.keyed(self)).await
    }

    /// Closes a campaign now, and returns what is left to its owner. Idempotent. Scopes as for [`pause`](Self::pause).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "close").await
    }

    /// Archives a closed campaign. Lists then show it only on request. Idempotent. Scopes as for
    /// [`pause`](Self::pause).
    ///
    /// # Errors
    /// `phase-conflict` if it is not closed; see [`Error`].
    pub async fn archive(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "archive").await
    }

    async fn act(&self, id: &CampaignId, action: &str) -> Result<State, Error> {
        self.json(RepeatableCall::post(path(id, action)).keyed(self))
            .await
    }

    /// Audience of a campaign.
    ///
    /// # Errors
    /// `forbidden` if the campaign has another owner; see [`Error`].
    pub async fn audience(&self, id: &CampaignId) -> Result<CampaignAudience, Error> {
        self.json(RepeatableCall::get(path(id, "audience"))).await
    }

    /// Signs an invitation to a campaign whose audience needs one. Without `expires_at` it expires with the campaign.
    ///
    /// # Errors
    /// `not-by-invitation`; see [`Error`].
    pub async fn sign_invitation(
        &self,
        id: &CampaignId,
        expires_at: Option<Timestamp>,
    ) -> Result<Invitation, Error> {
        let body = json!({ "expires_at": expires_at });
        self.json(RepeatableCall::post(path(id, "invitations")).json(&body)?)
            .await
    }

    /// Items of a list. The stream ends after an error.
    pub(crate) fn pages<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        query: &str,
    ) -> impl Stream<Item = Result<T, Error>> + Send + use<T> {
        let start = ListReader {
            client: self.clone(),
            first: format!("{path}?{query}"),
            after: Some(None),
            page: Vec::new().into_iter(),
        };
        stream::unfold(start, |mut pages| async {
            let item = pages.item().await;
            if matches!(item, Some(Err(_))) {
                (pages.after, pages.page) = (None, Vec::new().into_iter());
            }
            Some((item?, pages))
        })
    }
}

/// Reader of a list.
struct ListReader<T> {
    client: Client,
    /// The path of the first page.
    first: String,
    /// Cursor of the next page: inside, `None` for the first page. Outside, `None` after the last one.
    after: Option<Option<String>>,
    /// Unread items of the current page.
    page: std::vec::IntoIter<T>,
}

impl<T: DeserializeOwned> ListReader<T> {
    async fn item(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(item) = self.page.next() {
                return Some(Ok(item));
            }
            let after = self.after.take()?;
            if let Err(error) = self.turn(after).await {
                return Some(Err(error));
            }
        }
    }

    async fn turn(&mut self, after: Option<String>) -> Result<(), Error> {
        let first = &self.first;
        let path = match &after {
            None => first.trim_end_matches('?').to_owned(),
            Some(after) => {
                let separator = if first.ends_with('?') { "" } else { "&" };
                format!("{first}{separator}after={}", encoded(after))
            }
        };
        let page: List<T> = self.client.json(RepeatableCall::get(path)).await?;
        self.page = page.data.into_iter();
        self.after = page
            .next
            .filter(|next| after.as_ref() != Some(next))
            .map(Some);
        Ok(())
    }
}
