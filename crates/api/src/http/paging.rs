//! Pages of lists: their size, and the link to the next page.

use std::fmt;

use axum::{
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::http::{problem::ApiProblem, wire::Text};

/// Page size of small items: the default, and the maximum.
pub(crate) const PAGE_DEFAULT: u32 = 100;
pub(crate) const PAGE_MAX: u32 = 1_000;

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListOrder {
    /// By id, ascending.
    Oldest,
    /// By id, descending.
    Newest,
}

/// Page of a campaign's grants.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NumberPage {
    /// Grants with numbers above this: `next` of the page before.
    #[serde(default)]
    pub(crate) after: u32,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
}

/// Page size: the requested one, or the default.
pub(crate) fn limit(asked: Option<u32>, default: u32, max: u32) -> Result<u32, ApiProblem> {
    let limit = asked.unwrap_or(default);
    match (1..=max).contains(&limit) {
        true => Ok(limit),
        false => {
            Err(ApiProblem::bad_request(format!("a limit is 1 to {max}")).in_parameter("limit"))
        }
    }
}

/// Truncates what was read, one item more than the page has, to the page. Returns the start of the next page, if
/// there is one.
pub(crate) fn cut<T, C>(items: &mut Vec<T>, limit: u32, place: impl Fn(&T) -> C) -> Option<C> {
    let is_last = items.len() <= limit as usize;
    items.truncate(limit as usize);
    items.last().filter(|_| !is_last).map(place)
}

/// Adds a link to the next page: the same request with another `after` (RFC 8288).
pub(crate) fn with_link<T: fmt::Display>(
    uri: &Uri,
    next: Option<Text<T>>,
    body: impl IntoResponse,
) -> Response {
    let mut response = body.into_response();
    let link = next.and_then(|Text(after)| HeaderValue::try_from(link(uri, after)).ok());
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

fn link(uri: &Uri, after: impl fmt::Display) -> String {
    let asked = uri.query().unwrap_or_default().split('&');
    let kept = asked.filter(|one| !one.is_empty() && !one.starts_with("after="));
    let query: String = kept.map(|one| format!("{one}&")).collect();
    // No query can end the reference early: `Uri` accepts neither `<` nor `>`.
    format!("<{}?{query}after={after}>; rel=\"next\"", uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_the_same_request_from_there_on() {
        let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        let check = |asked: &str, query: &str| {
            let linked = link(&asked.parse().unwrap(), id);
            let expected = format!("</v1/sales?{query}after={id}>; rel=\"next\"");
            assert_eq!(linked, expected);
        };
        check("/v1/sales", "");
        check("/v1/sales?limit=2&all=true", "limit=2&all=true&");
        check("/v1/sales?after=x&phase=live&after=y", "phase=live&");
        check("/v1/sales?owner=a%3E;x", "owner=a%3E;x&");
        assert!("/v1/sales?owner=a>;x".parse::<Uri>().is_err());
    }
}
