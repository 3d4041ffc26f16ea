//! Streams of server-sent events.

use std::{collections::VecDeque, time::Duration};

use http_body_util::BodyExt as _;
use hyper::{body::Incoming, header::ACCEPT};
use serde::de::DeserializeOwned;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use crate::{
    call::{RepeatableCall, after},
    client::Client,
    error::Error,
};

/// Interval of polls if there is no stream, and maximum pause before an ended stream is opened again.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a stream counts as dead. Services send something every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Maximum size of an event in bytes.
const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    /// Its kind; empty if it has none.
    pub(crate) name: String,
    /// Its content.
    pub(crate) data: String,
}

impl StreamEvent {
    /// Parses the content as JSON.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.data)
            .map_err(|error| Error::Answer(format!("cannot parse an event: {error}")))
    }
}

/// Events of an open stream.
pub(crate) struct EventReader {
    body: Incoming,
    lines: EventStreamParser,
    _turn: OwnedSemaphorePermit,
}

impl EventReader {
    /// Opens a stream; `None` if the service has none or the client's limit is reached.
    pub(crate) async fn open(client: &Client, path: String) -> Option<Self> {
        let shared = &client.shared;
        let turn = shared.streams.clone().try_acquire_owned().ok()?;
        let call = RepeatableCall::get(path)
            .header(ACCEPT, "text/event-stream")
            .ok()?;
        let request = call.request(client).ok()?;
        let opened = timeout_at(after(shared.bounds.attempt_max), shared.wire.open(request));
        let response = opened.await.ok()?.ok()?;
        response.status().is_success().then(|| Self {
            body: response.into_body(),
            lines: EventStreamParser::default(),
            _turn: turn,
        })
    }

    /// Next event; `None` at the end of the stream, for any reason.
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.lines.events.pop_front() {
                return Some(event);
            }
            let frame = timeout_at(Instant::now() + SILENCE_MAX, self.body.frame());
            let frame = frame.await.ok()??.ok()?;
            if let Some(bytes) = frame.data_ref() {
                self.lines.add(bytes)?;
            }
        }
    }
}

/// Parser of event streams (WHATWG HTML, "Server-sent events").
#[derive(Default)]
struct EventStreamParser {
    line: Vec<u8>,
    name: String,
    data: String,
    events: VecDeque<StreamEvent>,
}

impl EventStreamParser {
    /// Parses some bytes. `None` if an event is too long or not UTF-8.
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line()?,
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.name.len() + self.data.len() > EVENT_BYTES_MAX {
                return None;
            }
        }
        Some(())
    }

    fn end_line(&mut self) -> Option<()> {
        let line = std::mem::take(&mut self.line);
        let line = str::from_utf8(&line).ok()?.trim_end_matches('\r');
        if line.is_empty() {
            let (name, data) = (
                std::mem::take(&mut self.name),
                std::mem::take(&mut self.data),
            );
            // An event without data is no event.
            if !data.is_empty() {
                self.events.push_back(StreamEvent { name, data });
            }
        } else if let Some(name) = line.strip_prefix("event:") {
            name.strip_prefix(' ')
                .unwrap_or(name)
                .clone_into(&mut self.name);
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
            let mut lines = EventStreamParser::default();
            for piece in text.as_bytes().chunks(size) {
                lines.add(piece).unwrap();
            }
            let event = |name: &str, data: &str| StreamEvent {
                name: name.to_owned(),
                data: data.to_owned(),
            };
            let expected = [event("place", "{\"a\":\n1}"), event("", "b")];
            assert_eq!(lines.events, expected, "{size}");
        }
        assert_eq!(
            EventStreamParser::default().add(&[b'x'; EVENT_BYTES_MAX + 1]),
            None
        );
        assert_eq!(EventStreamParser::default().add(b"data: \xff\n"), None);
    }
}
