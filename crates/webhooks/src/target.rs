//! Where an endpoint is, read from its URL.

use std::net::IpAddr;

use hyper::{Uri, http::uri::Scheme};

use crate::address::is_public;

/// The longest URL, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// An endpoint's address as text.
#[derive(Debug)]
pub(crate) struct Target {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    /// As in the URL: the host, and the port if there is one.
    pub(crate) authority: String,
    /// With the query.
    pub(crate) path: String,
}

impl Target {
    /// Reads a URL. Where nothing private is allowed, it is `https:` and its host no private address.
    ///
    /// # Errors
    /// Why it is no endpoint.
    pub(crate) fn parse(url: &str, allow_private: bool) -> Result<Self, String> {
        let refused = |why: &str| Err(why.to_owned());
        if url.len() > URL_BYTES_MAX {
            return Err(format!("a URL has at most {URL_BYTES_MAX} bytes"));
        }
        let Ok(uri) = url.parse::<Uri>() else {
            return refused("it is no URL");
        };
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP && allow_private => false,
            Some(scheme) if *scheme == Scheme::HTTP => {
                return refused(
                    "an endpoint is an https: URL, unless webhooks.allow_private is set",
                );
            }
            _ => return refused("an endpoint is an https: URL"),
        };
        let Some(authority) = uri.authority() else {
            return refused("the URL has no host");
        };
        if authority.as_str().contains('@') {
            return refused("credentials in a URL are not sent: requests are signed");
        }
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return refused("the URL has no host");
        }
        let address = host.parse::<IpAddr>().ok();
        if !allow_private && address.is_some_and(|address| !is_public(address)) {
            return Err(not_public(host));
        }
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            authority: authority.to_string(),
            path: uri
                .path_and_query()
                .map_or("/", |it| it.as_str())
                .to_owned(),
        })
    }
}

/// What is said of a host whose addresses are not public.
pub(crate) fn not_public(host: &str) -> String {
    format!("{host} is not on the public internet, and webhooks.allow_private is not set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_public_https_url() {
        let check = |url: &str, allow_private: bool, expected: bool| {
            let read = Target::parse(url, allow_private);
            assert_eq!(read.is_ok(), expected, "{url}: {read:?}");
        };
        check("https://example.com/hooks?a=b", false, true);
        check("https://example.com:8443", false, true);
        check("http://example.com/", false, false);
        check("http://example.com/", true, true);
        check("https://127.0.0.1/", false, false);
        check("https://127.0.0.1/", true, true);
        check("https://[::1]/", false, false);
        check("https://[::ffff:10.0.0.1]/", false, false);
        check("https://169.254.169.254/latest", false, false);
        check("https://user:password@example.com/", true, false);
        check("ftp://example.com/", true, false);
        check("file:///etc/passwd", true, false);
        check("/hooks", true, false);
        check("", true, false);
        check(
            &format!("https://example.com/{}", "a".repeat(2_048)),
            true,
            false,
        );
    }
}
