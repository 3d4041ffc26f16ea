//! The link to a page as a QR code.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse as _, Response},
};
use qrcode::{QrCode, render::svg};

use crate::Pages;

/// The least width of the picture, in pixels.
const WIDTH: u32 = 200;
const LONGEST_ID: usize = 64;

pub(crate) async fn packet(
    State(pages): State<Pages>,
    path: Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    code(link("p", &path.0, &uri, &headers, pages.options.speaks_tls))
}

pub(crate) async fn sale(
    State(pages): State<Pages>,
    path: Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    code(link("s", &path.0, &uri, &headers, pages.options.speaks_tls))
}

/// The link to a page, by the way on which it was asked for: to a node that speaks TLS, or to a proxy before it that
/// does.
fn link(kind: &str, id: &str, uri: &Uri, headers: &HeaderMap, speaks_tls: bool) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Over HTTP/2 the host is a part of the URI.
    let host = uri.authority().map(Authority::as_str);
    let host = host.or_else(|| text("host"));
    let host = host.filter(|_| id.len() <= LONGEST_ID)?;
    // Of several proxies the first is the client's.
    let proto = text("x-forwarded-proto").unwrap_or("");
    let proto = proto.split(',').next().unwrap_or("").trim();
    let scheme = match speaks_tls || proto.eq_ignore_ascii_case("https") {
        true => "https",
        false => "http",
    };
    Some(format!("{scheme}://{host}/{kind}/{id}"))
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
}
