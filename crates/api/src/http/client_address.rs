//! Origin of a request: the peer of its connection, or the client that a trusted proxy names.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, request::Parts},
};
use ipnet::IpNet;
use serde::Deserialize;

/// Maximum number of proxies in a row that are followed.
const HOPS_MAX: usize = 16;

/// Unit of address limits: an IPv4 address, or the first 64 bits of an IPv6 address, which one host owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AddressKey {
    V4(u32),
    V6(u64),
}

impl AddressKey {
    pub(crate) fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Origin of a request, as far as limits count it. Empty for requests of unlimited addresses and of the node itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitedOrigin {
    pub(crate) address: Option<AddressKey>,
    /// Number of the connection; `None` for a proxy's, which carries requests of many users.
    pub(crate) connection: Option<u64>,
}

impl<S: Send + Sync> FromRequestParts<S> for LimitedOrigin {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}

/// Header in which trusted proxies name the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: addresses separated by commas.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => HeaderName::from_static("forwarded"),
        }
    }
}

/// A text that is neither an address nor a network.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an address or network such as 10.0.0.0/8")]
pub(crate) struct BadNetwork(String);

/// Proxies that are trusted to name the client of a request.
#[derive(Debug)]
pub(crate) struct TrustedProxies {
    pub(crate) networks: Vec<IpNet>,
    /// The only header that they write.
    pub(crate) header: ForwardedHeader,
}

impl TrustedProxies {
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        contain(&self.networks, address)
    }

    /// Client of a request from `peer`. Each proxy appends the address of its own peer, so the last address that is
    /// not a trusted proxy's is the client. The client may have invented the values before it. If a proxy names no
    /// readable address, the proxy itself is the client.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        if !self.contain(peer) {
            return client;
        }
        let values = headers.get_all(self.header.name()).iter().rev();
        let hops = values
            .map(|value| value.to_str().unwrap_or_default())
            .flat_map(|value| value.rsplit(','));
        for hop in hops.take(HOPS_MAX) {
            let named = match self.header {
                ForwardedHeader::XForwardedFor => address_of(hop),
                ForwardedHeader::Forwarded => forwarded_for(hop).and_then(address_of),
            };
            let Some(named) = named else { break };
            client = named;
            if !self.contain(client) {
                break;
            }
        }
        client
    }
}

pub(crate) fn contain(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// Networks or addresses, separated by commas.
pub(crate) fn networks(text: &str) -> Result<Vec<IpNet>, BadNetwork> {
    let parts = text.split(',').map(str::trim);
    let network = |part: &str| {
        let address = || part.parse::<IpAddr>().map(IpNet::from);
        let network = part.parse::<IpNet>().or_else(|_| address());
        network.map_err(|_| BadNetwork(part.to_owned()))
    };
    parts.filter(|part| !part.is_empty()).map(network).collect()
}

/// The parameter `for` of an element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<&str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    Some(node.trim().trim_matches('"'))
}

/// An address, with or without a port and, for IPv6, brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    address.or_else(|_| with_port()).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn proxies(header: ForwardedHeader) -> TrustedProxies {
        let networks = networks("10.0.0.0/8, 192.0.2.1,fd00::/8").unwrap();
        TrustedProxies { networks, header }
    }

    #[track_caller]
    fn check(header: ForwardedHeader, peer: &str, lines: &[&'static str], expected: &str) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.name(), HeaderValue::from_static(line));
        }
        let client = proxies(header).client(peer.parse().unwrap(), &headers);
        assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{lines:?}");
    }

    #[test]
    fn the_last_that_is_no_proxy_is_the_client() {
        let check = |peer, lines: &[_], expected| {
            check(ForwardedHeader::XForwardedFor, peer, lines, expected);
        };
        check("203.0.113.9", &["198.51.100.1"], "203.0.113.9");
        check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check(
            "10.0.0.1",
            &["1.1.1.1, 198.51.100.1, 10.9.9.9"],
            "198.51.100.1",
        );
        check(
            "10.0.0.1",
            &["1.1.1.1", "198.51.100.1", "192.0.2.1"],
            "198.51.100.1",
        );
        check("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1");
        check("fd00::1", &["[2001:db8::7]:80"], "2001:db8::7");
        check("fd00::1", &["2001:db8::7"], "2001:db8::7");
        // Unreadable and missing values.
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["1.1.1.1, no-address, 10.0.0.2"], "10.0.0.2");
        check("10.0.0.1", &["1.1.1.1,"], "10.0.0.1");
        // All of them are proxies.
        check("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_has_it() {
        let check = |lines: &[_], expected| {
            check(ForwardedHeader::Forwarded, "10.0.0.1", lines, expected);
        };
        check(&["for=192.0.2.60;proto=http;by=203.0.113.43"], "192.0.2.60");
        check(&["proto=https; For=\"[2001:db8::7]:4711\""], "2001:db8::7");
        check(
            &["for=1.1.1.1, for=198.51.100.1", "for=10.2.3.4"],
            "198.51.100.1",
        );
        check(&["for=\"1.1.1.1, for=198.51.100.1"], "198.51.100.1");
        check(&["for=1.1.1.1, for=_hidden"], "10.0.0.1");
        check(&["for=1.1.1.1, for=unknown"], "10.0.0.1");
        check(&["for=1.1.1.1, by=198.51.100.1"], "10.0.0.1");
    }

    #[test]
    fn hosts_of_ipv6_have_many_addresses() {
        let key = |text: &str| AddressKey::from_address(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
    }

    #[test]
    fn what_is_no_network_is_named() {
        assert_eq!(networks("").unwrap(), Vec::new());
        for bad in ["10.0.0.0/33", "proxy.example", "10.0.0.1;10.0.0.2"] {
            let error = networks(bad).unwrap_err();
            assert!(error.to_string().contains(bad));
        }
    }
}
