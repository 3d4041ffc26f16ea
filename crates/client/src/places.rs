//! Places in line: asking for one's own, and the stream that tells of it (server-sent events).

use std::{collections::VecDeque, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, header::ACCEPT};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    answers::{Grant, Place},
    call::{Call, after},
    client::Client,
    error::Error,
    ids::CampaignId,
    paths::path,
    words::PlaceState,
};

/// Where there is no stream, the service is asked so often, and a stream that ended is opened again after at most this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A stream that says nothing for longer is dead: services say something every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// No event is longer.
const EVENT_BYTES_MAX: usize = 64 * 1024;

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
                self.events = self.open().await;
                match self.events {
                    Some(_) => continue,
                    None => {
                        sleep(LOOK_EVERY).await;
                        return self.client.place(&self.campaign).await;
                    }
                }
            };
            match events.next().await {
                Some(data) => {
                    let place = serde_json::from_str(&data);
                    return place.map_err(|error| Error::Answer(format!("an event: {error}")));
                }
                None => {
                    self.events = None;
                    sleep(LOOK_EVERY.mul_f64(rand::random::<f64>())).await;
                }
            }
        }
    }

    /// None where there is no stream to be had; then asking tells why.
    async fn open(&self) -> Option<Events> {
        let shared = &self.client.shared;
        let turn = shared.streams.clone().try_acquire_owned().ok()?;
        let call = Call::get(path(&self.campaign, "place"));
        let call = call.header(ACCEPT, "text/event-stream").ok()?;
        let request = call.request(&self.client).ok()?;
        let opened = timeout_at(after(shared.bounds.attempt_max), shared.wire.open(request));
        let response = opened.await.ok()?.ok()?;
        response.status().is_success().then(|| Events {
            body: response.into_body(),
            lines: Lines::default(),
            _turn: turn,
        })
    }
}

/// The events of a stream that is open.
struct Events {
    body: Incoming,
    lines: Lines,
    _turn: OwnedSemaphorePermit,
}

impl Events {
    /// What the next event says; none at the end, however it came.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.lines.events.pop_front() {
                return Some(data);
            }
            let frame = timeout_at(Instant::now() + SILENCE_MAX, self.body.frame());
            let frame = frame.await.ok()??.ok()?;
            if let Some(bytes) = frame.data_ref() {
                self.lines.add(bytes)?;
            }
        }
    }
}

/// Lines of a stream of events become events (WHATWG HTML, "Server-sent events").
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    data: String,
    events: VecDeque<String>,
}

impl Lines {
    /// None when an event is too long, or no text.
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line()?,
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return None;
            }
        }
        Some(())
    }

    fn end_line(&mut self) -> Option<()> {
        let line = std::mem::take(&mut self.line);
        let line = str::from_utf8(&line).ok()?.trim_end_matches('\r');
        if line.is_empty() && !self.data.is_empty() {
            self.events.push_back(std::mem::take(&mut self.data));
        } else if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_pieces() {
        let text = ": hello\n\nevent: place\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nid: 7\n\ndata:b\n\ndata: c";
        for size in [1, 2, 5, text.len()] {
            let mut lines = Lines::default();
            for piece in text.as_bytes().chunks(size) {
                lines.add(piece).unwrap();
            }
            assert_eq!(lines.events, ["{\"a\":\n1}", "b"], "{size}");
        }
        assert_eq!(Lines::default().add(&[b'x'; EVENT_BYTES_MAX + 1]), None);
        assert_eq!(Lines::default().add(b"data: \xff\n"), None);
    }
}
