//! Campaigns as they happen.

use futures_util::{Stream, stream};
use tokio::time::sleep;

use crate::{
    answers::{Share, State},
    bodies::bodies,
    client::Client,
    error::Error,
    events::{Event, Events, LOOK_EVERY},
    ids::CampaignId,
    paths::path,
};

bodies! {
    /// Shares that were drawn and settled since those before.
    NewDraws {
        /// In the order of their numbers.
        claims: Vec<Share>,
        /// Whether there are others between these and those before. [`Client::shares`] has them.
        #[serde(default)]
        gap: bool,
    }
}

/// What happens to a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CampaignEvent {
    /// Its numbers, as they are now.
    State(State),
    /// Draws of a red packet, for those who may see them.
    Draws(NewDraws),
}

impl Client {
    /// A campaign as it happens: its numbers at once and when they have changed, and to those who may see the draws of
    /// a red packet what was drawn, behind the draw of this number. Needs no token.
    ///
    /// The service tells of it in a stream of events. When that ends it is opened again; where there is none the
    /// numbers are asked for every second. It goes on for as long as it is read, or until an error.
    pub fn watch(
        &self,
        campaign: &CampaignId,
        after: Option<u32>,
    ) -> impl Stream<Item = Result<CampaignEvent, Error>> + Send + use<> {
        let start = Watch {
            client: self.clone(),
            campaign: campaign.clone(),
            newest: after.unwrap_or(0),
            events: None,
            over: false,
        };
        stream::unfold(start, |mut watch| async {
            if watch.over {
                return None;
            }
            let event = watch.next().await;
            watch.over = event.is_err();
            Some((event, watch))
        })
    }
}

struct Watch {
    client: Client,
    campaign: CampaignId,
    /// The number of the newest draw that was told.
    newest: u32,
    events: Option<Events>,
    over: bool,
}

impl Watch {
    async fn next(&mut self) -> Result<CampaignEvent, Error> {
        loop {
            let Some(events) = &mut self.events else {
                let path = path(&self.campaign, &format!("events?after={}", self.newest));
                self.events = Events::open(&self.client, path).await;
                if self.events.is_some() {
                    continue;
                }
                // Where there is no stream to be had, asking tells why.
                sleep(LOOK_EVERY).await;
                let seen = self.client.state(&self.campaign).await?;
                return Ok(CampaignEvent::State(seen.state));
            };
            match events.next().await {
                Some(event) => {
                    if let Some(event) = self.take(&event)? {
                        return Ok(event);
                    }
                }
                None => {
                    self.events = None;
                    sleep(LOOK_EVERY.mul_f64(rand::random::<f64>())).await;
                }
            }
        }
    }

    /// None for a kind of event that this client does not know.
    fn take(&mut self, event: &Event) -> Result<Option<CampaignEvent>, Error> {
        Ok(match event.name.as_str() {
            "state" => Some(CampaignEvent::State(event.read()?)),
            "draws" => {
                let draws: NewDraws = event.read()?;
                let newest = draws.claims.iter().map(|share| share.number).max();
                self.newest = self.newest.max(newest.unwrap_or(0));
                Some(CampaignEvent::Draws(draws))
            }
            _ => None,
        })
    }
}
