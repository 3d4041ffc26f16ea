//! Places in line: asking for one's own, and the stream that tells of it (server-sent events).

use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{sleep, timeout_at};

use crate::{
    answers::{Grant, Place},
    call::{Call, after},
    client::Client,
    error::Error,
    events::{Events, LOOK_EVERY},
    ids::CampaignId,
    paths::path,
    words::PlaceState,
};

impl Client {
    /// Where the caller stands in the line of a campaign; or the grant, once there is one. Scope `claim`.
    ///
    /// # Errors
    /// What became of the place, if it was not granted: `sold-out`, `limit-reached`, `ended`; `no-place` where the
    /// caller is not in line, and may claim again. See [`Error`].
    pub async fn place(&self, campaign: &CampaignId) -> Result<Place, Error> {
        self.json(Call::get(path(campaign, "place"))).await
    }

    /// Every place that the caller has in the line of a campaign, until it is decided. The last one is not `Waiting`,
    /// unless the stream ends with an error.
    ///
    /// The service tells of them in a stream of events. When that ends it is opened again; where there is none the
    /// place is asked for every second. It goes on for as long as it is read.
    pub fn places(
        &self,
        campaign: &CampaignId,
    ) -> impl Stream<Item = Result<Place, Error>> + Send + use<> {
        let start = Places {
            client: self.clone(),
            campaign: campaign.clone(),
            events: None,
            over: false,
        };
        stream::unfold(start, |mut places| async {
            if places.over {
                return None;
            }
            let place = places.next().await;
            let waits = |place: &Place| place.state == PlaceState::Waiting;
            places.over = !place.as_ref().is_ok_and(waits);
            Some((place, places))
        })
    }

    /// Waits in line, so long at most, and returns the grant.
    ///
    /// # Errors
    /// As [`Client::place`]. [`Error::Connection`] where it is not decided in time: the place is kept, wait again.
    pub async fn wait_in_line(
        &self,
        campaign: &CampaignId,
        patience: Duration,
    ) -> Result<Grant, Error> {
        let until = after(patience);
        let mut places = std::pin::pin!(self.places(campaign));
        loop {
            let place = timeout_at(until, places.next()).await;
            let late = |_| Error::Connection {
                what: "still in line",
                source: None,
            };
            match place.map_err(late)?.transpose()? {
                Some(Place {
                    state: PlaceState::Waiting,
                    ..
                }) => {}
                Some(Place {
                    grant: Some(grant), ..
                }) => return Ok(grant),
                // The same as a problem, with what there is to know about it.
                _ => match self.place(campaign).await?.grant {
                    Some(grant) => return Ok(grant),
                    None => places.set(self.places(campaign)),
                },
            }
        }
    }
}

struct Places {
    client: Client,
    campaign: CampaignId,
    events: Option<Events>,
    over: bool,
}

impl Places {
    async fn next(&mut self) -> Result<Place, Error> {
        loop {
            let Some(events) = &mut self.events else {
                // Where there is no stream to be had, asking tells why.
                let path = path(&self.campaign, "place");
                self.events = Events::open(&self.client, path).await;
                match self.events {
                    Some(_) => continue,
                    None => {
                        sleep(LOOK_EVERY).await;
                        return self.client.place(&self.campaign).await;
                    }
                }
            };
            match events.next().await {
                Some(event) => return event.read(),
                None => {
                    self.events = None;
                    sleep(LOOK_EVERY.mul_f64(rand::random::<f64>())).await;
                }
            }
        }
    }
}
