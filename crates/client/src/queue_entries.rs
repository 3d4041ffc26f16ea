//! Queue entries of the caller: single reads, and the stream of changes (server-sent events).

use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{sleep, timeout_at};

use crate::{
    answers::Place,
    call::{RepeatableCall, after},
    client::Client,
    error::Error,
    events::{EventReader, LOOK_EVERY},
    ids::CampaignId,
    paths::path,
    words::PlaceState,
};

impl Client {
    /// The caller's queue entry of a campaign, with the grant once there is one. Scope `claim`.
    ///
    /// # Errors
    /// The result of an entry without a grant: `sold-out`, `limit-reached`, `ended`. `no-queue-entry` if the caller has
    /// no entry and may claim again. See [`Error`].
    pub async fn place(&self, campaign: &CampaignId) -> Result<Place, Error> {
        self.json(RepeatableCall::get(path(campaign, "queue-entry")))
            .await
    }

    /// States of the caller's queue entry of a campaign, until it is decided. The last state is not `Waiting`, unless
    /// the stream ends with an error.
    ///
    /// The service sends the states as a stream of events. If that ends, the client opens it again. If the service has
    /// no stream, the client polls every second. Both last as long as the returned stream is read.
    pub fn places(
        &self,
        campaign: &CampaignId,
    ) -> impl Stream<Item = Result<Place, Error>> + Send + use<> {
        let start = QueueEntryReader {
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

    /// Waits up to `patience` for the result of the caller's queue entry, and returns the entry with its claim or
    /// order.
    ///
    /// # Errors
    /// As for [`Client::place`]. [`Error::Connection`] if there is no decision in time. The entry stays in the queue;
    /// call again to wait longer.
    pub async fn wait_in_line(
        &self,
        campaign: &CampaignId,
        patience: Duration,
    ) -> Result<Place, Error> {
        let until = after(patience);
        let mut places = std::pin::pin!(self.places(campaign));
        loop {
            let place = timeout_at(until, places.next()).await;
            let late = |_| Error::Connection {
                what: "still waiting in the queue",
                source: None,
            };
            match place.map_err(late)?.transpose()? {
                Some(Place {
                    state: PlaceState::Waiting,
                    ..
                }) => {}
                Some(place) if place.is_granted() => return Ok(place),
                // This read returns the result as a problem with its details.
                _ => match self.place(campaign).await? {
                    place if place.is_granted() => return Ok(place),
                    _ => places.set(self.places(campaign)),
                },
            }
        }
    }
}

struct QueueEntryReader {
    client: Client,
    campaign: CampaignId,
    events: Option<EventReader>,
    over: bool,
}

impl QueueEntryReader {
    async fn next(&mut self) -> Result<Place, Error> {
        loop {
            let Some(events) = &mut self.events else {
                // If there is no stream, a single read returns the reason.
                let path = path(&self.campaign, "queue-entry");
                self.events = EventReader::open(&self.client, path).await;
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
