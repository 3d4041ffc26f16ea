//! Kinds of requests that limits count.

use std::num::NonZeroU32;

use axum::http::Method;

/// Kind of a request, for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Claims, orders and grab tickets.
    Claims,
    /// Everything else that is limited.
    Reads,
}

impl Traffic {
    /// `None` for requests of operators' machines.
    pub(crate) fn from_request(method: &Method, path: &str) -> Option<Self> {
        let claims = ["/claims", "/orders", "/tickets"];
        match path {
            "/healthz" | "/readyz" | "/metrics" => None,
            _ if *method == Method::POST && claims.iter().any(|end| path.ends_with(end)) => {
                Some(Self::Claims)
            }
            _ => Some(Self::Reads),
        }
    }
}

/// Number of reads as which the limit of addresses counts a request: expensive answers count as several. `None` for
/// probes, which balancers send from addresses of users too.
pub(crate) fn read_cost(path: &str) -> Option<NonZeroU32> {
    NonZeroU32::new(match (path, ExpensiveAnswer::from_path(path)) {
        ("/healthz" | "/readyz", _) => 0,
        (_, Some(_)) => EXPENSIVE,
        _ => 1,
    })
}

/// Kind of an expensive answer that needs no token. Each kind has a limit of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpensiveAnswer {
    /// A QR code.
    Picture,
    /// The description of the API, or its page.
    Document,
    /// The metrics.
    Metrics,
}

impl ExpensiveAnswer {
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        match path {
            "/metrics" => Some(Self::Metrics),
            "/openapi.json" => Some(Self::Document),
            _ if path.starts_with("/docs/") => Some(Self::Document),
            _ if path.ends_with("/qr.svg") => Some(Self::Picture),
            _ => None,
        }
    }
}

/// Cost of a page of hundreds of kilobytes, and of a drawn picture, in cheap reads.
const EXPENSIVE: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_as_what_they_are() {
        let check = |method, path, expected| {
            assert_eq!(
                Traffic::from_request(&method, path),
                expected,
                "{method} {path}"
            );
        };
        let (claims, reads) = (Some(Traffic::Claims), Some(Traffic::Reads));
        check(Method::POST, "/v1/red-packets/x/claims", claims);
        check(Method::POST, "/v1/sales/x/orders", claims);
        check(Method::POST, "/v1/sales/x/tickets", claims);
        check(Method::GET, "/v1/red-packets/x/claims", reads);
        check(Method::POST, "/v1/orders/x/cancellation", reads);
        check(Method::GET, "/v1/campaigns/x/state", reads);
        check(Method::GET, "/nothing", reads);
        check(Method::GET, "/healthz", None);
        check(Method::GET, "/readyz", None);
        check(Method::GET, "/metrics", None);
    }
}
