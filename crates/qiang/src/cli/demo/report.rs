//! Report at the end of the demonstration.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use qiang_audit::AuditFindings as Audit;
use qiang_client::load::{load_generator::LoadResults, verdict::Verdict};
use serde_json::{Value, json};

use crate::histogram::Histogram as Bars;

/// Largest number of bars in the histogram of shares, and the length of the longest bar in columns.
const BARS_MAX: u64 = 12;
const BAR_COLUMNS: u64 = 40;

/// The numbers of one load.
pub(super) struct LoadNumbers {
    users: u32,
    supply: u32,
    granted: u64,
    /// Grants of users who joined in a browser, and their money.
    others: u64,
    others_minor: i64,
    duplicates: u64,
    oversold: u64,
    claimed_minor: i64,
    errors: u64,
}

impl LoadNumbers {
    /// `granted` and `claimed_minor` are the service's figures of the campaign. Grants that the crowd has not seen
    /// belong to other users.
    pub(super) fn from_counts(
        (users, supply): (u32, u32),
        (granted, claimed_minor): (u64, i64),
        verdict: &Verdict,
        results: &LoadResults,
    ) -> Self {
        let others = granted.saturating_sub(verdict.granted);
        let others_minor = match others {
            0 => 0,
            _ => claimed_minor - verdict.claimed_minor,
        };
        // Valid answers: granted, replayed, sold out, and ended for a packet that is fully claimed.
        let expected = [200, 201, 409, 410]
            .map(|status| results.count(status))
            .iter()
            .sum::<u64>();
        let answered: u64 = results.statuses.values().sum();
        Self {
            users,
            supply,
            granted: verdict.granted,
            others,
            others_minor,
            duplicates: verdict.duplicates,
            oversold: verdict.oversold,
            claimed_minor: verdict.claimed_minor,
            errors: results.errors + answered - expected,
        }
    }

    fn sound(&self) -> bool {
        let wanted = u64::from(self.users) + self.others;
        self.granted + self.others == wanted.min(self.supply.into())
            && self.duplicates + self.oversold + self.errors == 0
    }
}

/// Contents of the report.
pub(super) struct DemoReport {
    pub(super) packet: LoadNumbers,
    pub(super) sale: LoadNumbers,
    pub(super) total_minor: i64,
    pub(super) remaining_minor: i64,
    pub(super) refunded_minor: i64,
    pub(super) luckiest: Option<(String, i64)>,
    /// Whether other users could join. If not, a grant that the crowd has not seen is a fault.
    pub(super) is_open: bool,
    pub(super) shares: Vec<i64>,
    pub(super) audit: Audit,
    pub(super) packet_load: LoadResults,
    pub(super) sale_load: LoadResults,
}

impl DemoReport {
    /// Whether campaigns, money and audit are without faults.
    pub(super) fn sound(&self) -> bool {
        let claimed = self.packet.claimed_minor + self.packet.others_minor;
        let money = claimed + self.remaining_minor + self.refunded_minor;
        let joined = self.packet.others + self.sale.others;
        (self.is_open || joined == 0)
            && self.packet.sound()
            && self.sale.sound()
            && money == self.total_minor
            && self.audit.ok
    }

    fn requests(&self) -> u64 {
        self.packet_load.requests + self.sale_load.requests
    }

    fn per_second(&self) -> f64 {
        self.requests() as f64 / (self.packet_load.seconds + self.sale_load.seconds)
    }

    fn latency(&self) -> Histogram<u64> {
        let mut both = self.packet_load.latency_us.clone();
        // Both histograms have the same bounds.
        let _ = both.add(&self.sale_load.latency_us);
        both
    }

    pub(super) fn json(&self) -> Value {
        let latency = self.latency();
        let Self { packet, sale, .. } = self;
        json!({
            "red_packet": {
                "users": packet.users, "shares": packet.supply, "granted": packet.granted,
                "granted_to_others": packet.others,
                "duplicates": packet.duplicates, "oversold": packet.oversold,
                "total": self.total_minor, "claimed": packet.claimed_minor,
                "remaining": self.remaining_minor, "refunded": self.refunded_minor,
            },
            "sale": {
                "users": sale.users, "stock": sale.supply, "granted": sale.granted,
                "granted_to_others": sale.others,
                "duplicates": sale.duplicates, "oversold": sale.oversold,
            },
            "http": {
                "requests": self.requests(), "per_second": self.per_second().round(),
                "p50_us": latency.value_at_quantile(0.5), "p99_us": latency.value_at_quantile(0.99),
                "max_us": latency.max(), "errors": packet.errors + sale.errors,
            },
            "audit": { "ok": self.audit.ok, "checks": self.audit.checks },
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n{:<28}{:>14}{:>14}", "", "red packet", "flash sale")?;
        let mut row = |name: &str, packet: String, sale: String| {
            writeln!(out, "{name:<28}{packet:>14}{sale:>14}")
        };
        let both = |value: fn(&LoadNumbers) -> u64| {
            (
                value(&self.packet).to_string(),
                value(&self.sale).to_string(),
            )
        };
        let count = |status: u16| {
            (
                self.packet_load.count(status).to_string(),
                self.sale_load.count(status).to_string(),
            )
        };
        let time = |quantile: f64| {
            let of = |load: &LoadResults| {
                format!(
                    "{:.1} ms",
                    load.latency_us.value_at_quantile(quantile) as f64 / 1e3
                )
            };
            (of(&self.packet_load), of(&self.sale_load))
        };
        let rate = |load: &LoadResults| format!("{:.0}", load.per_second());
        for (name, (packet, sale)) in [
            ("users", both(|outcome| u64::from(outcome.users))),
            ("supply", both(|outcome| u64::from(outcome.supply))),
            ("granted", both(|outcome| outcome.granted)),
            ("granted to browsers", both(|outcome| outcome.others)),
            ("answered 201 granted", count(201)),
            ("answered 200 already granted", count(200)),
            ("answered 409 sold out", count(409)),
            ("answered 410 ended", count(410)),
            ("duplicates", both(|outcome| outcome.duplicates)),
            ("oversold", both(|outcome| outcome.oversold)),
            ("errors", both(|outcome| outcome.errors)),
            (
                "requests per second",
                (rate(&self.packet_load), rate(&self.sale_load)),
            ),
            ("latency p50", time(0.5)),
            ("latency p99", time(0.99)),
            ("latency max", time(1.0)),
        ] {
            row(name, packet, sale)?;
        }
        writeln!(
            out,
            "\nMoney: total {}, claimed {}, remaining {}, refunded {} (¥)",
            yuan(self.total_minor),
            yuan(self.packet.claimed_minor + self.packet.others_minor),
            yuan(self.remaining_minor),
            yuan(self.refunded_minor),
        )?;
        if !self.shares.is_empty() {
            writeln!(out, "Shares by amount, in fen:")?;
            let mut bars = Vec::new();
            // Writing to memory does not fail, and the bars are UTF-8.
            let _ = Bars::from_shares(&self.shares, BARS_MAX).write_bars(&mut bars, BAR_COLUMNS);
            out.push_str(&String::from_utf8_lossy(&bars));
        }
        if let Some((user, amount)) = &self.luckiest {
            writeln!(out, "Luckiest draw: {user} with ¥{}", yuan(*amount))?;
        }
        let checks = &self.audit.checks;
        let broken = checks
            .iter()
            .filter(|check| check.is_broken())
            .map(|check| check.name.to_string())
            .collect::<Vec<_>>();
        if broken.is_empty() {
            writeln!(
                out,
                "Audit: ok, {} checks from the ledger's rows alone\n",
                checks.iter().filter(|check| check.ok.is_some()).count()
            )
        } else {
            writeln!(out, "Audit: BROKEN: {}\n", broken.join(", "))
        }
    }
}

fn yuan(minor: i64) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}
