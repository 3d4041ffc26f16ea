//! Rewrites the answers of hyper's parser as problem details.
//!
//! If hyper 1 cannot parse a head, it writes 400, 414 or 431 without a body and closes the connection. Its builder has
//! no hook for that, and the service never sees the request. So the stream under hyper replaces these bytes. A parser
//! of our own in front would parse each head twice.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::http::HeaderMap;
use qiang_wire::problem::ProblemKind;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::http::{
    problem::ApiProblem,
    request_id::{REQUEST_ID, RequestId},
    response_headers::FOR_BROWSERS,
};

/// Last header of a head without a body.
const EMPTY: &str = "content-length: 0\r\n";

/// Connection that replaces the parser's answers as they are written.
pub(super) struct ProblemRewriter<S> {
    stream: S,
    /// Rest of the replacement that is not written yet.
    instead: Option<Vec<u8>>,
    /// Set once a head was refused: bytes after it are discarded until this time, then the connection closes.
    lingers: Option<Pin<Box<Sleep>>>,
    thrown_away: usize,
}

/// Time and size limits for reading after a refused head. If a connection closes with unread bytes, TCP resets it,
/// and the client may lose the answer.
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

impl<S> ProblemRewriter<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            instead: None,
            lingers: None,
            thrown_away: 0,
        }
    }
}

/// Replacement of the parser's answer, if it is one. Answers of handlers with these statuses have bodies.
fn explained(answer: &[u8]) -> Option<Vec<u8>> {
    let kind = match answer.get(9..12)? {
        b"400" => ProblemKind::BadRequest,
        b"414" => ProblemKind::UriTooLong,
        b"431" => ProblemKind::HeadTooLarge,
        _ => return None,
    };
    let head = str::from_utf8(answer).ok()?;
    let head = head.strip_suffix("\r\n\r\n")?;
    let head = format!("{head}\r\n");
    if !head.contains(EMPTY) {
        return None;
    }
    let id = RequestId::from_headers(&HeaderMap::new());
    let body = id.scope_now(|| ApiProblem::from(kind).into_json());
    let about = format!(
        "content-type: application/problem+json\r\ncontent-length: {}\r\n{REQUEST_ID}: {}\r\n",
        body.len(),
        id.as_str()
    );
    let browsers: String = FOR_BROWSERS
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap_or_default()))
        .collect();
    let about = about + &browsers;
    let mut whole = head.replacen(EMPTY, &about, 1).into_bytes();
    whole.extend_from_slice(b"\r\n");
    whole.extend_from_slice(&body);
    Some(whole)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ProblemRewriter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none() {
            this.instead = explained(bytes);
            if this.instead.is_some() {
                this.lingers = Some(Box::pin(tokio::time::sleep(LINGER_MAX)));
            }
        }
        let Some(instead) = &mut this.instead else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };
        while !instead.is_empty() {
            let written = ready!(Pin::new(&mut this.stream).poll_write(context, instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.drain(..written);
        }
        this.instead = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match parts {
            [bytes] => self.poll_write(context, bytes),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        let this = &mut *self;
        let Some(until) = &mut this.lingers else {
            return Poll::Ready(Ok(()));
        };
        let mut bytes = [0; 4_096];
        while this.thrown_away < LINGER_BYTES_MAX && until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            if read.is_err() || count == 0 {
                break;
            }
            this.thrown_away += count;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProblemRewriter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: x\r\n\r\n";

    #[tokio::test]
    async fn an_answer_is_whole_when_it_is_written_in_pieces() {
        let (near, mut far) = tokio::io::duplex(7);
        let writing = tokio::spawn(async move {
            let mut near = ProblemRewriter::new(near);
            near.write_all(REFUSAL).await.unwrap();
            near.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        });
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        writing.await.unwrap();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap();
        let (body, after) = rest.split_at(rest.len() - "HTTP/1.1 200 OK\r\n".len());
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{text}"
        );
        assert!(body.contains("/problems/bad-request"), "{text}");
        assert_eq!(after, "HTTP/1.1 200 OK\r\n");
    }

    #[test]
    fn answers_with_bodies_stay() {
        assert!(explained(REFUSAL).is_some());
        for other in [
            "",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(explained(other.as_bytes()), None, "{other}");
        }
    }
}
