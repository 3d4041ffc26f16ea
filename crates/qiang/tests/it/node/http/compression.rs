//! Compression of documents and lists, and of nothing else.

use std::io::Read as _;

use bytes::Bytes;
use serde_json::json;

use crate::node::http::common::{Reply, Service, call};

async fn get(service: &Service, path: &str, accept: &str) -> Reply {
    let headers = [("accept-encoding", accept)];
    let token = service.operator();
    call(service.addr, "GET", path, Some(&token), &headers, None).await
}

/// The body without its content coding.
fn decoded(reply: &Reply) -> Bytes {
    match reply.header("content-encoding") {
        "" => reply.body.clone(),
        "zstd" => zstd::bulk::decompress(&reply.body, 1 << 24).unwrap().into(),
        "gzip" => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&*reply.body);
            decoder.read_to_end(&mut plain).unwrap();
            plain.into()
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn documents_and_lists_are_compressed_as_the_request_accepts() {
    let service = Service::start().await;
    for _ in 0..20 {
        service.sale(5, |_| ()).await;
    }
    for path in [
        "/v1/sales",
        "/openapi.json",
        "/docs/swagger-ui-bundle.js",
        "/problems",
    ] {
        let plain = get(&service, path, "identity").await;
        assert_eq!(plain.status, 200, "{path}");
        assert_eq!(plain.header("content-encoding"), "");
        for (accept, coding) in [
            ("gzip", "gzip"),
            ("zstd", "zstd"),
            ("gzip, deflate, br, zstd", "zstd"),
            ("zstd;q=0.1, gzip;q=0.9", "gzip"),
            ("*", "zstd"),
            ("gzip;q=0", ""),
            ("br", ""),
        ] {
            // A constant document is kept, so it is asked for twice.
            for _ in 0..2 {
                let answer = get(&service, path, accept).await;
                assert_eq!(answer.status, 200, "{path} {accept}");
                assert_eq!(answer.header("content-encoding"), coding, "{path} {accept}");
                assert_eq!(answer.header("vary"), "accept-encoding", "{path} {accept}");
                let length = answer.body.len().to_string();
                assert_eq!(answer.header("content-length"), length, "{path} {accept}");
                assert_eq!(answer.header("content-type"), plain.header("content-type"));
                if !coding.is_empty() {
                    let half = plain.body.len() / 2;
                    assert!(answer.body.len() < half, "{path} {accept}: {length}");
                }
                let text = |reply: &Reply| String::from_utf8(decoded(reply).into()).unwrap();
                // The times of two answers differ.
                let untimed = |text: String| {
                    let parts = text.split("\"now\":").map(|part| part[..].to_owned());
                    parts
                        .map(|part| part.trim_start_matches(|c| c != ',' && c != '}').to_owned())
                        .collect::<String>()
                };
                match path {
                    "/v1/sales" => assert_eq!(untimed(text(&answer)), untimed(text(&plain))),
                    _ => assert_eq!(decoded(&answer), plain.body, "{path} {accept}"),
                }
            }
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn claims_single_objects_and_short_lists_are_never_compressed() {
    let service = Service::start().await;
    let description = "long ".repeat(500);
    let id = service
        .sale(5, |body| body["description"] = json!(description))
        .await;
    let sale = format!("/v1/sales/{id}");
    let orders = format!("{sale}/orders");
    let headers = [("accept-encoding", "zstd, gzip")];
    let ann = service.token("ann", "claim");
    let claimed = call(service.addr, "POST", &orders, Some(&ann), &headers, None).await;
    let refused = call(service.addr, "POST", &orders, None, &headers, None).await;
    let single = get(&service, &sale, "zstd, gzip").await;
    assert!(single.body.len() > 2_000);
    let state = get(&service, &format!("/v1/campaigns/{id}/state"), "gzip").await;
    let metrics = get(&service, "/metrics", "gzip").await;
    for (reply, status) in [
        (&claimed, 201),
        (&refused, 401),
        (&single, 200),
        (&state, 200),
        (&metrics, 200),
    ] {
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(reply.header("content-encoding"), "", "{reply:?}");
        assert_eq!(reply.header("vary"), "", "{reply:?}");
    }
    let strong = single.header("etag");
    assert!(strong.starts_with('"'), "{strong}");
    // A short list says that it depends on the header, and stays as it is.
    let short = get(&service, &orders, "gzip").await;
    assert_eq!((short.status, short.header("content-encoding")), (200, ""));
    assert_eq!(short.header("vary"), "accept-encoding");
    // A HEAD has no body, and says what a GET without compression says.
    let head = call(service.addr, "HEAD", "/openapi.json", None, &headers, None).await;
    assert_eq!((head.status, head.header("content-encoding")), (200, ""));
    assert_eq!(head.header("vary"), "accept-encoding");
    service.stop().await;
}
