//! Spans of requests. A real server on this machine is the collector, in all states, and also the shop.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::node::http::common::{START_MS, Service, call};
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span},
};
use parking_lot::Mutex;
use prost::Message as _;
use qiang::config::{ChallengeKind, Secret};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpListener, time::sleep};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const ABOVE: &str = "b7ad6b7169203331";
/// Longer than the pause between two requests with spans.
const SENT_WITHIN: Duration = Duration::from_secs(10);

fn traceparent(flags: u8) -> String {
    format!("00-{TRACE}-{ABOVE}-{flags:02x}")
}

/// Answers of the collector, in order. Further answers are 200.
#[derive(Default)]
struct Inside {
    answers: Mutex<Vec<(u16, Bytes)>>,
    heard: Mutex<Vec<(Uri, HeaderMap, Bytes)>>,
}

#[derive(Clone)]
struct Collector {
    addr: SocketAddr,
    inside: Arc<Inside>,
}

impl Collector {
    async fn open() -> Self {
        let inside = Arc::<Inside>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&inside));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(router.clone());
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(serving.await) });
            }
        });
        Self { addr, inside }
    }

    /// A service that sends its spans to this collector.
    async fn service(&self, sample_ratio: f64) -> Service {
        let endpoint = format!("http://{}", self.addr);
        Service::start_with(|config, _| {
            config.traces.endpoint = endpoint;
            config.traces.sample_ratio = sample_ratio;
            config.order_check.url = format!("http://{}/check", self.addr);
            let secret = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
            config.order_check.secret = Secret::new(secret);
            config.tickets.challenge = ChallengeKind::None;
        })
        .await
    }

    fn heard(&self, path: &str) -> Vec<(HeaderMap, Bytes)> {
        let heard = self.inside.heard.lock();
        let there = heard.iter().filter(|(uri, ..)| uri.path() == path);
        there
            .map(|(_, headers, body)| (headers.clone(), body.clone()))
            .collect()
    }

    fn resources(&self) -> Vec<ResourceSpans> {
        let requests = self.heard("/v1/traces");
        let decode = |(_, body): (_, Bytes)| ExportTraceServiceRequest::decode(body).unwrap();
        requests
            .into_iter()
            .flat_map(|request| decode(request).resource_spans)
            .collect()
    }

    fn spans(&self) -> Vec<Span> {
        let scopes = self.resources().into_iter().flat_map(|it| it.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

async fn answer(
    State(inside): State<Arc<Inside>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let is_check = uri.path() == "/check";
    inside.heard.lock().push((uri, headers, body));
    if is_check {
        sleep(Duration::from_millis(300)).await;
        return r#"{"ok":true}"#.into_response();
    }
    let mut answers = inside.answers.lock();
    match answers.is_empty() {
        true => StatusCode::OK.into_response(),
        false => {
            let (status, body) = answers.remove(0);
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
    }
}

async fn metrics(service: &Service) -> String {
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    String::from_utf8(metrics.body.to_vec()).unwrap()
}

async fn count(service: &Service, result: &str) -> u64 {
    let series = format!("qiang_trace_spans_total{{result=\"{result}\"}}");
    let metrics = metrics(service).await;
    let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
    value.unwrap_or("0").trim().parse().unwrap()
}

async fn until(what: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !what().await {
        assert!(start.elapsed() < SENT_WITHIN, "the spans do not arrive");
        sleep(Duration::from_millis(20)).await;
    }
}

fn written(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let shown = |it: &KeyValue| match it.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let pair = |it| (it, shown(it));
    let pairs = attributes.iter().map(pair);
    pairs.map(|(it, text)| (it.key.as_str(), text)).collect()
}

async fn ask(service: &Service, path: &str, token: Option<&str>, parent: Option<u8>) -> u16 {
    let parent = parent.map(traceparent);
    let headers = parent.iter().map(|it| ("traceparent", it.as_str()));
    let headers: Vec<_> = headers.chain([("tracestate", "shop=1")]).collect();
    let reply = call(service.addr, "GET", path, token, &headers, None).await;
    reply.status
}

#[tokio::test]
async fn a_request_has_a_span_in_the_trace_that_it_names() {
    let collector = Collector::open().await;
    let service = collector.service(0.0).await;
    let token = service.token("a-private-person", "claim");
    let path = "/v1/accounts/a-private-person";
    let began = Instant::now();
    assert_eq!(ask(&service, path, Some(&token), Some(1)).await, 200);
    let took = began.elapsed();
    assert_eq!(ask(&service, "/a-private-person", None, Some(1)).await, 404);
    // The first trace is not sampled by its caller. The second request has no trace.
    assert_eq!(ask(&service, path, Some(&token), Some(0)).await, 200);
    assert_eq!(ask(&service, path, Some(&token), None).await, 200);
    // The service sends the remaining spans before it stops.
    service.stop().await;

    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    let span = &spans[0];
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), ABOVE);
    assert_eq!(span.span_id.len(), 8);
    assert_ne!(hex(&span.span_id), ABOVE);
    assert_ne!(span.span_id, spans[1].span_id);
    assert_eq!(span.trace_state, "shop=1");
    // Sampled, with a parent in another process.
    assert_eq!(span.flags, 0x301);
    assert_eq!((span.kind, span.status.clone().unwrap().code), (2, 0));
    assert_eq!(span.name, "GET /v1/accounts/{user}");
    let expected = [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.route", "/v1/accounts/{user}"),
        ("network.protocol.version", "1.1"),
        ("url.path", "/v1/accounts/{user}"),
        ("url.scheme", "http"),
    ];
    let expected = expected.map(|(key, value)| (key, value.to_owned()));
    assert_eq!(written(&span.attributes), BTreeMap::from(expected));
    // The clock of the tests does not move. The clock of the process does.
    let start = u64::try_from(START_MS).unwrap() * 1_000_000;
    let lasted = span.end_time_unix_nano - span.start_time_unix_nano;
    assert!(
        lasted > 0 && u128::from(lasted) < took.as_nanos(),
        "{lasted}"
    );
    assert!(span.start_time_unix_nano.abs_diff(start) < 10_000_000_000);

    assert_eq!(spans[1].name, "GET");
    let other = written(&spans[1].attributes);
    assert_eq!(other["url.path"], "REDACTED");
    assert!(!other.contains_key("http.route"));
    let resource = &collector.resources()[0];
    let resource = written(&resource.resource.as_ref().unwrap().attributes).clone();
    assert_eq!(resource["service.name"], "qiang");
    assert!(resource.contains_key("service.instance.id"));
    for (headers, body) in collector.heard("/v1/traces") {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let body = String::from_utf8_lossy(&body);
        assert!(
            !body.contains("private") && !body.contains(&token),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_share_of_all_requests_begins_a_trace_and_the_shop_is_asked_in_it() {
    let collector = Collector::open().await;
    let service = collector.service(1.0).await;
    let sale = service
        .sale(5, |body| body["requirements"] = json!(["order_check"]))
        .await;
    let path = format!("/v1/sales/{sale}/orders");
    let order = service.act(&path, &service.token("ann", "claim")).await;
    assert_eq!(order.status, 201, "{order:?}");
    // A client that disconnects before the answer.
    let mut stream = tokio::net::TcpStream::connect(service.addr).await.unwrap();
    let token = service.token("bob", "claim");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until(async || collector.heard("/check").len() == 2).await;
    drop(stream);
    // Health checks begin no trace. They have a span in a trace of the caller.
    assert_eq!(ask(&service, "/healthz", None, None).await, 200);
    assert_eq!(ask(&service, "/healthz", None, Some(1)).await, 200);
    let name = "POST /v1/sales/{id}/orders";
    let of_orders = || {
        let spans = collector.spans().into_iter();
        spans.filter(|span| span.name == name).collect::<Vec<_>>()
    };
    until(async || of_orders().len() == 2).await;
    service.stop().await;

    let (spans, orders) = (collector.spans(), of_orders());
    assert!(orders.iter().all(|span| span.parent_span_id.is_empty()));
    let asked: Vec<_> = collector
        .heard("/check")
        .into_iter()
        .map(|(headers, _)| headers["traceparent"].to_str().unwrap().to_owned())
        .collect();
    for span in &orders {
        let in_span = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert!(asked.contains(&in_span), "{in_span}: {asked:?}");
        assert_eq!(span.flags, 0x101);
    }
    assert_ne!(orders[0].trace_id, orders[1].trace_id);
    let gone: Vec<_> = orders
        .iter()
        .filter(|span| span.status.clone().unwrap().code == 2)
        .collect();
    assert_eq!(gone.len(), 1, "{orders:?}");
    let gone = written(&gone[0].attributes);
    assert_eq!(gone["error.type"], "client_gone");
    assert!(!gone.contains_key("http.response.status_code"));
    let health: Vec<_> = spans
        .iter()
        .filter(|it| it.name == "GET /healthz")
        .collect();
    assert_eq!(health.len(), 1);
    assert_eq!(hex(&health[0].trace_id), TRACE);
}

#[tokio::test]
async fn spans_are_sent_again_where_the_collector_says_so_and_counted_where_it_refuses() {
    let collector = Collector::open().await;
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "no".to_owned(),
        }),
    };
    let service = collector.service(0.0).await;
    let round = async |answers: Vec<(u16, Bytes)>, counted: &str, count_of: u64| {
        *collector.inside.answers.lock() = answers;
        let before = count(&service, counted).await;
        assert_eq!(ask(&service, "/healthz", None, Some(1)).await, 200);
        let enough = async || count(&service, counted).await == before + count_of;
        until(enough).await;
    };
    round(
        vec![(503, Bytes::new()), (429, Bytes::new())],
        "exported",
        1,
    )
    .await;
    let bodies = collector.heard("/v1/traces");
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|(_, body)| *body == bodies[0].1));
    round(vec![(400, Bytes::new())], "failed", 1).await;
    round(vec![(200, partial.encode_to_vec().into())], "failed", 1).await;
    assert_eq!(count(&service, "exported").await, 1);
    assert_eq!(count(&service, "dropped").await, 0);
    service.stop().await;
    assert_eq!(collector.heard("/v1/traces").len(), 5);
}

/// A collector that accepts connections and answers nothing does not slow requests down.
#[tokio::test]
async fn a_collector_that_is_down_costs_nobody_anything() {
    const QUEUE_MAX: u32 = 100;
    const REQUESTS: u32 = 1_000;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let service = Service::start_with(|config, _| {
        config.traces.endpoint = endpoint;
        config.traces.queue_max = QUEUE_MAX;
        config.traces.timeout_ms = 60_000;
    })
    .await;
    let mut slowest = Duration::ZERO;
    for _ in 0..REQUESTS {
        let start = Instant::now();
        assert_eq!(ask(&service, "/healthz", None, Some(1)).await, 200);
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    // The remaining spans are in the queue, or in the request without an answer.
    let dropped = count(&service, "dropped").await;
    let kept = u64::from(REQUESTS) - dropped;
    assert!((1..=u64::from(2 * QUEUE_MAX)).contains(&kept), "{kept}");
    assert_eq!(count(&service, "exported").await, 0);
    let start = Instant::now();
    service.stop().await;
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn nothing_is_measured_unless_it_is_asked_for() {
    let service = Service::start().await;
    assert_eq!(ask(&service, "/healthz", None, Some(1)).await, 200);
    assert!(!metrics(&service).await.contains("qiang_trace"));
    service.stop().await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
