//! Campaigns: making, reading, listing, changing and ending them.

use futures_util::{Stream, stream};
use hyper::{
    StatusCode,
    header::{ETAG, IF_NONE_MATCH},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    answers::{
        CampaignAudience, Invitation, ListedRedPacket, Promise, RedPacket, RedPacketResult, Sale,
        Share, State,
    },
    call::{Call, read},
    client::Client,
    error::Error,
    ids::{CampaignId, Id, UserId, encoded},
    paths::{Kind, path},
    requests::{KeyedRedPacket, NewRedPacket, NewSale, SaleChange},
    values::Timestamp,
    words::Phase,
};

/// Which campaigns to list. The default is the caller's own that are not archived.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Those of this sender or seller.
    pub owner: Option<UserId>,
    /// Those of everybody.
    pub all: bool,
    /// Sales of this product, by their start.
    pub product_id: Option<Id>,
    /// Those in this phase.
    pub phase: Option<Phase>,
    /// Archived ones as well.
    pub archived: bool,
    /// The newest first. Not with `product_id`.
    pub newest_first: bool,
    /// Campaigns in one answer, 1 to 100; default 50. It changes nothing but the number of requests.
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
            ("phase", self.phase.map(|phase| phase.to_string())),
            ("limit", self.page_size.map(|size| size.to_string())),
            ("all", self.all.then(|| "true".to_owned())),
            ("archived", self.archived.then(|| "true".to_owned())),
            ("order", self.newest_first.then(|| "newest".to_owned())),
        ];
        let given = given.into_iter();
        let pairs = given.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// The numbers of a campaign, and the entity tag that stands for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The numbers.
    pub state: State,
    /// For [`Client::state_since`].
    pub etag: String,
}

/// What was read, and the entity tag that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged<T> {
    /// What was read.
    pub value: T,
    /// To ask again whether it has changed.
    pub etag: String,
}

impl Client {
    /// Opens a sale. Scope `campaigns:write`.
    ///
    /// # Errors
    /// See [`Error`]; `invalid` names the fields that are wrong.
    pub async fn create_sale(&self, sale: &NewSale) -> Result<Sale, Error> {
        self.json(Call::post("/v1/sales").json(sale)?.keyed(self))
            .await
    }

    /// A sale, with its numbers at present.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn sale(&self, id: &CampaignId) -> Result<Sale, Error> {
        self.json(Call::get(Kind::Sale.path(id))).await
    }

    /// A sale and its entity tag; none if it is as it was with the tag that is given.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn sale_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<Sale>>, Error> {
        self.unless(Kind::Sale.path(id), etag).await
    }

    /// Changes a sale: all of it, or nothing. What is so already stays. Scope `campaigns:write`.
    ///
    /// # Errors
    /// Problems such as `stock-granted` and `phase-conflict`; see [`Error`].
    pub async fn change_sale(&self, id: &CampaignId, change: &SaleChange) -> Result<Sale, Error> {
        let call = Call::patch(Kind::Sale.path(id)).json(change)?;
        self.json(call.keyed(self)).await
    }

    /// Sales, page after page as the stream is read.
    pub fn sales(
        &self,
        listing: &Listing,
    ) -> impl Stream<Item = Result<Sale, Error>> + Send + use<> {
        self.pages("/v1/sales", &listing.query(), "sales")
    }

    /// Sends a red packet from the caller's account. Scope `send`.
    ///
    /// # Errors
    /// Problems such as `insufficient-funds`; see [`Error`].
    pub async fn create_red_packet(&self, packet: &NewRedPacket) -> Result<RedPacket, Error> {
        let call = Call::post("/v1/red-packets").json(packet)?;
        self.json(call.keyed(self)).await
    }

    /// Binds the service to its part of the seed of a red packet, before it knows what the sender adds: send the packet
    /// with this id, this promise and 32 random bytes of one's own. Scope `send`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn promise_red_packet(&self) -> Result<Promise, Error> {
        self.json(Call::post("/v1/red-packets/promises")).await
    }

    /// Sends red packets from the caller's account, 1 to 100 of them in one request; each counts as one that is sent.
    /// Says of each what became of it, in their order. The same again sends what was not sent. Scope `send`.
    ///
    /// # Errors
    /// `invalid` names the fields that are wrong, of whichever packet, and then nothing was done; see [`Error`].
    pub async fn create_red_packets(
        &self,
        red_packets: &[KeyedRedPacket],
    ) -> Result<Vec<RedPacketResult>, Error> {
        #[derive(Deserialize)]
        struct Results {
            results: Vec<RedPacketResult>,
        }
        let body = json!({ "red_packets": red_packets });
        let call = Call::post("/v1/red-packets/batch").json(&body)?;
        let answer: Results = self.json(call.changing()).await?;
        Ok(answer.results)
    }

    /// A red packet, with its numbers at present.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn red_packet(&self, id: &CampaignId) -> Result<RedPacket, Error> {
        self.json(Call::get(Kind::RedPacket.path(id))).await
    }

    /// A red packet as the caller may see it and its entity tag; none if it is as it was with the tag that is given.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn red_packet_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<RedPacket>>, Error> {
        self.unless(Kind::RedPacket.path(id), etag).await
    }

    /// Red packets, page after page as the stream is read.
    pub fn red_packets(
        &self,
        listing: &Listing,
    ) -> impl Stream<Item = Result<ListedRedPacket, Error>> + Send + use<> {
        self.pages("/v1/red-packets", &listing.query(), "red_packets")
    }

    /// Who got what of a red packet, in the order of the grants, page after page as the stream is read: what is in the
    /// ledger when a page is asked for.
    pub fn shares(
        &self,
        packet: &CampaignId,
    ) -> impl Stream<Item = Result<Share, Error>> + Send + use<> {
        let path = format!("{}/claims", Kind::RedPacket.path(packet));
        self.pages(&path, "", "claims")
    }

    /// The numbers of a campaign, and their entity tag. Needs no token.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self, id: &CampaignId) -> Result<Seen, Error> {
        let seen = self.state_unless(id, None).await?;
        seen.ok_or_else(|| Error::Answer("304 to a request without a tag".to_owned()))
    }

    /// The numbers of a campaign, if they are others than those of this tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state_since(&self, id: &CampaignId, etag: &str) -> Result<Option<Seen>, Error> {
        self.state_unless(id, Some(etag)).await
    }

    async fn state_unless(
        &self,
        id: &CampaignId,
        etag: Option<&str>,
    ) -> Result<Option<Seen>, Error> {
        let tagged = self.unless(path(id, "state"), etag).await?;
        Ok(tagged.map(|Tagged { value, etag }| Seen { state: value, etag }))
    }

    async fn unless<T: DeserializeOwned>(
        &self,
        path: String,
        etag: Option<&str>,
    ) -> Result<Option<Tagged<T>>, Error> {
        let mut call = Call::get(path);
        if let Some(etag) = etag {
            call = call.header(IF_NONE_MATCH, etag)?;
        }
        let answer = self.call(&call).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        let etag = etag.ok_or_else(|| Error::Answer("an answer without a tag".to_owned()))?;
        Ok(Some(Tagged {
            value: read(&answer)?,
            etag: etag.to_owned(),
        }))
    }

    /// Stops granting for now. Again changes nothing. Scope `send`, `campaigns:write` or `campaigns:write:any`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pause(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "pause").await
    }

    /// Lets a paused campaign go on. Again changes nothing. Scopes as for `pause`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "resume").await
    }

    /// Ends a campaign now, and gives back what is left. Again changes nothing. Scopes as for `pause`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "close").await
    }

    /// Has lists not show a closed campaign any more unless asked. Again changes nothing. Scopes as for `pause`.
    ///
    /// # Errors
    /// `phase-conflict` before it is closed; see [`Error`].
    pub async fn archive(&self, id: &CampaignId) -> Result<State, Error> {
        self.act(id, "archive").await
    }

    async fn act(&self, id: &CampaignId, action: &str) -> Result<State, Error> {
        self.json(Call::post(path(id, action)).keyed(self)).await
    }

    /// Users who may take part in a campaign.
    ///
    /// # Errors
    /// `forbidden` where it is another's; see [`Error`].
    pub async fn audience(&self, id: &CampaignId) -> Result<CampaignAudience, Error> {
        self.json(Call::get(path(id, "audience"))).await
    }

    /// Signs an invitation to a campaign that is by invitation; without an end it is valid until that of the campaign.
    ///
    /// # Errors
    /// `not-by-invitation`; see [`Error`].
    pub async fn sign_invitation(
        &self,
        id: &CampaignId,
        expires_at: Option<Timestamp>,
    ) -> Result<Invitation, Error> {
        let body = json!({ "expires_at": expires_at });
        self.json(Call::post(path(id, "invitations")).json(&body)?)
            .await
    }

    /// The items of a list, which stand in the field `items` of its pages. After an error there is no further one.
    pub(crate) fn pages<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        query: &str,
        items: &'static str,
    ) -> impl Stream<Item = Result<T, Error>> + Send + use<T> {
        let start = Pages {
            client: self.clone(),
            first: format!("{path}?{query}"),
            items,
            next: Some(Value::Null),
            page: Vec::new().into_iter(),
        };
        stream::unfold(start, |mut pages| async {
            let item = pages.item().await;
            if matches!(item, Some(Err(_))) {
                (pages.next, pages.page) = (None, Vec::new().into_iter());
            }
            Some((item?, pages))
        })
    }
}

/// Where the reader of a list is.
struct Pages {
    client: Client,
    /// The path of the first page.
    first: String,
    items: &'static str,
    /// Where the next page begins; null for the first; none behind the last.
    next: Option<Value>,
    /// What is left of the page at hand.
    page: std::vec::IntoIter<Value>,
}

impl Pages {
    async fn item<T: DeserializeOwned>(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(item) = self.page.next() {
                let item = serde_json::from_value(item);
                return Some(item.map_err(|error| Error::Answer(error.to_string())));
            }
            let after = self.next.take()?;
            if let Err(error) = self.turn(after).await {
                return Some(Err(error));
            }
        }
    }

    async fn turn(&mut self, after: Value) -> Result<(), Error> {
        let (first, separator) = (
            &self.first,
            if self.first.ends_with('?') { "" } else { "&" },
        );
        let path = match &after {
            Value::Null => first.trim_end_matches('?').to_owned(),
            Value::String(after) => format!("{first}{separator}after={}", encoded(after)),
            after => format!("{first}{separator}after={after}"),
        };
        let mut page: Value = self.client.json(Call::get(path)).await?;
        let Value::Array(items) = page[self.items].take() else {
            return Err(Error::Answer(format!("a page without {}", self.items)));
        };
        self.page = items.into_iter();
        self.next = Some(page["next"].take()).filter(|next| !next.is_null() && *next != after);
        Ok(())
    }
}
