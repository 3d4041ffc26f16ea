//! Clicks and payments of a soak, at a rate or as fast as answers arrive.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::header::HeaderValue;
use parking_lot::{Mutex, RwLock};
use qiang_client::load::client::{LoadClient, Response};
use serde_json::json;
use tokio::task::JoinSet;

use super::SoakArgs;
use crate::node_process::NodeProcess;

/// Price of a unit, in minor units.
const PRICE: u32 = 100;
/// Pauses that the report keeps.
const PAUSES_MAX: usize = 10;
/// Interval at which a full sale is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Sales that stay open after the current one, so that late payments arrive.
const OPEN_SALES: usize = 2;

/// A part of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    /// Clicks per second; `None` for as fast as answers arrive.
    pub(super) rate: Option<f64>,
    pub(super) lasts: Duration,
    /// Length of a window of the statistics.
    pub(super) window: Duration,
}

/// Latencies of a window, in microseconds.
#[derive(Debug, Clone)]
pub(super) struct SoakWindow {
    pub(super) claims: Histogram<u64>,
    pub(super) payments: Histogram<u64>,
    /// Answers other than expected, and lost connections.
    pub(super) failures: u64,
}

impl SoakWindow {
    pub(super) fn empty() -> Self {
        let new = || Histogram::new(3).expect("three digits are a valid precision");
        Self {
            claims: new(),
            payments: new(),
            failures: 0,
        }
    }
}

/// Time without any answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(super) struct SoakPause {
    pub(super) millis: u64,
    /// Second of the run in which it ended.
    pub(super) at_s: u64,
}

/// Statistics of a stage.
#[derive(Debug)]
pub(super) struct SoakStats {
    begun: Instant,
    window: Duration,
    pub(super) windows: Vec<SoakWindow>,
    /// Failures by their status, or `no answer`.
    pub(super) failures: BTreeMap<String, u64>,
    last: Instant,
    /// The longest first.
    pub(super) pauses: Vec<SoakPause>,
}

/// Kind of an answered request.
#[derive(Clone, Copy)]
enum Click {
    Claim,
    Payment,
}

impl SoakStats {
    fn new(window: Duration) -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            window,
            windows: Vec::new(),
            failures: BTreeMap::new(),
            last: now,
            pauses: Vec::new(),
        }
    }

    /// Answered requests.
    pub(super) fn answered(&self) -> u64 {
        self.windows.iter().map(|window| window.claims.len()).sum()
    }

    fn window(&mut self) -> &mut SoakWindow {
        let at = (self.begun.elapsed().as_secs_f64() / self.window.as_secs_f64()) as usize;
        if self.windows.len() <= at {
            self.windows.resize_with(at + 1, SoakWindow::empty);
        }
        &mut self.windows[at]
    }

    fn answer(&mut self, click: Click, waited: Duration) -> anyhow::Result<()> {
        let now = Instant::now();
        let millis = now.duration_since(self.last).as_millis() as u64;
        self.last = now;
        let shortest = self.pauses.last().map_or(0, |pause| pause.millis);
        if self.pauses.len() < PAUSES_MAX || millis > shortest {
            let at_s = self.begun.elapsed().as_secs();
            self.pauses.push(SoakPause { millis, at_s });
            self.pauses.sort_unstable_by(|a, b| b.cmp(a));
            self.pauses.truncate(PAUSES_MAX);
        }
        let window = self.window();
        let waited = waited.as_micros() as u64;
        match click {
            Click::Claim => window.claims.record(waited)?,
            Click::Payment => window.payments.record(waited)?,
        }
        Ok(())
    }

    fn fail(&mut self, what: String) {
        *self.failures.entry(what).or_default() += 1;
        self.window().failures += 1;
    }
}

/// Users, sales and counters of the load.
pub(super) struct SoakLoad {
    addr: std::net::SocketAddr,
    operator: HeaderValue,
    users: Vec<HeaderValue>,
    connections: u32,
    granted_percent: u64,
    paid_percent: u64,
    hold_s: u32,
    sold_out: String,
    /// Ids of the sales with stock, the oldest first.
    open: RwLock<Vec<String>>,
    clicks: AtomicU64,
    orders: AtomicU64,
    payments: AtomicU64,
}

impl SoakLoad {
    pub(super) async fn new(args: &SoakArgs, node: &NodeProcess) -> anyhow::Result<Self> {
        let users = (0..args.users).map(|n| node.bearer(&format!("user-{n}"), "claim"));
        let mut load = Self {
            addr: node.addr,
            operator: node.bearer("bench", "admin claim")?,
            users: users.collect::<anyhow::Result<_>>()?,
            connections: args.connections,
            granted_percent: args.granted.into(),
            paid_percent: args.paid.into(),
            hold_s: args.hold,
            sold_out: String::new(),
            open: RwLock::default(),
            clicks: AtomicU64::new(0),
            orders: AtomicU64::new(0),
            payments: AtomicU64::new(0),
        };
        let mut client = LoadClient::connect(load.addr).await?;
        load.sold_out = load.sale(&mut client, 1, 86_400).await?;
        let path = format!("/v1/sales/{}/orders", load.sold_out);
        client
            .post(&path, &load.operator, Bytes::new())
            .await?
            .success()?;
        for _ in 0..OPEN_SALES {
            load.open_next(&mut client).await?;
        }
        Ok(load)
    }

    /// Number of sales that were opened.
    pub(super) fn sales(&self) -> usize {
        self.open.read().len()
    }

    /// The sale that users claim from now.
    pub(super) fn current(&self) -> String {
        let open = self.open.read();
        let at = self.orders.load(Ordering::Relaxed) as usize / self.users.len();
        open[at.min(open.len() - 1)].clone()
    }

    async fn sale(
        &self,
        client: &mut LoadClient,
        stock: usize,
        hold_s: u32,
    ) -> anyhow::Result<String> {
        let sale = json!({
            "title": "soak", "stock": stock, "hold_seconds": hold_s,
            "unit_price": { "amount": PRICE, "currency": "CNY" },
        });
        client.create("/v1/sales", &self.operator, &sale).await
    }

    async fn open_next(&self, client: &mut LoadClient) -> anyhow::Result<()> {
        let sale = self.sale(client, self.users.len(), self.hold_s).await?;
        self.open.write().push(sale);
        Ok(())
    }

    /// Opens the next sale in time, and closes old ones, until it is dropped.
    async fn roll(self: Arc<Self>) -> anyhow::Result<()> {
        let mut client = LoadClient::connect(self.addr).await?;
        let mut closed = 0;
        loop {
            let current = self.orders.load(Ordering::Relaxed) as usize / self.users.len();
            while self.sales() < current + OPEN_SALES {
                self.open_next(&mut client).await?;
            }
            while closed + OPEN_SALES < current {
                let sale = self.open.read()[closed].clone();
                let path = format!("/v1/campaigns/{sale}/close");
                client
                    .post(&path, &self.operator, Bytes::new())
                    .await?
                    .success()?;
                closed += 1;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn run(self: Arc<Self>, stage: &Stage) -> anyhow::Result<SoakStats> {
        self.run_stage(*stage).await
    }

    /// Runs a stage to its end.
    pub(super) async fn run_stage(self: Arc<Self>, stage: Stage) -> anyhow::Result<SoakStats> {
        let stats = Arc::new(Mutex::new(SoakStats::new(stage.window)));
        let first = self.clicks.load(Ordering::Relaxed);
        let begun = Instant::now();
        let roller = tokio::spawn(Arc::clone(&self).roll());
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections {
            let (load, stats) = (Arc::clone(&self), Arc::clone(&stats));
            tasks.spawn(async move {
                let mut client = Some(LoadClient::connect(load.addr).await?);
                loop {
                    let click = load.clicks.fetch_add(1, Ordering::Relaxed);
                    let due = match stage.rate {
                        None => Instant::now(),
                        Some(rate) => {
                            begun + Duration::from_secs_f64((click - first) as f64 / rate)
                        }
                    };
                    if due.duration_since(begun) >= stage.lasts {
                        return anyhow::Ok(());
                    }
                    tokio::time::sleep_until(due.into()).await;
                    if client.is_none() {
                        client = LoadClient::connect(load.addr).await.ok();
                    }
                    let clicked = match &mut client {
                        Some(client) => load.click(client, click, due, &stats).await,
                        None => Err(anyhow::anyhow!("no connection")),
                    };
                    if clicked.is_err() {
                        client = None;
                        stats.lock().fail("no answer".to_owned());
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        if roller.is_finished() {
            roller.await?.context("the next sale could not be opened")?;
        } else {
            roller.abort();
        }
        let stats = Arc::into_inner(stats).context("a connection still counts")?;
        Ok(stats.into_inner())
    }

    /// One click, and the payment of its order.
    async fn click(
        &self,
        client: &mut LoadClient,
        click: u64,
        due: Instant,
        stats: &Mutex<SoakStats>,
    ) -> anyhow::Result<()> {
        if click % 100 >= self.granted_percent {
            let user = &self.users[click as usize % self.users.len()];
            let path = format!("/v1/sales/{}/orders", self.sold_out);
            let answer = client.post(&path, user, Bytes::new()).await?;
            return count(stats, Click::Claim, &answer, 409, due);
        }
        let number = self.orders.fetch_add(1, Ordering::Relaxed) as usize;
        let user = &self.users[number % self.users.len()];
        let sale = {
            let open = self.open.read();
            open.get(number / self.users.len()).cloned()
        };
        let sale = sale.context("the next sale is not open yet")?;
        let answer = client
            .post(&format!("/v1/sales/{sale}/orders"), user, Bytes::new())
            .await?;
        count(stats, Click::Claim, &answer, 201, due)?;
        if answer.status != 201 || number as u64 % 100 >= self.paid_percent {
            return Ok(());
        }
        let order = answer.json()?;
        let order = order["id"].as_str().context("an order without an id")?;
        let reference = self.payments.fetch_add(1, Ordering::Relaxed);
        let payment = json!({
            "reference": format!("soak-{reference}"), "amount": { "amount": PRICE, "currency": "CNY" },
        });
        let path = format!("/v1/orders/{order}/payment");
        let begun = Instant::now();
        let answer = client
            .post(&path, &self.operator, payment.to_string().into())
            .await?;
        count(stats, Click::Payment, &answer, 200, begun)
    }
}

fn count(
    stats: &Mutex<SoakStats>,
    click: Click,
    answer: &Response,
    expected: u16,
    since: Instant,
) -> anyhow::Result<()> {
    let mut stats = stats.lock();
    match answer.status.as_u16() {
        status if status == expected => stats.answer(click, since.elapsed()),
        status => {
            let problem: serde_json::Value =
                serde_json::from_slice(&answer.body).unwrap_or_default();
            stats.fail(format!(
                "{status} {}",
                problem["type"].as_str().unwrap_or_default()
            ));
            Ok(())
        }
    }
}
