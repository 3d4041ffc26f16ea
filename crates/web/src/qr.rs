//! QR codes of links to pages.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse as _, Response},
};
use qrcode::{QrCode, render::svg};

use crate::PageState;

/// Minimum width of the picture, in pixels.
const WIDTH: u32 = 200;
const LONGEST_ID: usize = 64;
/// Maximum length of the host in bytes, with its port: the work grows with the square of the link's length.
const LONGEST_HOST: usize = 128;

pub(crate) async fn packet(
    State(pages): State<PageState>,
    path: Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    code(link("p", &path.0, &uri, &headers, pages.options.speaks_tls))
}

pub(crate) async fn sale(
    State(pages): State<PageState>,
    path: Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    code(link("s", &path.0, &uri, &headers, pages.options.speaks_tls))
}

/// Scheme and host of the request, as in [`link`]; `None` for a host that no page has.
pub(crate) fn origin(uri: &Uri, headers: &HeaderMap, pages: &PageState) -> Option<String> {
    let link = link("p", "", uri, headers, pages.options.speaks_tls)?;
    link.strip_suffix("/p/").map(str::to_owned)
}

/// Link to a page, with the scheme and host of the request. The scheme is `https` if the node, or a proxy in front of
/// it, uses TLS.
fn link(kind: &str, id: &str, uri: &Uri, headers: &HeaderMap, speaks_tls: bool) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Over HTTP/2 the host is a part of the URI.
    let host = uri.authority().map(Authority::as_str);
    let host = host.or_else(|| text("host"));
    let is_id = id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    let host = host.filter(|host| is_id && is_host(host))?;
    // With several proxies, the first value is the client's.
    let proto = text("x-forwarded-proto").unwrap_or("");
    let proto = proto.split(',').next().unwrap_or("").trim();
    let scheme = match speaks_tls || proto.eq_ignore_ascii_case("https") {
        true => "https",
        false => "http",
    };
    Some(format!("{scheme}://{host}/{kind}/{id}"))
}

/// Whether this is a host with an optional port and without a user.
fn is_host(text: &str) -> bool {
    text.len() <= LONGEST_HOST
        && !text.contains('@')
        && text
            .parse::<Authority>()
            .is_ok_and(|it| !it.host().is_empty())
}

fn code(link: Option<String>) -> Response {
    let Some(Ok(code)) = link.map(QrCode::new) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let picture = code
        .render::<svg::Color<'_>>()
        .min_dimensions(WIDTH, WIDTH)
        .build();
    ([(header::CONTENT_TYPE, "image/svg+xml")], picture).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_back_the_way_on_which_it_was_asked_for() {
        let check = |proto: Option<&'static str>, speaks_tls, expected: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "qiang.example".parse().unwrap());
            if let Some(proto) = proto {
                headers.insert("x-forwarded-proto", proto.parse().unwrap());
            }
            let link = link(
                "p",
                "1",
                &Uri::from_static("/p/1/qr.svg"),
                &headers,
                speaks_tls,
            );
            assert_eq!(link.as_deref(), Some(expected), "{proto:?} {speaks_tls}");
        };
        check(None, false, "http://qiang.example/p/1");
        check(None, true, "https://qiang.example/p/1");
        check(Some("https"), false, "https://qiang.example/p/1");
        check(Some("HTTPS, http"), false, "https://qiang.example/p/1");
        check(Some("http, https"), false, "http://qiang.example/p/1");
        let uri = Uri::from_static("https://two.example/p/1/qr.svg");
        let link = link("s", "1", &uri, &HeaderMap::new(), true);
        assert_eq!(link.as_deref(), Some("https://two.example/s/1"));
    }

    #[test]
    fn a_code_is_of_a_short_link_to_a_host() {
        let check = |host: &str, id: &str, good: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().unwrap());
            let uri = Uri::from_static("/p/1/qr.svg");
            let link = link("p", id, &uri, &headers, true);
            assert_eq!(link.is_some(), good, "{host} {id}");
        };
        check("qiang.example:8443", "1", true);
        check("[::1]:8080", "1", true);
        check(
            &format!("{}.example", "a".repeat(60)),
            &"1".repeat(64),
            true,
        );
        check(&"a".repeat(128), "1", true);
        check(&"a".repeat(129), "1", false);
        check(&"a".repeat(2_250), "1", false);
        check("", "1", false);
        check("user@evil.example", "1", false);
        check("a/b", "1", false);
        check("qiang.example", &"1".repeat(65), false);
        check("qiang.example", "a\u{7ea2}", false);
    }
}
