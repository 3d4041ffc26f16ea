//! `qiang-bench costs`: processor time of a node, and of Redis, for each kind of request.
//!
//! The node is a process of its own, so clients do not count. Kinds alternate in rounds, each beside a request that
//! does nothing, and the report has the medians. Claims and payments count until they are settled. At the end a mix of
//! kinds is compared with the sum of their costs: a point from which no cost was made.

mod connection;
mod load;
mod report;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use qiang_client::load::client::LoadClient;
use serde_json::json;

use self::{
    connection::{Endpoint, certify, post},
    load::{Answered, run_all},
    report::{CostReport, Kind},
};
use crate::{
    http::Watchers,
    median,
    node_process::{NodeProcess, NodeSetup},
    process::{cpu_seconds_of, resident_bytes_of},
};

/// Price of a unit, in minor units.
const PRICE: u32 = 100;
/// Claims per second of the campaign that streams watch.
const WATCHED_CLAIMS_PER_S: u32 = 20;

/// Measure the processor time of each kind of request.
#[derive(Debug, clap::Args)]
pub(crate) struct CostsArgs {
    /// Redis to use for the engine; without it, the embedded engine. The benchmark creates and removes its own keys.
    /// Nothing else should use that Redis during the run.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Database server of the ledger on Redis; the benchmark creates and drops a database there. By default a file.
    #[arg(long, value_name = "URL", requires = "redis")]
    ledger: Option<String>,
    /// Requests of each kind and round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(10..=200_000))]
    requests: u32,
    /// TLS handshakes of each round.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    handshakes: u32,
    /// Open streams.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    watchers: u32,
    /// Seconds of each measurement of streams.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &CostsArgs) -> anyhow::Result<bool> {
    let setup = NodeSetup {
        redis: args.redis.clone(),
        ledger: args.ledger.clone(),
        keys: vec![("server.noop_route", "true".to_owned())],
    };
    let folder = tempfile::tempdir()?;
    let (mut keys, certificate) = certify(folder.path())?;
    keys.extend(setup.keys.clone());
    let node = NodeProcess::start(&setup).await?;
    // TLS needs no engine of its own kind.
    let over_tls = NodeSetup {
        keys,
        ..NodeSetup::default()
    };
    let over_tls = NodeProcess::start(&over_tls).await?;
    let secure = Endpoint::over_tls(over_tls.addr, &certificate)?;
    let mut bench = CostBench::new(args, node, over_tls, secure).await?;
    let report = bench.measure().await?;
    bench.stop().await?;
    match args.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => report.print(),
    }
    Ok(true)
}

/// Processor time used so far.
#[derive(Clone, Copy)]
struct Used {
    node: f64,
    redis: Option<f64>,
}

struct CostBench<'a> {
    args: &'a CostsArgs,
    node: NodeProcess,
    over_tls: NodeProcess,
    plain: Endpoint,
    secure: Endpoint,
    operator: HeaderValue,
    users: Vec<HeaderValue>,
    sold_out: String,
    /// A sale of the node that speaks TLS.
    secure_sale: String,
    info: Option<redis::aio::MultiplexedConnection>,
    /// Number of references used.
    references: u64,
}

impl<'a> CostBench<'a> {
    async fn new(
        args: &'a CostsArgs,
        node: NodeProcess,
        over_tls: NodeProcess,
        secure: Endpoint,
    ) -> anyhow::Result<Self> {
        let operator = node.bearer("bench", "claim pay campaigns:write read:any")?;
        let users = (0..args.requests).map(|n| node.bearer(&format!("user-{n}"), "claim"));
        let users = users.collect::<anyhow::Result<_>>()?;
        let info = match &args.redis {
            None => None,
            Some(url) => {
                let client = redis::Client::open(url.as_str())?;
                Some(client.get_multiplexed_async_connection().await?)
            }
        };
        let plain = Endpoint::plain(node.addr);
        let mut bench = Self {
            args,
            node,
            over_tls,
            plain,
            secure,
            operator,
            users,
            sold_out: String::new(),
            secure_sale: String::new(),
            info,
            references: 0,
        };
        bench.sold_out = bench.sale(1).await?;
        bench.secure_sale = bench.open_secure_sale().await?;
        let mut client = LoadClient::connect(bench.node.addr).await?;
        let path = format!("/v1/sales/{}/orders", bench.sold_out);
        client
            .post(&path, &bench.operator, bytes::Bytes::new())
            .await?
            .success()?;
        Ok(bench)
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.over_tls.stop().await?;
        self.node.stop().await
    }

    /// Opens a sale of this many units.
    async fn sale(&self, stock: u32) -> anyhow::Result<String> {
        let mut client = LoadClient::connect(self.node.addr).await?;
        client
            .create("/v1/sales", &self.operator, &sale_body(stock))
            .await
    }

    /// Opens a sale on the node that speaks TLS.
    async fn open_secure_sale(&self) -> anyhow::Result<String> {
        let operator = self.over_tls.bearer("bench", "campaigns:write")?;
        let request = post("/v1/sales", &operator, &sale_body(1).to_string())?;
        let answer = self.secure.connect().await?.send(&request).await?;
        ensure!(
            answer.status == 201,
            "a sale was answered with status {}",
            answer.status
        );
        let sale: serde_json::Value = serde_json::from_slice(&answer.body)?;
        let id = sale["id"].as_str().context("a sale without an id")?;
        Ok(id.to_owned())
    }

    async fn used(&mut self) -> anyhow::Result<Used> {
        let redis = match &mut self.info {
            None => None,
            Some(info) => Some(redis_cpu(info).await?),
        };
        Ok(Used {
            node: cpu_seconds_of(&self.node.pid())?,
            redis,
        })
    }

    async fn measure(&mut self) -> anyhow::Result<CostReport> {
        let names = [
            "no-op",
            "refusal",
            "claim",
            "payment",
            "sign-in",
            "tls request",
            "tls handshake",
            "stream second",
        ];
        let mut kinds = names.map(|name| Kind {
            name,
            ..Kind::default()
        });
        let node_bytes = resident_bytes_of(&self.node.pid())?;
        let (mut stream_bytes, mut file_bytes) = (Vec::new(), Vec::new());
        // The first round warms up, and does not count.
        for round in 0..=self.args.rounds {
            let noop = self.noop().await?;
            let refusal = self.refusals().await?;
            let before = self.file_bytes()?;
            let (claim, orders) = self.claims().await?;
            let payment = self.payments(&orders).await?;
            if let Some((before, after)) = before.zip(self.file_bytes()?) {
                file_bytes.push((after - before) as f64 / orders.len() as f64);
            }
            let sign_in = self.sign_ins().await?;
            let tls = self.tls().await?;
            let (stream, bytes) = self.streams().await?;
            if round == 0 {
                file_bytes.clear();
                continue;
            }
            stream_bytes.push(bytes);
            let costs = [noop, refusal, claim, payment, sign_in, tls.0, tls.1, stream];
            for (kind, cost) in kinds.iter_mut().zip(costs) {
                kind.node_us.push(cost.node);
                kind.ratios.push(cost.node / noop.node);
                kind.redis_us.extend(cost.redis);
            }
        }
        let mix = self.mix().await?;
        let of = |name: &str| {
            let kind = kinds.iter().find(|kind| kind.name == name);
            kind.map_or(f64::NAN, Kind::node_us)
        };
        let mix_model_us = (of("no-op") + of("refusal") + of("claim") + of("payment")) / 4.0;
        Ok(CostReport {
            engine: match self.args.redis {
                Some(_) => "redis",
                None => "embedded",
            },
            rounds: self.args.rounds,
            requests: self.args.requests,
            node_bytes,
            stream_bytes: median(stream_bytes.into_iter()).unwrap_or(f64::NAN),
            paid_order_bytes: median(file_bytes.into_iter()),
            mix_us: mix.node,
            mix_model_us,
            kinds: kinds.into(),
        })
    }

    /// Size of the file with its write-ahead log; `None` if the ledger is in a database.
    fn file_bytes(&self) -> anyhow::Result<Option<u64>> {
        if self.node.ledger_url.is_some() {
            return Ok(None);
        }
        let size = std::fs::metadata(&self.node.file).context("the node has no file")?;
        Ok(Some(size.len()))
    }

    /// Sends requests to the node, waits for settlement, and returns the cost of each with the answers.
    async fn cost(
        &mut self,
        requests: Vec<Vec<u8>>,
        status: u16,
    ) -> anyhow::Result<(Used, Vec<Answered>)> {
        let (count, connections) = (requests.len(), self.args.connections);
        let before = self.used().await?;
        let answers = run_all(&self.plain, requests, connections, status).await?;
        self.node.settle().await?;
        Ok((each(before, self.used().await?, count), answers))
    }

    async fn noop(&mut self) -> anyhow::Result<Used> {
        let path = format!("/v1/noop/{}/claims", self.sold_out);
        Ok(self.cost(self.by_users(&path)?, 201).await?.0)
    }

    async fn refusals(&mut self) -> anyhow::Result<Used> {
        let path = format!("/v1/sales/{}/orders", self.sold_out);
        Ok(self.cost(self.by_users(&path)?, 409).await?.0)
    }

    /// One request of each user to a path.
    fn by_users(&self, path: &str) -> anyhow::Result<Vec<Vec<u8>>> {
        self.users.iter().map(|user| post(path, user, "")).collect()
    }

    /// One order per user of a new sale.
    async fn claims(&mut self) -> anyhow::Result<(Used, Vec<Answered>)> {
        let sale = self.sale(self.args.requests).await?;
        let requests = self.by_users(&format!("/v1/sales/{sale}/orders"))?;
        self.cost(requests, 201).await
    }

    async fn payments(&mut self, orders: &[Answered]) -> anyhow::Result<Used> {
        let requests = self.paid(orders)?;
        Ok(self.cost(requests, 200).await?.0)
    }

    /// Payments of orders, each with a reference of its own.
    fn paid(&mut self, orders: &[Answered]) -> anyhow::Result<Vec<Vec<u8>>> {
        let requests = orders.iter().map(|order| {
            self.references += 1;
            let order: serde_json::Value = serde_json::from_slice(order)?;
            let id = order["id"].as_str().context("an order without an id")?;
            let reference = format!("bench-{}", self.references);
            let body =
                json!({ "reference": reference, "amount": { "amount": PRICE, "currency": "CNY" } });
            post(
                &format!("/v1/orders/{id}/payment"),
                &self.operator,
                &body.to_string(),
            )
        });
        requests.collect()
    }

    async fn sign_ins(&mut self) -> anyhow::Result<Used> {
        let requests = self.by_users("/v1/session")?;
        Ok(self.cost(requests, 201).await?.0)
    }

    /// A request that does nothing over TLS, and one on a new connection less that one.
    async fn tls(&self) -> anyhow::Result<(Used, Used)> {
        let user = self.over_tls.bearer("user", "claim")?;
        let request = post(&format!("/v1/noop/{}/claims", self.secure_sale), &user, "")?;
        let pid = self.over_tls.pid();
        let used = || {
            anyhow::Ok(Used {
                node: cpu_seconds_of(&pid)?,
                redis: None,
            })
        };
        let connections = self.args.connections;
        let requests = vec![request.clone(); self.args.requests as usize];
        let before = used()?;
        run_all(&self.secure, requests, connections, 201).await?;
        let kept = each(before, used()?, self.args.requests as usize);
        let before = used()?;
        load::connect_all(&self.secure, &request, self.args.handshakes, connections).await?;
        let new = each(before, used()?, self.args.handshakes as usize);
        let handshake = Used {
            node: new.node - kept.node,
            redis: None,
        };
        Ok((kept, handshake))
    }

    /// Time of an open stream per second, beside the claims that it watches, and its memory.
    async fn streams(&mut self) -> anyhow::Result<(Used, f64)> {
        let claims = WATCHED_CLAIMS_PER_S * u32::try_from(self.args.seconds)?;
        let claims = claims.min(self.args.requests);
        let sale = self.sale(claims).await?;
        let path = format!("/v1/sales/{sale}/orders");
        let requests = self.users.iter().take(claims as usize);
        let requests = requests
            .map(|user| post(&path, user, ""))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let memory = resident_bytes_of(&self.node.pid())?;
        let watchers =
            Watchers::start(self.node.addr, &sale, &self.operator, self.args.watchers).await?;
        let grown = resident_bytes_of(&self.node.pid())?.saturating_sub(memory);
        let before = self.used().await?;
        load::run_at_rate(
            &self.plain,
            requests,
            WATCHED_CLAIMS_PER_S,
            Duration::from_secs(self.args.seconds),
        )
        .await?;
        let after = self.used().await?;
        let watched = watchers.stop().await?;
        ensure!(
            watched.bytes_per_second() > 0.0,
            "the streams received no events"
        );
        let stream_seconds = self.args.watchers as usize * self.args.seconds as usize;
        let cost = each(before, after, stream_seconds);
        Ok((
            Used {
                redis: None,
                ..cost
            },
            grown as f64 / f64::from(self.args.watchers),
        ))
    }

    /// Requests of four kinds at once, in equal parts.
    async fn mix(&mut self) -> anyhow::Result<Used> {
        let (_, orders) = self.claims().await?;
        let sale = self.sale(self.args.requests).await?;
        let kinds = [
            self.by_users(&format!("/v1/noop/{}/claims", self.sold_out))?,
            self.by_users(&format!("/v1/sales/{}/orders", self.sold_out))?,
            self.by_users(&format!("/v1/sales/{sale}/orders"))?,
            self.paid(&orders)?,
        ];
        let mut mixed = Vec::new();
        for at in 0..self.args.requests as usize {
            mixed.extend(kinds.iter().map(|kind| kind[at].clone()));
        }
        let count = mixed.len();
        let before = self.used().await?;
        load::run_mixed(
            &self.plain,
            mixed,
            self.args.connections,
            &[201, 409, 201, 200],
        )
        .await?;
        self.node.settle().await?;
        Ok(each(before, self.used().await?, count))
    }
}

/// A sale of this many units.
fn sale_body(stock: u32) -> serde_json::Value {
    json!({
        "title": "bench", "stock": stock, "hold_seconds": 86_400,
        "unit_price": { "amount": PRICE, "currency": "CNY" },
    })
}

/// Cost of each of some requests, in µs.
fn each(before: Used, after: Used, count: usize) -> Used {
    let micros = |before: f64, after: f64| (after - before) * 1e6 / count as f64;
    Used {
        node: micros(before.node, after.node),
        redis: before
            .redis
            .zip(after.redis)
            .map(|(before, after)| micros(before, after)),
    }
}

/// Processor time of Redis, in seconds.
async fn redis_cpu(info: &mut redis::aio::MultiplexedConnection) -> anyhow::Result<f64> {
    let text: String = redis::cmd("INFO").arg("cpu").query_async(info).await?;
    let seconds = |name: &str| -> anyhow::Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line
            .context("INFO lacks the processor time")?
            .trim()
            .parse()?)
    };
    Ok(seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?)
}
