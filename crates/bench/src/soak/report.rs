//! Report of a soak.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    SoakArgs,
    background::{BackgroundWork, MemorySample},
    load::{SoakPause, SoakStats, SoakWindow},
};

/// Latencies of one kind of request, in microseconds.
#[derive(Debug, Serialize)]
struct Latency {
    count: u64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
}

impl Latency {
    fn new(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
        }
    }

    fn cells(&self) -> String {
        let ms = |micros: u64| micros as f64 / 1e3;
        format!(
            "{:>9} {:>8.2} {:>8.2} {:>8.2} {:>8.2}",
            self.count,
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.p999_us),
            ms(self.max_us)
        )
    }
}

#[derive(Debug, Serialize)]
struct ReportRow {
    claims: Latency,
    payments: Latency,
    failures: u64,
}

impl ReportRow {
    fn new(window: &SoakWindow) -> Self {
        Self {
            claims: Latency::new(&window.claims),
            payments: Latency::new(&window.payments),
            failures: window.failures,
        }
    }

    fn line(&self, name: &str) -> String {
        let (claims, payments) = (self.claims.cells(), self.payments.cells());
        format!("{name:>8} {claims}  {payments}  {:>8}", self.failures)
    }
}

/// Result of a soak.
#[derive(Debug, Serialize)]
pub(super) struct SoakReport {
    engine: &'static str,
    capacity_per_second: f64,
    rate_per_second: f64,
    seconds: u64,
    window_seconds: u64,
    windows: Vec<ReportRow>,
    all: ReportRow,
    failures: std::collections::BTreeMap<String, u64>,
    pauses: Vec<SoakPause>,
    samples: Vec<MemorySample>,
    work: BackgroundWork,
    sales: usize,
    audit_ok: bool,
    pub(super) ok: bool,
}

impl SoakReport {
    pub(super) fn new(
        args: &SoakArgs,
        (capacity, rate): (f64, f64),
        stats: &SoakStats,
        samples: Vec<MemorySample>,
        work: BackgroundWork,
        (sales, audit_ok): (usize, bool),
    ) -> Self {
        let mut all = stats.windows.first().cloned();
        for window in stats.windows.iter().skip(1) {
            if let Some(all) = &mut all {
                // Histograms with the same precision can be added.
                let _ = all.claims.add(&window.claims);
                let _ = all.payments.add(&window.payments);
                all.failures += window.failures;
            }
        }
        let is_right = stats.failures.is_empty() && work.failed_checks == 0;
        Self {
            engine: if args.redis.is_some() {
                "redis"
            } else {
                "embedded"
            },
            capacity_per_second: capacity,
            rate_per_second: rate,
            seconds: args.seconds,
            window_seconds: args.window,
            windows: stats.windows.iter().map(ReportRow::new).collect(),
            ok: is_right && audit_ok && all.is_some(),
            all: ReportRow::new(&all.unwrap_or_else(SoakWindow::empty)),
            failures: stats.failures.clone(),
            pauses: stats.pauses.clone(),
            samples,
            work,
            sales,
            audit_ok,
        }
    }

    pub(super) fn print(&self) {
        println!(
            "engine {}, {:.0} clicks/s by a closed loop; {:.0} clicks/s for {} s, {} sales",
            self.engine, self.capacity_per_second, self.rate_per_second, self.seconds, self.sales
        );
        let columns = "count   p50 ms   p99 ms p99.9 ms   max ms";
        println!(
            "{:>8} {:>45}  {:>45}  {:>8}",
            "window", "claims", "payments", "failures"
        );
        println!("{:>8} {columns:>45}  {columns:>45}", "");
        for (number, row) in (1..).zip(&self.windows) {
            println!("{}", row.line(&format!("{number}")));
        }
        println!("{}", self.all.line("all"));
        for sample in &self.samples {
            println!("{}", sample.line());
        }
        println!("{}", self.work.line());
        let pause = |pause: &SoakPause| format!("{} ms at {} s", pause.millis, pause.at_s);
        let pauses: Vec<_> = self.pauses.iter().map(pause).collect();
        println!("longest times without an answer: {}", pauses.join(", "));
        for (what, count) in &self.failures {
            println!("{count} answers: {what}");
        }
        println!("audit {}", if self.audit_ok { "ok" } else { "BROKEN" });
    }
}
