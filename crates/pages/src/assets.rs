//! Styles and scripts. Styles stand in the pages; the others have URLs with a hash of what they contain, so that
//! browsers keep them for good.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sha2::{Digest as _, Sha256};

/// What pages look like.
pub(crate) const STYLE: &str = include_str!("../assets/qiang.css");
/// What pages of the desk look like besides.
pub(crate) const DESK_STYLE: &str = include_str!("../assets/desk.css");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Names, media types and contents.
const FILES: [(&str, &str, &str); 19] = [
    ("qiang.js", SCRIPT, include_str!("../assets/qiang.js")),
    ("chart.js", SCRIPT, include_str!("../assets/chart.js")),
    ("csv.js", SCRIPT, include_str!("../assets/csv.js")),
    ("plot.js", SCRIPT, include_str!("../assets/plot.js")),
    (
        "desk-live.js",
        SCRIPT,
        include_str!("../assets/desk-live.js"),
    ),
    (
        "desk-orders.js",
        SCRIPT,
        include_str!("../assets/desk-orders.js"),
    ),
    (
        "desk-actions.js",
        SCRIPT,
        include_str!("../assets/desk-actions.js"),
    ),
    (
        "desk-lookup.js",
        SCRIPT,
        include_str!("../assets/desk-lookup.js"),
    ),
    (
        "desk-operation.js",
        SCRIPT,
        include_str!("../assets/desk-operation.js"),
    ),
    ("desk.js", SCRIPT, include_str!("../assets/desk.js")),
    (
        "desk-campaign.js",
        SCRIPT,
        include_str!("../assets/desk-campaign.js"),
    ),
    (
        "desk-sale.js",
        SCRIPT,
        include_str!("../assets/desk-sale.js"),
    ),
    ("packet.js", SCRIPT, include_str!("../assets/packet.js")),
    ("sale.js", SCRIPT, include_str!("../assets/sale.js")),
    ("send.js", SCRIPT, include_str!("../assets/send.js")),
    ("sign-in.js", SCRIPT, include_str!("../assets/sign-in.js")),
    ("split.js", SCRIPT, include_str!("../assets/split.js")),
    ("icon.svg", SVG, include_str!("../assets/icon.svg")),
];

/// What changes with each of them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (_, _, text) in FILES {
        hash.update(text);
    }
    hex::encode(&hash.finalize()[..6])
});

/// The version that is part of the files' URLs.
pub(crate) fn version() -> &'static str {
    &VERSION
}

pub(crate) async fn get(Path((version, name)): Path<(String, String)>) -> Response {
    let file = FILES.iter().find(|(known, _, _)| *known == name);
    let Some((_, media_type, text)) = file else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // While nodes are replaced, pages of one ask for the files of another.
    let caching = match version == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "no-store",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
    ];
    (headers, *text).into_response()
}
