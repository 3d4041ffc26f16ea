//! `qiang-bench cold`: claims of one sale on the embedded engine, with and without cold sales.
//!
//! A cold sale is a large sale that is not in memory. Clients read and watch it, and its holds expire, during the
//! claims. With `--pay` its orders are paid, too.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use hdrhistogram::Histogram;
use qiang::Backend;
use qiang_core::{
    book::{Command, Reply},
    campaign::{AckLevel, CampaignKind},
    id::{CampaignId, OrderId, PaymentRef},
    payment::{PaymentOutcome, ReceivedMoney},
    ports::{Clock, Engine},
    time::Timestamp,
};
use qiang_embedded::{Embedded, SystemClock};
use serde::Serialize;

use crate::{fixture, median};

/// Hold of orders in the fixture's sales, in milliseconds.
const HOLD_MS: i64 = 3_600_000;
/// Delay of the orders whose holds do not end during the measurements, in milliseconds.
const LATER_MS: i64 = HOLD_MS / 2;
/// Interval of a client that reads a cold sale.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Interval of a client that watches a cold sale.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// Interval of the payments for a cold sale.
const PAY_EVERY: Duration = Duration::from_millis(100);

/// Measure claims of a sale while large sales that are not in memory are read, watched and expire.
#[derive(Debug, clap::Args)]
pub(crate) struct ColdArgs {
    /// Cold sales.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    sales: u32,
    /// Orders of each cold sale.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    orders: u32,
    /// Clients that watch each cold sale.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    watchers: u32,
    /// Also pay ten orders of each cold sale per second.
    #[arg(long)]
    pay: bool,
    /// Claims per second of the hot sale.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Pairs of measurements without and with the cold sales.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pairs: u32,
    /// Fail if the median ratio of the p99 with to the p99 without cold sales is above this.
    #[arg(long, value_name = "RATIO", default_value_t = 1.5)]
    at_most: f64,
    /// Keep the data in this folder instead of a temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Measured {
    sales: u32,
    orders: u32,
    pairs: Vec<Pair>,
    /// Median over all pairs.
    p99_ratio: f64,
    audit_ok: bool,
    ok: bool,
}

/// Measurement without and one with the cold sales.
#[derive(Debug, Serialize)]
struct Pair {
    without: Claims,
    with: Claims,
    reads: u64,
    read_p99_us: u64,
    payments: u64,
    payment_p99_us: u64,
    /// Number of campaigns reloaded completely.
    campaigns_read: u64,
}

#[derive(Debug, Serialize)]
struct Claims {
    granted: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
}

/// Running clock that can be shifted so that holds end.
#[derive(Debug, Default)]
struct ShiftedClock {
    ahead_ms: AtomicI64,
}

impl ShiftedClock {
    fn set(&self, now: Timestamp) {
        let ahead_ms = now.millis_since(SystemClock.now());
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        SystemClock
            .now()
            .plus_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

pub(crate) async fn run(args: &ColdArgs) -> anyhow::Result<bool> {
    let measured = measure(args).await?;
    if args.json {
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(measured.ok);
    }
    for pair in &measured.pairs {
        println!(
            "claims p50 {} µs, p99 {} µs, max {} µs without; p50 {} µs, p99 {} µs, max {} µs with: {} reads \
             (p99 {} µs), {} payments (p99 {} µs), {} campaigns reloaded",
            pair.without.p50_us,
            pair.without.p99_us,
            pair.without.max_us,
            pair.with.p50_us,
            pair.with.p99_us,
            pair.with.max_us,
            pair.reads,
            pair.read_p99_us,
            pair.payments,
            pair.payment_p99_us,
            pair.campaigns_read,
        );
    }
    println!(
        "{} cold sales of {} orders: the p99 is {:.2} times the p99 without them; audit {}",
        measured.sales,
        measured.orders,
        measured.p99_ratio,
        if measured.audit_ok { "ok" } else { "BROKEN" },
    );
    Ok(measured.ok)
}

async fn measure(args: &ColdArgs) -> anyhow::Result<Measured> {
    let (folder, _temporary) = fixture::folder(args.data.as_deref())?;
    let path = folder.join("qiang.db");
    let (clock, base) = (Arc::new(ShiftedClock::default()), SystemClock.now());
    let scene = Scene {
        path: path.clone(),
        clock,
        base,
    };
    let cold = scene.fill(args).await?;
    let mut pairs = Vec::new();
    for pair in 0..args.pairs {
        let begins = base.plus_millis(HOLD_MS + i64::from(pair * 2 * args.seconds) * 1_000);
        scene.clock.set(begins);
        let without = scene.claims(args, &[], (0, 0)).await?.claims;
        scene
            .clock
            .set(begins.plus_millis(i64::from(args.seconds) * 1_000));
        let ended = u64::from((pair + 1) * args.seconds * args.sales);
        let with = scene.claims(args, &cold, (pair, ended)).await?;
        pairs.push(Pair {
            without,
            with: with.claims,
            reads: with.reads.len(),
            read_p99_us: with.reads.value_at_quantile(0.99),
            payments: with.payments.len(),
            payment_p99_us: with.payments.value_at_quantile(0.99),
            campaigns_read: with.campaigns_read,
        });
    }
    let audit_ok = tokio::task::spawn_blocking(move || qiang_audit::audit(&path))
        .await??
        .ok;
    let ratios = pairs
        .iter()
        .map(|pair| pair.with.p99_us as f64 / pair.without.p99_us.max(1) as f64);
    let p99_ratio = median(ratios).unwrap_or_default();
    let ok = audit_ok && p99_ratio <= args.at_most;
    Ok(Measured {
        sales: args.sales,
        orders: args.orders,
        pairs,
        p99_ratio,
        audit_ok,
        ok,
    })
}

/// Result of one measurement: the claims, and the latencies of requests for cold sales in microseconds.
struct Requests {
    claims: Claims,
    reads: Histogram<u64>,
    payments: Histogram<u64>,
    campaigns_read: u64,
}

struct Scene {
    path: PathBuf,
    clock: Arc<ShiftedClock>,
    /// Time of the first orders.
    base: Timestamp,
}

impl Scene {
    fn open(&self) -> anyhow::Result<(Embedded, Backend)> {
        let path: &Path = &self.path;
        let embedded = Embedded::open(path, Arc::clone(&self.clock) as _)?;
        let backend = Backend::embedded(embedded.clone(), Arc::clone(&self.clock) as _);
        Ok((embedded, backend))
    }

    /// Creates the cold sales. In each second of a measurement with them, one hold of each sale ends.
    async fn fill(&self, args: &ColdArgs) -> anyhow::Result<Vec<CampaignId>> {
        let (_, backend) = self.open()?;
        let (engine, ledger) = (&*backend.ports.engine, &*backend.ports.ledger);
        let ending = args.pairs * args.seconds;
        let mut cold = Vec::new();
        for _ in 0..args.sales {
            let units = args.orders.saturating_add(ending);
            cold.push(fixture::sale(engine, ledger, units, AckLevel::Fsync).await?);
        }
        for pair in 0..args.pairs {
            for second in 0..args.seconds {
                let at = (2 * pair + 1) * args.seconds + second;
                let at = self.base.plus_millis(i64::from(at) * 1_000 + 500);
                self.clock.set(at);
                let user = format!("early-{pair}-{second}");
                for sale in &cold {
                    let claim = fixture::claim(*sale, CampaignKind::Sale, &user)?;
                    let claimed = engine.claim(claim).await?;
                    ensure!(claimed.outcome.grant().is_some(), "a claim was not granted");
                }
            }
        }
        self.clock.set(self.base.plus_millis(LATER_MS));
        for sale in &cold {
            fixture::claim_all(engine, *sale, CampaignKind::Sale, 0..args.orders).await?;
            backend.settle(fixture::SETTLE_MAX).await?;
        }
        backend.close().await?;
        Ok(cold)
    }

    /// Starts the engine, with no campaign in memory, and measures claims of a new sale while clients read the cold
    /// sales and pay their orders. `pair` is the number of the pair. Ends once `ended` holds have ended.
    async fn claims(
        &self,
        args: &ColdArgs,
        cold: &[CampaignId],
        (pair, ended): (u32, u64),
    ) -> anyhow::Result<Requests> {
        let began = self.clock.now();
        let (embedded, backend) = self.open()?;
        let (engine, ledger) = (&backend.ports.engine, &*backend.ports.ledger);
        let claims = args.rate * args.seconds;
        let hot = fixture::sale(&**engine, ledger, claims, AckLevel::Fsync).await?;
        self.clock.set(began);
        let done = Arc::new(AtomicBool::new(false));
        let (mut clients, mut payers) = (Vec::new(), Vec::new());
        // Orders whose holds do not end here. Each is paid in one pair.
        let late = args.pairs * args.seconds + 1;
        let orders = args.orders / args.pairs;
        for sale in cold {
            let first = late + pair * orders;
            let orders = first..first + orders;
            if args.pay {
                let payer = pay(Arc::clone(engine), *sale, orders, Arc::clone(&done));
                payers.push(tokio::spawn(payer));
            }
            let watchers = std::iter::repeat_n(WATCH_EVERY, args.watchers as usize);
            for every in std::iter::once(READ_EVERY).chain(watchers) {
                let client = read(Arc::clone(engine), *sale, every, Arc::clone(&done));
                clients.push(tokio::spawn(client));
            }
        }
        let (granted, waited) = claim(engine, hot, args).await?;
        done.store(true, Ordering::Relaxed);
        let (mut reads, mut payments) = (Histogram::new(3)?, Histogram::new(3)?);
        for client in clients {
            reads.add(client.await??)?;
        }
        for payer in payers {
            payments.add(payer.await??)?;
        }
        wait_for_holds(&**engine, cold, ended).await?;
        let campaigns_read = embedded.campaigns_read();
        backend.settle(fixture::SETTLE_MAX).await?;
        backend.close().await?;
        let claims = Claims {
            granted,
            p50_us: waited.value_at_quantile(0.5),
            p99_us: waited.value_at_quantile(0.99),
            max_us: waited.max(),
        };
        Ok(Requests {
            claims,
            reads,
            payments,
            campaigns_read,
        })
    }
}

/// Waits until `ended` holds of these sales have ended.
async fn wait_for_holds(
    engine: &dyn Engine,
    cold: &[CampaignId],
    ended: u64,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + fixture::SETTLE_MAX;
    loop {
        let mut free = 0;
        for sale in cold {
            free += engine.tally(*sale).await?.map_or(0, |it| it.remaining);
        }
        ensure!(
            free <= ended,
            "{free} holds have ended, more than the expected {ended}"
        );
        if free == ended {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{free} of {ended} holds have ended"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims at a fixed rate, independent of answers.
async fn claim(
    engine: &Arc<dyn Engine>,
    hot: CampaignId,
    args: &ColdArgs,
) -> anyhow::Result<(u64, Histogram<u64>)> {
    let granted = Arc::new(AtomicU64::new(0));
    let waited = Arc::new(parking_lot::Mutex::new(Histogram::<u64>::new(3)?));
    let (began, mut tasks) = (Instant::now(), tokio::task::JoinSet::new());
    for n in 0..args.rate * args.seconds {
        // Latency counts from the due time of the claim.
        let due = began + Duration::from_secs(1) * n / args.rate;
        tokio::time::sleep_until(due.into()).await;
        let claim = fixture::claim(hot, CampaignKind::Sale, &format!("user-{n}"))?;
        let (engine, granted) = (Arc::clone(engine), Arc::clone(&granted));
        let waited = Arc::clone(&waited);
        tasks.spawn(async move {
            let claimed = engine.claim(claim).await?;
            let micros = due.elapsed().as_micros() as u64;
            let is_granted = claimed.outcome.grant().is_some();
            granted.fetch_add(u64::from(is_granted), Ordering::Relaxed);
            waited.lock().record(micros)?;
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let waited = waited.lock().clone();
    Ok((granted.load(Ordering::Relaxed), waited))
}

/// Pays these orders of a sale, one after the other, until `done`.
async fn pay(
    engine: Arc<dyn Engine>,
    sale: CampaignId,
    orders: std::ops::Range<u32>,
    done: Arc<AtomicBool>,
) -> anyhow::Result<Histogram<u64>> {
    let mut waited = Histogram::new(3)?;
    for number in orders {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let pay = Command::Pay {
            order: OrderId {
                campaign: sale,
                number,
            },
            payment: PaymentRef::new(&format!("payment-{number}"))?,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        let asked = Instant::now();
        let reply = engine.submit(pay).await?;
        let is_paid = matches!(reply, Reply::Payment(PaymentOutcome::Paid, _));
        ensure!(is_paid, "a payment for a cold sale was not counted");
        waited.record(asked.elapsed().as_micros() as u64)?;
        tokio::time::sleep(PAY_EVERY).await;
    }
    Ok(waited)
}

/// Reads a sale's counters, one of its orders and a user's gate outcome, until `done`.
async fn read(
    engine: Arc<dyn Engine>,
    sale: CampaignId,
    every: Duration,
    done: Arc<AtomicBool>,
) -> anyhow::Result<Histogram<u64>> {
    let mut waited = Histogram::new(3)?;
    let order = OrderId {
        campaign: sale,
        number: 1,
    };
    let claim = fixture::claim(sale, CampaignKind::Sale, "user-0")?;
    while !done.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let tally = engine.tally(sale).await?;
        ensure!(tally.is_some(), "a cold sale is unknown");
        ensure!(
            engine.order(order).await?.is_some(),
            "the order of a cold sale is unknown"
        );
        engine.gate_outcome(&claim).await?;
        waited.record(asked.elapsed().as_micros() as u64)?;
        tokio::time::sleep(every).await;
    }
    Ok(waited)
}
