//! Answers read from a connection, and checks of them.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::{io::AsyncReadExt as _, net::TcpStream};

/// Maximum headers of an answer.
const HEADERS_MAX: usize = 64;
/// Maximum bytes of an answer.
const BYTES_MAX: usize = 16 << 20;

/// Answer of the node.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names are in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether no further answer follows on the connection: the node closes it, or it is an endless stream.
    pub(crate) fn is_last(&self) -> bool {
        let closes = self.header("connection");
        self.is_stream() || closes.is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Whether the answer is a stream of events, of which only a part was read.
    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// Whether the answer is a whole page for a browser that found nothing.
    fn is_page_not_found(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        self.status == 404
            && kind.starts_with("text/html")
            && self.body.starts_with(b"<!doctype html>")
            && self.body.trim_ascii_end().ends_with(b"</html>")
    }

    /// Fault of the answer; `None` if it is correct. A browser (`accepts_page`) may get a page instead of problem
    /// details.
    pub(crate) fn fault(&self, to_head: bool, accepts_page: bool) -> Option<&'static str> {
        let status = self.status;
        if status >= 500 && status != 503 {
            return Some("status 5xx");
        }
        if status == 503 && self.header("retry-after").is_none() {
            return Some("status 503 without Retry-After");
        }
        if self.header("x-request-id").is_none() {
            return Some("no X-Request-Id");
        }
        if status < 400 || to_head {
            return None;
        }
        if accepts_page && self.is_page_not_found() {
            return None;
        }
        if self.header("content-type") != Some("application/problem+json") {
            return Some("refusal without problem details");
        }
        let problem: Option<Value> = serde_json::from_slice(&self.body).ok();
        match problem {
            Some(problem) if problem["status"] == status && self.problem().is_some() => None,
            _ => Some("problem details with a wrong type or status"),
        }
    }

    /// Kind of a problem: its type without the path.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.status < 400 {
            return None;
        }
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        let kind = problem["type"].as_str()?.strip_prefix("/problems/")?;
        Some(kind.to_owned())
    }
}

/// Reader of answers from a connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    /// Whether the client has shut its side down. The node may then end a stream before its first chunk.
    pub(crate) is_last_word_said: bool,
}

impl Reader {
    /// Next answer; `None` if the connection ends first. An answer to HEAD has no body. A stream is read up to
    /// its first chunk.
    pub(crate) async fn next(
        &mut self,
        stream: &mut TcpStream,
        to_head: bool,
    ) -> Result<Option<Answer>> {
        loop {
            let Some((mut answer, at)) = head(&self.bytes)? else {
                if !self.more(stream).await? {
                    return match self.bytes.is_empty() {
                        true => Ok(None),
                        false => bail!("connection closed within the head of an answer"),
                    };
                }
                continue;
            };
            self.bytes.drain(..at);
            if answer.status < 200 {
                continue;
            }
            let is_empty = to_head || answer.status == 204 || answer.status == 304;
            if !is_empty {
                answer.body = self.body(stream, &answer).await?;
            }
            return Ok(Some(answer));
        }
    }

    async fn body(&mut self, stream: &mut TcpStream, of: &Answer) -> Result<Vec<u8>> {
        if of.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            loop {
                let may_leave = self.is_last_word_said && of.is_stream();
                if may_leave && self.bytes.is_empty() && !self.more(stream).await? {
                    return Ok(body);
                }
                let line = self.line(stream).await?;
                let size = usize::from_str_radix(line.trim(), 16)
                    .context("cannot parse the size of a chunk")?;
                body.extend(self.take(stream, size).await?);
                if of.is_stream() && size > 0 {
                    return Ok(body);
                }
                if self.line(stream).await?.trim() != "" {
                    bail!("chunk longer than its size");
                }
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = of.header("content-length");
        let length = length.context("answer without a length")?.parse()?;
        self.take(stream, length).await
    }

    async fn line(&mut self, stream: &mut TcpStream) -> Result<String> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok(String::from_utf8(line)?);
            }
            if !self.more(stream).await? {
                bail!("connection closed within an answer");
            }
        }
    }

    async fn take(&mut self, stream: &mut TcpStream, length: usize) -> Result<Vec<u8>> {
        while self.bytes.len() < length {
            if !self.more(stream).await? {
                bail!("connection closed within an answer");
            }
        }
        Ok(self.bytes.drain(..length).collect())
    }

    async fn more(&mut self, stream: &mut TcpStream) -> Result<bool> {
        if self.bytes.len() > BYTES_MAX {
            bail!("answer too long");
        }
        Ok(stream.read_buf(&mut self.bytes).await? > 0)
    }
}

/// Head of the answer at the beginning of these bytes, and the position of its body; `None` while the head is
/// incomplete.
fn head(bytes: &[u8]) -> Result<Option<(Answer, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(at) = parsed.parse(bytes).context("cannot parse the answer")?
    else {
        return Ok(None);
    };
    let headers = parsed.headers.iter().map(|header| {
        let value = String::from_utf8_lossy(header.value).into_owned();
        (header.name.to_ascii_lowercase(), value)
    });
    let answer = Answer {
        status: parsed.code.context("answer without a status")?,
        headers: headers.collect(),
        body: Vec::new(),
    };
    Ok(Some((answer, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(head_and_body: &str) -> Option<&'static str> {
        let (mut answer, at) = head(head_and_body.as_bytes()).unwrap().unwrap();
        answer.body = head_and_body.as_bytes()[at..].to_vec();
        answer.fault(false, false)
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_found() {
        let problem = r#"{"type":"/problems/unavailable","status":503}"#;
        let sound = format!(
            "HTTP/1.1 503 x\r\nX-Request-Id: 1\r\nRetry-After: 1\r\n\
             Content-Type: application/problem+json\r\n\r\n{problem}"
        );
        assert_eq!(fault(&sound), None);
        assert_eq!(fault("HTTP/1.1 200 OK\r\nX-Request-Id: 1\r\n\r\n"), None);
        for (part, other) in [
            ("503 x", "500 x"),
            ("Retry-After", "Retry"),
            ("X-Request-Id", "Request-Id"),
            ("problem+json", "json"),
            ("503}", "500}"),
            ("\"type\"", "\"kind\""),
            ("}", ""),
        ] {
            let broken = sound.replace(part, other);
            assert!(fault(&broken).is_some(), "{broken}");
        }
    }

    #[test]
    fn only_a_browser_gets_a_page() {
        let page = "HTTP/1.1 404 x\r\nX-Request-Id: 1\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
                    <!doctype html>\n<p>nothing</p>\n</html>\n";
        let fault = |text: &str, accepts_page| {
            let (mut answer, at) = head(text.as_bytes()).unwrap().unwrap();
            answer.body = text.as_bytes()[at..].to_vec();
            answer.fault(false, accepts_page)
        };
        assert_eq!(fault(page, true), None);
        assert!(fault(page, false).is_some());
        for (part, other) in [
            ("404 x", "403 x"),
            ("</html>", ""),
            ("text/html", "text/plain"),
        ] {
            let broken = page.replace(part, other);
            assert!(fault(&broken, true).is_some(), "{broken}");
        }
    }
}
