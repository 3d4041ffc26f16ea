//! Live events of a campaign.

use futures_util::{Stream, stream};
use tokio::time::sleep;

use crate::{
    answers::{NewDraws, State},
    client::Client,
    error::Error,
    events::{EventReader, LOOK_EVERY, StreamEvent},
    ids::CampaignId,
    paths::path,
};

/// Event of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CampaignEvent {
    /// New counters.
    State(State),
    /// Newly claimed shares of a red packet, if the caller may see them.
    Draws(NewDraws),
}

impl Client {
    /// Live events of a campaign: its counters at once and after each change. If the caller may see the shares of a red
    /// packet, also new shares after number `after`. Needs no token.
    ///
    /// The service sends a stream of events. If that ends, the client opens it again. If the service has no stream, the
    /// client polls the counters every second. The returned stream lasts until it is dropped or returns an error.
    pub fn watch(
        &self,
        campaign: &CampaignId,
        after: Option<u32>,
    ) -> impl Stream<Item = Result<CampaignEvent, Error>> + Send + use<> {
        let start = CampaignWatch {
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

struct CampaignWatch {
    client: Client,
    campaign: CampaignId,
    /// Number of the newest reported share.
    newest: u32,
    events: Option<EventReader>,
    over: bool,
}

impl CampaignWatch {
    async fn next(&mut self) -> Result<CampaignEvent, Error> {
        loop {
            let Some(events) = &mut self.events else {
                let path = path(&self.campaign, &format!("events?after={}", self.newest));
                self.events = EventReader::open(&self.client, path).await;
                if self.events.is_some() {
                    continue;
                }
                // If there is no stream, a single read returns the reason.
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

    /// Parses an event; `None` for an unknown kind.
    fn take(&mut self, event: &StreamEvent) -> Result<Option<CampaignEvent>, Error> {
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
