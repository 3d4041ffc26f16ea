//! Where the next page of a list is.

use std::fmt;

use axum::{
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};

use crate::wire::Text;

/// Adds where the next page is: the same request, from there on (RFC 8288).
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
    // What would end the reference is in no query: `Uri` takes neither `<` nor `>`.
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
