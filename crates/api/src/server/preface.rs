//! Start of an HTTP/2 connection without TLS, by a client that knows that the service speaks it (RFC 9113, 3.3).

use std::time::Duration;

use tokio::net::TcpStream;

use super::guard::StageMark;

/// First bytes of such a client. No request of HTTP/1.1 begins with them.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// First pause until the rest of a cut preface is looked for. Each later one is twice as long. The guard limits the
/// time of the whole.
const REST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const REST_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Waits for the first bytes of a connection, and returns whether they are the preface. All of them stay unread.
pub(super) async fn is_http2(stream: &TcpStream, progress: &StageMark) -> bool {
    let mut first = [0; PREFACE.len()];
    let mut pause = REST_PAUSE;
    loop {
        let Ok(length) = stream.peek(&mut first).await else {
            return false;
        };
        let begun = &first[..length];
        if length == 0 || !PREFACE.starts_with(begun) {
            return false;
        }
        if begun == PREFACE {
            return true;
        }
        progress.received();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(REST_PAUSE_MAX);
    }
}
