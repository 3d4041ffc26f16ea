//! Asks a node's or a worker's operators' listener for its health.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use anyhow::{Context as _, anyhow};

use crate::UsageError;

/// Longest part of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 65_536;

/// Asks `HOST:PORT` for a path such as `/readyz`. Returns status and body of the answer. Blocks for `wait_max` at most
/// for each step.
///
/// # Errors
/// If the address is none, or the listener does not answer in HTTP.
pub fn ask(listen: &str, path: &str, wait_max: Duration) -> anyhow::Result<(u16, String)> {
    let addrs = listen.to_socket_addrs();
    let addrs = addrs.map_err(|error| UsageError::new(format!("{listen}: {error}")))?;
    let mut failure = anyhow!("the name has no address");
    for addr in addrs {
        match TcpStream::connect_timeout(&addr, wait_max) {
            Ok(stream) => return exchange(stream, path, wait_max),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

fn exchange(
    mut stream: TcpStream,
    path: &str,
    wait_max: Duration,
) -> anyhow::Result<(u16, String)> {
    stream.set_read_timeout(Some(wait_max))?;
    stream.set_write_timeout(Some(wait_max))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer)).context("the answer is not HTTP")
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let status = words.next()?.parse().ok()?;
    is_http.then(|| (status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_of_an_answer_are_read() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n{\"status\":\"starting\"}";
        let expected = (503, "{\"status\":\"starting\"}".to_owned());
        assert_eq!(parse(answer), Some(expected));
        for not_http in [
            "",
            "SSH-2.0-x 200 y\r\n\r\n",
            "HTTP/1.1 many\r\n\r\n",
            "HTTP/1.1 200 OK",
        ] {
            assert_eq!(parse(not_http), None, "{not_http}");
        }
    }
}
