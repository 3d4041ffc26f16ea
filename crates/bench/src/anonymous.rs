//! `qiang-bench anonymous`: cost of each route that needs no token, and of refused requests.
//!
//! The node is in this process, and one connection sends one request at a time. So the processor time of a request
//! includes the client's, which the row of `GET /healthz` shows.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::header::HeaderValue;
use qiang::local::LocalService;
use qiang_client::load::client::{LoadClient, Response};
use serde::Serialize;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{fixture::SETTLE_MAX, process::cpu_seconds};

/// Shares of the red packet, and users that have one.
const SHARES: u32 = 200;
/// Longest id that the picture of a link accepts, in bytes.
const ID_BYTES: usize = 64;
/// Requests of a case before it is measured.
const WARM_UP: u64 = 10;
/// Longest wait for the first event of a stream.
const EVENT_MAX: Duration = Duration::from_secs(10);

/// Measure the cost of each route that needs no token, and of refused requests.
#[derive(Debug, clap::Args)]
pub(crate) struct AnonymousArgs {
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    millis: u64,
    /// Fail if the median of a request is above this, in microseconds.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2_000)]
    at_most: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Measured {
    rows: Vec<Row>,
    ok: bool,
}

/// Cost of one kind of request.
#[derive(Debug, Serialize)]
struct Row {
    route: &'static str,
    case: &'static str,
    status: u16,
    bytes: usize,
    requests: u64,
    p50_us: u64,
    p99_us: u64,
    /// Mean processor time of client and node.
    cpu_us: f64,
}

/// Kind of request to a route.
struct Case {
    route: &'static str,
    name: &'static str,
    request: Request,
}

enum Request {
    Get(String),
    /// A path of an object that does not exist, new for each request: before and after its id.
    GetUnknown(&'static str, &'static str),
    Delete(&'static str),
    /// A claim with this token.
    Post(String, HeaderValue),
    /// A stream until its first event.
    Stream(String),
}

pub(crate) async fn run(args: &AnonymousArgs) -> anyhow::Result<bool> {
    let node = LocalService::start(false).await?;
    let measured = measure(args, &node).await;
    node.stop().await?;
    let measured = measured?;
    if args.json {
        println!("{}", serde_json::to_string(&measured)?);
    } else {
        print!("{}", table(&measured.rows));
    }
    Ok(measured.ok)
}

/// Rows of a Markdown table.
fn table(rows: &[Row]) -> String {
    let mut text = "| route | case | status | bytes | median µs | p99 µs | CPU µs |\n\
                    |---|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {:.0} |",
            row.route, row.case, row.status, row.bytes, row.p50_us, row.p99_us, row.cpu_us,
        );
    }
    text
}

async fn measure(args: &AnonymousArgs, node: &LocalService) -> anyhow::Result<Measured> {
    let cases = cases(&Scene::new(node).await?);
    let covered: BTreeSet<_> = cases.iter().map(|case| case.route).collect();
    let missing: Vec<_> = qiang::anonymous_routes()
        .into_iter()
        .filter(|route| !covered.contains(route.as_str()))
        .collect();
    ensure!(missing.is_empty(), "no measurement of {missing:?}");
    let lasts = Duration::from_millis(args.millis);
    let mut rows = Vec::new();
    for case in &cases {
        let row = case.measure(node.addr(), lasts).await;
        rows.push(row.with_context(|| format!("{} ({})", case.route, case.name))?);
    }
    let ok = rows.iter().all(|row| row.p50_us <= args.at_most);
    Ok(Measured { rows, ok })
}

/// Campaigns of the measured node.
struct Scene {
    packet: String,
    sale: String,
    /// Path of a page's script.
    asset: String,
    /// A token with a signature of another key.
    forged: HeaderValue,
}

impl Scene {
    /// Opens a sale, and a red packet whose shares are all granted.
    async fn new(node: &LocalService) -> anyhow::Result<Self> {
        let bearer = |user: &str, scope: &str| -> anyhow::Result<_> {
            Ok(HeaderValue::try_from(node.tokens().bearer(user, scope)?)?)
        };
        let operator = bearer("bench", "claim send deposit campaigns:write")?;
        let mut client = LoadClient::connect(node.addr()).await?;
        let total = json!({ "amount": SHARES, "currency": "CNY" });
        let deposit = json!({ "reference": "bench", "amount": SHARES, "currency": "CNY" });
        let path = "/v1/accounts/bench/deposits";
        client.create(path, &operator, &deposit).await?;
        let packet = json!({
            "title": "bench", "total": total, "shares": SHARES, "split": { "rule": "equal" },
        });
        let packet = client.create("/v1/red-packets", &operator, &packet).await?;
        for n in 0..SHARES {
            let user = bearer(&format!("user-{n}"), "claim")?;
            let path = format!("/v1/red-packets/{packet}/claims");
            client.post(&path, &user, Bytes::new()).await?.success()?;
        }
        let price = json!({ "amount": 100, "currency": "CNY" });
        let sale = json!({ "title": "bench", "stock": 100, "unit_price": price });
        let sale = client.create("/v1/sales", &operator, &sale).await?;
        node.settle(SETTLE_MAX).await?;
        let home = client.get("/", &no_token()).await?;
        let forged = operator.to_str()?;
        // Another last letter of a signature may decode to the same bytes; another first letter does not.
        let (head, signature) = forged
            .rsplit_once('.')
            .context("a token has no signature")?;
        let letter = if signature.starts_with('A') { 'B' } else { 'A' };
        let forged = format!("{head}.{letter}{}", &signature[1..]);
        Ok(Self {
            packet,
            sale,
            asset: asset_of(std::str::from_utf8(&home.body)?)?,
            forged: HeaderValue::try_from(forged)?,
        })
    }
}

/// Path of the first script that a page names.
fn asset_of(page: &str) -> anyhow::Result<String> {
    let (_, rest) = page
        .split_once("src=\"/assets/")
        .context("the home page has no script")?;
    let (path, _) = rest.split_once('"').context("a script has no end")?;
    Ok(format!("/assets/{path}"))
}

fn cases(scene: &Scene) -> Vec<Case> {
    let Scene { packet, sale, .. } = scene;
    let of = |route, name, request| Case {
        route,
        name,
        request,
    };
    let get = |route, name, path: &str| of(route, name, Request::Get(path.to_owned()));
    // The same path as its route.
    let page = |route: &'static str| get(route, "", route.trim_start_matches("GET "));
    let unknown =
        |route, before, after| of(route, "unknown id", Request::GetUnknown(before, after));
    let longest = "1".repeat(ID_BYTES);
    let claims = format!("/v1/red-packets/{packet}/claims");
    let (packet_code, sale_code) = (format!("/p/{packet}/qr.svg"), format!("/s/{sale}/qr.svg"));
    vec![
        page("GET /healthz"),
        page("GET /readyz"),
        page("GET /metrics"),
        page("GET /problems"),
        get("GET /problems/{slug}", "", "/problems/sold-out"),
        page("GET /openapi.json"),
        get("GET /docs", "page", "/docs/"),
        get("GET /docs", "largest script", "/docs/swagger-ui-bundle.js"),
        get(STATE, "sale", &format!("/v1/campaigns/{sale}/state")),
        get(
            STATE,
            "empty packet",
            &format!("/v1/campaigns/{packet}/state"),
        ),
        unknown(STATE, "/v1/campaigns/", "/state"),
        get("GET /v1/sales/{id}", "", &format!("/v1/sales/{sale}")),
        get(
            "GET /v1/red-packets/{id}",
            "",
            &format!("/v1/red-packets/{packet}"),
        ),
        unknown("GET /v1/sales/{id}", "/v1/sales/", ""),
        unknown("GET /v1/red-packets/{id}", "/v1/red-packets/", ""),
        of(
            EVENTS,
            "sale, first event",
            Request::Stream(format!("/v1/campaigns/{sale}/events")),
        ),
        of(
            EVENTS,
            "packet, first event",
            Request::Stream(format!("/v1/campaigns/{packet}/events")),
        ),
        unknown(EVENTS, "/v1/campaigns/", "/events"),
        of("DELETE /v1/session", "", Request::Delete("/v1/session")),
        page("GET /"),
        get("GET /p/{id}", "", &format!("/p/{packet}")),
        unknown("GET /p/{id}", "/p/", ""),
        get("GET /p/{id}/qr.svg", "", &packet_code),
        get(
            "GET /p/{id}/qr.svg",
            "longest id",
            &format!("/p/{longest}/qr.svg"),
        ),
        get("GET /s/{id}", "", &format!("/s/{sale}")),
        unknown("GET /s/{id}", "/s/", ""),
        get("GET /s/{id}/qr.svg", "", &sale_code),
        get(
            "GET /s/{id}/qr.svg",
            "longest id",
            &format!("/s/{longest}/qr.svg"),
        ),
        page("GET /send"),
        page("GET /packets"),
        page("GET /orders"),
        page("GET /balance"),
        page("GET /admin"),
        page("GET /admin/lookup"),
        page("GET /admin/live"),
        page("GET /admin/operation"),
        page("GET /admin/sales/new"),
        page("GET /admin/sales/import"),
        page("GET /admin/packets/new"),
        get("GET /admin/sales/{id}", "", &format!("/admin/sales/{sale}")),
        get(
            "GET /admin/packets/{id}",
            "",
            &format!("/admin/packets/{packet}"),
        ),
        page("GET /sign-in"),
        get("GET /assets/{version}/{name}", "", &scene.asset),
        get(OTHER, "unknown path", "/nothing"),
        of(OTHER, "no token", Request::Post(claims.clone(), no_token())),
        of(
            OTHER,
            "forged token",
            Request::Post(claims.clone(), scene.forged.clone()),
        ),
    ]
}

const STATE: &str = "GET /v1/campaigns/{id}/state";
const EVENTS: &str = "GET /v1/campaigns/{id}/events";
/// Requests that no anonymous route answers.
const OTHER: &str = "any other";

impl Case {
    /// Sends requests for this long.
    async fn measure(&self, addr: SocketAddr, lasts: Duration) -> anyhow::Result<Row> {
        let mut client = LoadClient::connect(addr).await?;
        let (mut status, mut bytes) = (0, 0);
        for n in 0..WARM_UP {
            (status, bytes) = self.request.send(&mut client, addr, n).await?;
        }
        ensure!(status < 500, "answered {status}");
        let mut latency = Histogram::<u64>::new(3)?;
        let (began, cpu) = (Instant::now(), cpu_seconds()?);
        while began.elapsed() < lasts {
            let asked = Instant::now();
            let n = WARM_UP + latency.len();
            let (now, _) = self.request.send(&mut client, addr, n).await?;
            ensure!(now == status, "answered {now} after {status}");
            // Sub-microsecond answers do not exist.
            latency.record((asked.elapsed().as_micros() as u64).max(1))?;
        }
        let cpu = cpu_seconds()? - cpu;
        Ok(Row {
            route: self.route,
            case: self.name,
            status,
            bytes,
            requests: latency.len(),
            p50_us: latency.value_at_quantile(0.5),
            p99_us: latency.value_at_quantile(0.99),
            cpu_us: cpu * 1e6 / latency.len().max(1) as f64,
        })
    }
}

impl Request {
    /// Sends the request. Returns the status and the length of the body.
    async fn send(
        &self,
        client: &mut LoadClient,
        addr: SocketAddr,
        n: u64,
    ) -> anyhow::Result<(u16, usize)> {
        let none = no_token();
        let answer = match self {
            Self::Get(path) => client.get(path, &none).await?,
            Self::GetUnknown(before, after) => {
                let id = format!("00000000-0000-7000-8000-{n:012x}");
                client.get(&format!("{before}{id}{after}"), &none).await?
            }
            Self::Delete(path) => client.delete(path, &none).await?,
            Self::Post(path, token) => client.post(path, token, Bytes::new()).await?,
            Self::Stream(path) => return first_event(addr, path).await,
        };
        let Response { status, body, .. } = answer;
        Ok((status.as_u16(), body.len()))
    }
}

/// Opens a stream on a connection of its own, and reads its first event.
async fn first_event(addr: SocketAddr, path: &str) -> anyhow::Result<(u16, usize)> {
    let mut stream = TcpStream::connect(addr).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut text = Vec::new();
    let read = async {
        loop {
            if stream.read_buf(&mut text).await? == 0 {
                bail!("the stream ended without an event");
            }
            let whole = String::from_utf8_lossy(&text);
            if let Some((head, body)) = whole.split_once("\r\n\r\n")
                && body.contains("\n\n")
            {
                let status = head.split(' ').nth(1).context("an answer has no status")?;
                return Ok((status.parse()?, body.len()));
            }
        }
    };
    tokio::time::timeout(EVENT_MAX, read)
        .await
        .context("no event")?
}

/// Empty token: no `Authorization` header.
fn no_token() -> HeaderValue {
    HeaderValue::from_static("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_anonymous_route_has_a_case() {
        let scene = Scene {
            packet: String::new(),
            sale: String::new(),
            asset: String::new(),
            forged: no_token(),
        };
        let covered: BTreeSet<_> = cases(&scene)
            .into_iter()
            .map(|case| case.route.to_owned())
            .filter(|route| route != OTHER)
            .collect();
        assert_eq!(covered, qiang::anonymous_routes());
    }
}
