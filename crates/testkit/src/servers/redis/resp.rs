//! Single requests to a Redis server. The server may be halted, starting or down, so every request has a time limit.
//! `redis-cli` has none.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit of a request. A loopback server that does not answer in this time is down, halted or busy.
const REPLY_MAX: Duration = Duration::from_secs(1);

/// Reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple or a bulk string.
    Text(String),
    /// An error reply.
    Error(String),
    /// A number.
    Integer(i64),
    /// No value.
    Nil,
    /// A list.
    Array(Vec<Reply>),
}

impl Reply {
    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements; empty if it is not a list.
    pub fn array(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The value of `name` in a flat list of names and values.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let pairs = self.array().chunks_exact(2);
        let pair = pairs.into_iter().find(|p| p[0].text() == Some(name))?;
        Some(&pair[1])
    }
}

/// Sends the requests on a new connection and returns the last reply. Error replies are errors.
pub(super) fn call(addr: SocketAddr, requests: &[&[&str]]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&addr, REPLY_MAX)?;
    stream.set_read_timeout(Some(REPLY_MAX))?;
    stream.set_write_timeout(Some(REPLY_MAX))?;
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut last = Reply::Nil;
    for request in requests {
        let mut text = format!("*{}\r\n", request.len());
        for word in *request {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(text.as_bytes())?;
        last = read(&mut lines)?;
        if let Reply::Error(error) = last {
            return Err(io::Error::other(error));
        }
    }
    Ok(last)
}

fn read(lines: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let malformed = || io::Error::new(ErrorKind::InvalidData, format!("{line:?}"));
    let whole = line.strip_suffix("\r\n").ok_or_else(malformed)?;
    let (kind, rest) = whole.split_at_checked(1).ok_or_else(malformed)?;
    let number = || rest.parse::<i64>().map_err(|_| malformed());
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" => match usize::try_from(number()?) {
            Err(_) => Reply::Nil,
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                lines.read_exact(&mut bytes)?;
                Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned())
            }
        },
        "*" => match usize::try_from(number()?) {
            Err(_) => Reply::Nil,
            Ok(count) => Reply::Array((0..count).map(|_| read(lines)).collect::<Result<_, _>>()?),
        },
        _ => return Err(malformed()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Reply) {
        assert_eq!(read(&mut bytes.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn replies_are_read_as_servers_write_them() {
        let text = |text: &str| Reply::Text(text.to_owned());
        check("+OK\r\n", text("OK"));
        check(":-7\r\n", Reply::Integer(-7));
        check("$4\r\na\r\nb\r\n", text("a\r\nb"));
        check("$0\r\n\r\n", text(""));
        check("$-1\r\n", Reply::Nil);
        check("-ERR no\r\n", Reply::Error("ERR no".to_owned()));
        let pair = Reply::Array(vec![text("a"), Reply::Array(vec![Reply::Integer(1)])]);
        check("*2\r\n+a\r\n*1\r\n:1\r\n", pair.clone());
        assert_eq!(pair.field("a").unwrap().array(), [Reply::Integer(1)]);
        for cut in ["", "\r\n", "+O", "$5\r\nab", "*1\r\n", "?\r\n"] {
            assert!(read(&mut cut.as_bytes()).is_err(), "{cut:?}");
        }
    }
}
