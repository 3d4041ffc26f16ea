//! The link to a page as a QR code.

use axum::{
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qrcode::{QrCode, render::svg};

/// The least width of the picture, in pixels.
const WIDTH: u32 = 200;
const LONGEST_ID: usize = 64;

pub(crate) async fn packet(path: Path<String>, headers: HeaderMap) -> Response {
    code("p", &path.0, &headers)
}

pub(crate) async fn sale(path: Path<String>, headers: HeaderMap) -> Response {
    code("s", &path.0, &headers)
}

fn code(kind: &str, id: &str, headers: &HeaderMap) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(host), true) = (text("host"), id.len() <= LONGEST_ID) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    let Ok(code) = QrCode::new(format!("{scheme}://{host}/{kind}/{id}")) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let picture = code
        .render::<svg::Color<'_>>()
        .min_dimensions(WIDTH, WIDTH)
        .build();
    ([(header::CONTENT_TYPE, "image/svg+xml")], picture).into_response()
}
