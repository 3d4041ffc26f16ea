//! Target of an endpoint, parsed from its URL.

use qiang_core::web_url;

use crate::webhook_delivery::address::is_public;

/// Maximum length of a URL, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// Target of an endpoint's URL.
#[derive(Debug)]
pub(crate) struct EndpointTarget {
    /// Host without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    /// Whether its addresses may be private.
    pub(crate) allow_private: bool,
    /// Host as in the URL, with the port if the URL has one.
    pub(crate) authority: String,
    /// Path with the query.
    pub(crate) path: String,
}

impl EndpointTarget {
    /// Parses a URL. Unless `allow_private`, it must be `https:` and its host must not be a private address.
    ///
    /// # Errors
    /// The reason why the URL is not allowed.
    pub(crate) fn parse(url: &str, allow_private: bool) -> Result<Self, String> {
        let refused = |why: &str| Err(why.to_owned());
        if url.len() > URL_BYTES_MAX {
            return Err(format!("a URL must have at most {URL_BYTES_MAX} bytes"));
        }
        let url = web_url::parse(url).map_err(|error| error.to_string())?;
        let tls = url.scheme() == "https";
        if !tls && !allow_private {
            return refused(
                "an endpoint must be an https: URL, unless webhooks.allow_private is set",
            );
        }
        if web_url::has_credentials(&url) {
            return refused("a URL must not contain credentials: requests are signed instead");
        }
        let (host, address) = (web_url::host(&url), web_url::address(&url));
        if !allow_private && address.is_some_and(|address| !is_public(address)) {
            return Err(not_public(&host));
        }
        Ok(Self {
            host,
            port: web_url::port(&url),
            tls,
            allow_private,
            authority: web_url::authority(&url),
            path: web_url::path(&url),
        })
    }
}

/// Reason why a host is refused: it has only private addresses.
pub(crate) fn not_public(host: &str) -> String {
    format!("{host} is not on the public internet, and webhooks.allow_private is not set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_public_https_url() {
        let check = |url: &str, allow_private: bool, expected: bool| {
            let read = EndpointTarget::parse(url, allow_private);
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
        // Nothing can listen on this port. It must not fall back to another one.
        check("https://example.com:0/", true, false);
        check("https://example.com:99999/", true, false);
        // Other notations of addresses.
        check("https://127.1/", false, false);
        check("https://2130706433/", false, false);
        check("https://0x7f.0.0.1/", false, false);
        check("https://1.1.1.1/", false, true);
        check("", true, false);
        check(
            &format!("https://example.com/{}", "a".repeat(2_048)),
            true,
            false,
        );
    }

    #[test]
    fn a_target_is_what_the_url_says() {
        let check = |url: &str, expected: (&str, u16, &str, &str)| {
            let target = EndpointTarget::parse(url, true).unwrap();
            let (host, authority, path) = (&*target.host, &*target.authority, &*target.path);
            assert_eq!((host, target.port, authority, path), expected, "{url}");
        };
        check("http://a.example", ("a.example", 80, "a.example", "/"));
        check(
            "https://[2001:db8::1]:8443/x?y=z",
            ("2001:db8::1", 8_443, "[2001:db8::1]:8443", "/x?y=z"),
        );
        check(
            "https://a.example/é?ü",
            ("a.example", 443, "a.example", "/%C3%A9?%C3%BC"),
        );
    }
}
