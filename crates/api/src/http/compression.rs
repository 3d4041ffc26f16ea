//! Compression of documents and lists with `zstd` or `gzip`, as the request accepts (RFC 9110, 12.5.3).
//!
//! Handlers mark the answers that may be compressed. All others stay as they are: claims and single objects are small,
//! and events must arrive at once. Compressed constant documents are kept.

use std::{
    collections::HashMap,
    io::{self, Write as _},
    sync::{Arc, LazyLock},
};

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderValue, Method,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, VARY},
    },
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use parking_lot::Mutex;

use crate::http::problem::ApiProblem;

/// Smaller bodies fit into one packet, and stay as they are.
const BYTES_MIN: u64 = 1_024;
/// Larger bodies are compressed on a thread of their own.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// Kept documents: the files of the API's viewer, and its document, once per coding.
const KEPT_MAX: usize = 64;
/// Highest weight of a coding: 1.000.
const WEIGHT_MAX: u16 = 1_000;

/// Mark of an answer that may be compressed, in its extensions.
#[derive(Debug, Clone)]
pub(crate) enum Compressible {
    /// A list, or a page that is made for the request.
    Fresh,
    /// A constant document with this path.
    Constant(Arc<str>),
}

/// Content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// Codings by preference, if a request accepts them equally.
    const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Coding for the answer to a request; `None` for none. Only a GET has a body worth it.
    pub(crate) fn from_request(method: &Method, headers: &HeaderMap) -> Option<Self> {
        match *method == Method::GET && headers.contains_key(ACCEPT_ENCODING) {
            true => Self::accepted(headers),
            false => None,
        }
    }

    fn accepted(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(ACCEPT_ENCODING).into_iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
        let asked = lines.iter().flat_map(|line| line.split(','));
        let asked: Vec<(&str, u16)> = asked.filter_map(weighted).collect();
        let named = |name: &str| {
            let found = asked
                .iter()
                .find(|(asked, _)| asked.eq_ignore_ascii_case(name));
            found.map(|(_, weight)| *weight)
        };
        let weight = |coding: Self| {
            let alias = (coding == Self::Gzip).then(|| named("x-gzip")).flatten();
            named(coding.name()).or(alias).or(named("*")).unwrap_or(0)
        };
        let best = Self::ALL
            .into_iter()
            .rev()
            .max_by_key(|coding| weight(*coding))?;
        // Without its own weight, no coding at all is the last choice.
        let least = named("identity").unwrap_or(0).max(1);
        (weight(best) >= least).then_some(best)
    }

    fn encode(self, bytes: &[u8], is_constant: bool) -> io::Result<Vec<u8>> {
        match (self, is_constant) {
            (Self::Zstd, true) => zstd::bulk::compress(bytes, 9),
            (Self::Zstd, false) => zstd::bulk::compress(bytes, 1),
            (Self::Gzip, true) => gzip(bytes, Compression::best()),
            (Self::Gzip, false) => gzip(bytes, Compression::fast()),
        }
    }
}

fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// A coding and its weight in thousandths; `None` if it is malformed.
fn weighted(text: &str) -> Option<(&str, u16)> {
    let (name, parameter) = match text.split_once(';') {
        Some((name, parameter)) => (name.trim(), Some(parameter.trim())),
        None => (text.trim(), None),
    };
    let weight = match parameter {
        None => WEIGHT_MAX,
        Some(parameter) => {
            let (key, value) = parameter.split_once('=')?;
            let is_weight = key.trim().eq_ignore_ascii_case("q");
            is_weight.then(|| thousandths(value.trim())).flatten()?
        }
    };
    (!name.is_empty()).then_some((name, weight))
}

/// A weight of RFC 9110, 12.4.2: 0 to 1 with at most three digits after the point.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_good = ["0", "1"].contains(&whole) && rest.len() <= 3;
    if !is_good || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: u16 = format!("{rest:0<3}").parse().ok()?;
    let weight = whole.parse::<u16>().ok()? * WEIGHT_MAX + digits;
    (weight <= WEIGHT_MAX).then_some(weight)
}

/// Documents that were compressed before.
static KEPT: LazyLock<Mutex<KeptDocuments>> = LazyLock::new(Mutex::default);

/// Compressed documents by path and coding.
type KeptDocuments = HashMap<(Arc<str>, Coding), Bytes>;

/// Whether an answer may be compressed.
pub(crate) fn is_marked(response: &Response) -> bool {
    response.extensions().get::<Compressible>().is_some()
}

/// Compresses a marked answer, if the request accepts a coding and it becomes smaller.
pub(crate) async fn compress(response: Response, coding: Option<Coding>) -> Response {
    let Some(mark) = response.extensions().get::<Compressible>().cloned() else {
        return response;
    };
    let (mut head, body) = response.into_parts();
    // Also without a coding: caches must not answer others with this body.
    head.headers
        .append(VARY, HeaderValue::from_static("accept-encoding"));
    let is_large = body.size_hint().exact() >= Some(BYTES_MIN);
    let coding = coding.filter(|_| is_large && !head.headers.contains_key(CONTENT_ENCODING));
    let Some(coding) = coding else {
        return Response::from_parts(head, body);
    };
    let plain = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return ApiProblem::internal(error.to_string()).into_response(),
    };
    let (encoded, plain) = encoded(plain, coding, mark).await;
    let Some(encoded) = encoded else {
        return Response::from_parts(head, Body::from(plain));
    };
    head.headers
        .insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    head.headers.insert(CONTENT_LENGTH, encoded.len().into());
    weaken_tag(&mut head.headers);
    Response::from_parts(head, Body::from(encoded))
}

/// A body in a coding, if it becomes smaller, and the body itself.
async fn encoded(plain: Bytes, coding: Coding, mark: Compressible) -> (Option<Bytes>, Bytes) {
    let path = match mark {
        Compressible::Fresh => None,
        Compressible::Constant(path) => Some(path),
    };
    let kept = path.clone().map(|path| (path, coding));
    if let Some(kept) = &kept
        && let Some(found) = KEPT.lock().get(kept)
    {
        return (Some(found.clone()), plain);
    }
    let is_constant = path.is_some();
    let encode = {
        let plain = plain.clone();
        move || coding.encode(&plain, is_constant).ok()
    };
    let encoded = match is_constant || plain.len() > INLINE_BYTES_MAX {
        true => tokio::task::spawn_blocking(encode).await.ok().flatten(),
        false => encode(),
    };
    let encoded = encoded
        .filter(|encoded| encoded.len() < plain.len())
        .map(Bytes::from);
    if let (Some(name), Some(encoded)) = (kept, &encoded) {
        let mut kept = KEPT.lock();
        if kept.len() < KEPT_MAX {
            kept.insert(name, encoded.clone());
        }
    }
    (encoded, plain)
}

/// A strong tag names one sequence of bytes, so that of the plain body becomes weak.
fn weaken_tag(headers: &mut HeaderMap) {
    let tag = headers.get(ETAG).map(HeaderValue::as_bytes);
    let Some(tag) = tag.filter(|tag| tag.starts_with(b"\"")) else {
        return;
    };
    if let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag].concat()) {
        headers.insert(ETAG, weak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        let chosen = |asked: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(asked).unwrap());
            Coding::from_request(&Method::GET, &headers)
        };
        let (zstd, gzip) = (Some(Coding::Zstd), Some(Coding::Gzip));
        for (asked, expected) in [
            ("gzip, deflate, br, zstd", zstd),
            ("gzip, deflate, br", gzip),
            ("X-GZIP", gzip),
            ("zstd;q=0.5, gzip;q=0.8", gzip),
            ("zstd;q=0.8, gzip; q=0.8", zstd),
            ("gzip;q=0", None),
            ("gzip;q=0, *", zstd),
            ("*;q=0", None),
            ("zstd;q=0, *;q=0.1", gzip),
            ("gzip;q=0.5, identity", None),
            ("gzip;q=0.5, identity;q=0.5", gzip),
            ("identity", None),
            ("br", None),
            ("", None),
            ("gzip;q=2", None),
            ("gzip;q=0.1234", None),
            ("gzip;q=1.001", None),
            ("gzip;level=9", None),
            ("gzip;q=1.000", gzip),
            ("GZip;Q=0.001", gzip),
        ] {
            assert_eq!(chosen(asked), expected, "{asked}");
        }
        let headers = HeaderMap::new();
        assert_eq!(Coding::from_request(&Method::GET, &headers), None);
    }

    #[tokio::test]
    async fn a_compressed_answer_has_its_length_and_no_strong_tag() {
        let text = "0123456789".repeat(1_000);
        for coding in Coding::ALL {
            let marked = |body: String| {
                let mut response = ([(ETAG, "\"a\"")], body).into_response();
                response.extensions_mut().insert(Compressible::Fresh);
                response
            };
            let small = compress(marked("x".repeat(100)), Some(coding)).await;
            assert_eq!(small.headers().get(CONTENT_ENCODING), None);
            assert_eq!(small.headers()[ETAG], "\"a\"");
            let answer = compress(marked(text.clone()), Some(coding)).await;
            assert_eq!(answer.headers()[CONTENT_ENCODING], coding.name());
            assert_eq!(answer.headers()[VARY], "accept-encoding");
            assert_eq!(answer.headers()[ETAG], "W/\"a\"");
            let length = answer.headers()[CONTENT_LENGTH].clone();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(length.to_str().unwrap(), body.len().to_string());
            let plain = match coding {
                Coding::Zstd => zstd::bulk::decompress(&body, text.len()).unwrap(),
                Coding::Gzip => {
                    let mut plain = Vec::new();
                    let mut decoder = flate2::read::GzDecoder::new(&*body);
                    io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
                    plain
                }
            };
            assert_eq!(plain, text.as_bytes());
        }
        let unmarked = compress(text.into_response(), Some(Coding::Zstd)).await;
        assert_eq!(unmarked.headers().get(VARY), None);
    }
}
