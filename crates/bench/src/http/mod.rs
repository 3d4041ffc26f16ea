//! `qiang-bench http`: the whole service under load, checked by the users' answers, the ledger, and the audit.

mod baseline;
mod target;
mod watchers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::builder::ArgPredicate;
use qiang_client::load::{
    load_generator::{self, LoadPlan, LoadResults, User},
    verdict::{self, Verdict},
};
use serde::Serialize;
use serde_json::json;

use self::target::{Target, user_name};
pub(crate) use self::watchers::{Watchers, WatchersArgs, watch};

/// Tokens created per second of load. No closed loop on the measured machines is faster.
const USERS_PER_SECOND_MAX: u32 = 100_000;
const SHARES_MAX: u32 = 5_000_000;
/// Measure the whole service over HTTP, and check every grant that a user saw.
#[derive(Debug, clap::Args)]
pub(crate) struct HttpArgs {
    /// Service to measure, such as http://127.0.0.1:8080; without it, the benchmark starts one. The service needs
    /// limits.shares_max of at least 100000 per second of load, and server.noop_route for --baseline. All other numbers
    /// of [limits] must be 0, because all users have one address.
    #[arg(long, requires = "secret_file")]
    url: Option<String>,
    /// File with the service's HS256 secret, which signs the users' tokens.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// With --baseline: the pid of the service at the URL, to measure its processor time separately.
    #[arg(long, requires = "url", requires = "baseline")]
    pid: Option<u32>,
    /// Connections.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    connections: u32,
    /// Seconds of each load; in the baseline, of each round, 2 by default.
    #[arg(
        long,
        default_value_t = 5,
        default_value_if("baseline", ArgPredicate::IsPresent, "2")
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=30))]
    seconds: u32,
    /// Clicks per second of the open loop; by default half the rate of the closed loop.
    #[arg(long)]
    rate: Option<f64>,
    /// Alternate claims with a no-op request on the same stack, and print the ratio of their rates.
    #[arg(long)]
    baseline: bool,
    /// With --baseline: also measure claims while this many clients watch the packet as browsers do, compared with
    /// claims without watchers. The cost of the watchers is reported separately: they are a separate process.
    #[arg(long, requires = "baseline", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=4_096))]
    watchers: u32,
    /// With --baseline: also create red packets of ten shares.
    #[arg(long, requires = "baseline")]
    creations: bool,
    /// Rounds of the baseline. Many short rounds compensate a drift of the machine's speed.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &HttpArgs) -> anyhow::Result<bool> {
    let target = Target::new(args.url.as_deref(), args.secret_file.as_deref()).await?;
    let sound = if args.baseline {
        baseline::run(args, &target).await?
    } else {
        measure(args, &target).await?
    };
    target.stop().await?;
    Ok(sound)
}

#[derive(Debug, Serialize)]
struct Load {
    requests: u64,
    seconds: f64,
    per_second: f64,
    granted: u64,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    duplicates: u64,
    oversold: u64,
    /// Number of grants that a user saw and the ledger lacks or has differently.
    lost: u64,
    errors: u64,
}

impl Load {
    fn new(results: &LoadResults, verdict: &Verdict, lost: u64) -> Self {
        let at = |quantile| results.latency_us.value_at_quantile(quantile);
        let answered: u64 = results.statuses.values().sum();
        Self {
            requests: results.requests,
            seconds: results.seconds,
            per_second: results.per_second(),
            granted: verdict.granted,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: results.latency_us.max(),
            duplicates: verdict.duplicates,
            oversold: verdict.oversold,
            lost,
            errors: results.errors + answered - results.count(201),
        }
    }

    fn sound(&self) -> bool {
        self.duplicates + self.oversold + self.lost + self.errors == 0
    }

    fn print(&self, name: &str) {
        println!(
            "{name}: {:.0} claims/s ({} in {:.1} s), p50 {} µs, p99 {} µs, p99.9 {} µs, max {} µs; \
             granted {}, duplicates {}, oversold {}, lost {}, errors {}",
            self.per_second,
            self.requests,
            self.seconds,
            self.p50_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
            self.granted,
            self.duplicates,
            self.oversold,
            self.lost,
            self.errors,
        );
    }
}

async fn measure(args: &HttpArgs, target: &Target) -> anyhow::Result<bool> {
    let users = target.users(users_for(args.seconds))?;
    let closed = load(args, target, &users, None).await?;
    let rate = args.rate.unwrap_or(closed.per_second / 2.0);
    let open = load(args, target, &users, Some(rate)).await?;
    let audited = target.audit().await?;
    let sound = closed.sound() && open.sound() && audited.as_ref().is_none_or(|audit| audit.ok);
    if args.json {
        let audit = audited.map(|audit| json!({ "ok": audit.ok, "checks": audit.checks }));
        println!(
            "{}",
            json!({ "closed": closed, "open": open, "open_rate": rate, "audit": audit })
        );
    } else {
        closed.print("closed loop");
        open.print(&format!("open loop at {rate:.0}/s"));
        if let Some(audit) = audited {
            println!("audit: {}", if audit.ok { "ok" } else { "BROKEN" });
        }
    }
    Ok(sound)
}

fn users_for(seconds: u32) -> u32 {
    (seconds * USERS_PER_SECOND_MAX).min(SHARES_MAX)
}

/// Closed loop: each user clicks once, as long as the load lasts.
fn plan(args: &HttpArgs, target: &Target, users: &Arc<Vec<User>>, path: String) -> LoadPlan {
    LoadPlan {
        addr: target.addr,
        path,
        body: Bytes::new(),
        tickets: None,
        users: Arc::clone(users),
        clicks: Arc::new((0..users.len() as u32).collect()),
        connections: args.connections as usize,
        per_second: None,
        time_max: Some(Duration::from_secs(u64::from(args.seconds))),
        keep_grants: false,
    }
}

async fn load(
    args: &HttpArgs,
    target: &Target,
    users: &Arc<Vec<User>>,
    rate: Option<f64>,
) -> anyhow::Result<Load> {
    let shares = users.len() as u32;
    let packet = target.open_packet(shares).await?;
    let plan = LoadPlan {
        per_second: rate,
        keep_grants: true,
        ..plan(args, target, users, format!("{packet}/claims"))
    };
    let results = load_generator::run(plan, |_| ()).await?;
    let verdict = verdict::judge(&results.seen, u64::from(shares))?;
    target.settle().await?;
    let ledger = target.ledger(&packet).await?;
    let kept =
        |grant: &&(u32, u32, i64)| ledger.get(&grant.0) == Some(&(user_name(grant.1), grant.2));
    let lost = verdict.grants.len() - verdict.grants.iter().filter(kept).count();
    Ok(Load::new(&results, &verdict, lost as u64))
}
