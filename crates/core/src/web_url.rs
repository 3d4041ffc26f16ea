//! URLs of HTTP servers that the service connects to: configured ones and user-supplied ones.

use std::net::IpAddr;

pub use url::Url;
use url::{Host, ParseError};

/// Reason why a text is no URL of an HTTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebUrlError {
    /// Spaces, control characters and backslashes are not allowed, nor is a host that is not ASCII: parsers differ
    /// about them.
    #[error("a URL has no space, control character or backslash, and its host is ASCII")]
    Characters,
    /// It cannot be parsed.
    #[error("it is no URL: {0}")]
    Parse(ParseError),
    /// The scheme is not `http` or `https`.
    #[error("a URL begins with https:// or http://")]
    Scheme,
    /// Port 0 cannot be connected.
    #[error("a port is 1 to 65535")]
    Port,
}

/// Parses `http://…` or `https://…`. Hosts that are IPv4 addresses in an unusual form (`127.1`) are normalized.
/// Characters of path and query that are not ASCII are percent-encoded.
///
/// # Errors
/// [`WebUrlError`] for any other text.
pub fn parse(text: &str) -> Result<Url, WebUrlError> {
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(WebUrlError::Characters);
    }
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    // Browsers accept `https:host` as a URL, and read `https:///host` as a URL of another host.
    let behind = ["https://", "http://"];
    let rest = behind
        .iter()
        .find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]));
    let rest = rest.ok_or(WebUrlError::Scheme)?;
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
        return Err(WebUrlError::Parse(ParseError::EmptyHost));
    }
    let authority = rest.split(['/', '?', '#']).next();
    if !authority.is_some_and(str::is_ascii) {
        return Err(WebUrlError::Characters);
    }
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::InvalidPort => WebUrlError::Port,
        error => WebUrlError::Parse(error),
    })?;
    match url.port() {
        Some(0) => Err(WebUrlError::Port),
        _ => Ok(url),
    }
}

/// Host for connecting: a name, or an address without brackets.
#[must_use]
pub fn host(url: &Url) -> String {
    match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        // `parse` accepts no URL without a host.
        None => String::new(),
    }
}

/// Host as an address, if it is one.
#[must_use]
pub fn address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

/// Port of the URL; by default, port of its scheme.
#[must_use]
pub fn port(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or(443)
}

/// Host and port as in the header `Host`: without the default port of the scheme.
#[must_use]
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Path with the query.
#[must_use]
pub fn path(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Whether the URL has a user or a password.
#[must_use]
pub fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_that_can_be_connected() {
        let check = |text: &str, expected: Result<u16, WebUrlError>| {
            assert_eq!(parse(text).map(|url| port(&url)), expected, "{text}");
        };
        check("https://example.com", Ok(443));
        check("http://example.com/", Ok(80));
        check("http://example.com:/", Ok(80));
        check("https://example.com:1", Ok(1));
        check("https://example.com:65535/x", Ok(65_535));
        check("HTTPS://example.com:443", Ok(443));
        for port in ["0", "65536", "99999", "-1", "+80", "8o"] {
            check(
                &format!("https://example.com:{port}/"),
                Err(WebUrlError::Port),
            );
        }
    }

    #[test]
    fn addresses_in_every_form_are_addresses() {
        for text in [
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.0.0.1/",
            "https://017700000001/",
            "https://127.0.0.1:443/",
        ] {
            let url = parse(text).unwrap();
            assert_eq!(host(&url), "127.0.0.1", "{text}");
            assert!(address(&url).unwrap().is_loopback(), "{text}");
        }
        let six = parse("http://[::1]:9/a?b=c#d").unwrap();
        assert_eq!(
            (host(&six), authority(&six), path(&six)),
            ("::1".to_owned(), "[::1]:9".to_owned(), "/a?b=c".to_owned())
        );
        assert_eq!(address(&parse("http://localhost/").unwrap()), None);
    }

    #[test]
    fn paths_and_queries_are_percent_encoded() {
        let url = parse("https://example.com/通知/ü?店=手机#é").unwrap();
        assert_eq!(
            path(&url),
            "/%E9%80%9A%E7%9F%A5/%C3%BC?%E5%BA%97=%E6%89%8B%E6%9C%BA"
        );
        assert_eq!(authority(&url), "example.com");
    }

    #[test]
    fn texts_that_parsers_read_differently_are_none() {
        for text in [
            "",
            "https://",
            "https:///example.com",
            "https:example.com",
            "https:/example.com",
            "https:\\\\example.com",
            "https://example.com\\@other.example",
            "https://exa\tmple.com",
            " https://example.com",
            "https://пример.рф/",
            "https://пример.рф?a",
            "https://exam\u{200b}ple.com",
            "https://example.com/a b",
            "https://example.com/a\u{3000}b",
            "https://example.com/?a\u{7f}",
            "https://example.com/a\\b",
            "ftp://example.com",
            "file:///etc/passwd",
            "/path",
            "example.com:80",
            "https://[::1/",
            "https://1.2.3.4.5/",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let with = parse("https://ann:hunter2@example.com/").unwrap();
        assert!(has_credentials(&with));
        assert!(!has_credentials(&parse("https://example.com/@x").unwrap()));
    }
}
