//! Crowd of the demonstration: the order of its clicks, all at once or over a time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use qiang::local::LocalService;
use qiang_client::Client;
use qiang_client::load::{
    load_generator::{self, LoadPlan, LoadResults, User},
    visitors::{self, Goal, VisitPlan},
};
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use super::DemoArgs;

/// Time for which a visitor tries: longer than the crowd of any demonstration waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Target of a crowd: its name, and the seed of the crowd's order.
pub(super) struct CrowdTarget {
    name: &'static str,
    seed: u64,
}

pub(super) const PACKET: CrowdTarget = CrowdTarget {
    name: "red packet",
    seed: 1,
};
pub(super) const SALE: CrowdTarget = CrowdTarget {
    name: "flash sale",
    seed: 2,
};

/// Users with their tokens, and the progress bars.
pub(super) struct DemoCrowd<'d> {
    pub(super) local: &'d LocalService,
    pub(super) args: &'d DemoArgs,
    pub(super) users: Vec<String>,
    pub(super) bars: MultiProgress,
}

impl DemoCrowd<'_> {
    /// All users click at once. This measures the service, so requests are minimal.
    pub(super) async fn rush(
        &self,
        target: CrowdTarget,
        path: String,
        body: &'static str,
    ) -> anyhow::Result<LoadResults> {
        let clicks = clicks(self.args.users, target.seed);
        let bar = self.bar(&target, clicks.len())?;
        let user = |token: &String| {
            let token = format!("Bearer {token}").try_into()?;
            anyhow::Ok(User { token })
        };
        let users = self.users.iter().map(user);
        let plan = LoadPlan {
            addr: self.local.addr(),
            path,
            body: Bytes::from_static(body.as_bytes()),
            tickets: None,
            users: Arc::new(users.collect::<anyhow::Result<_>>()?),
            clicks: Arc::new(clicks),
            connections: self.at_once(),
            per_second: None,
            time_max: None,
            keep_grants: true,
        };
        let ticker = bar.clone();
        let results = load_generator::run(plan, move |answered| ticker.inc(answered)).await?;
        bar.finish();
        Ok(results)
    }

    /// All users come within `seconds`, as users of an integrator's program.
    pub(super) async fn visit(
        &self,
        target: CrowdTarget,
        goal: Goal,
        seconds: u32,
    ) -> anyhow::Result<LoadResults> {
        let clicks = clicks(self.args.users, target.seed);
        let bar = self.bar(&target, clicks.len())?;
        let client = Client::builder(&format!("http://{}", self.local.addr()))
            .deadline(PATIENCE)
            .in_flight_max(self.at_once());
        let plan = VisitPlan {
            client: client.build()?,
            goal,
            tokens: Arc::new(self.users.clone()),
            per_second: clicks.len() as f64 / f64::from(seconds),
            clicks: Arc::new(clicks),
            at_once: self.at_once(),
        };
        let ticker = bar.clone();
        let results = visitors::run(plan, move || ticker.inc(1)).await?;
        bar.finish();
        Ok(results)
    }

    fn at_once(&self) -> usize {
        self.args.connections.min(self.args.users) as usize
    }

    fn bar(&self, target: &CrowdTarget, clicks: usize) -> anyhow::Result<ProgressBar> {
        let style = ProgressStyle::with_template("{msg:>12} {bar:40} {pos:>6}/{len} {per_sec}")?;
        let bar = self.bars.add(ProgressBar::new(clicks as u64));
        bar.set_style(style);
        bar.set_message(target.name);
        Ok(bar)
    }
}

/// Clicks in random order, one per user. One user in ten clicks twice at once, on two connections. Another one in ten
/// clicks again later.
fn clicks(users: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..users).collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    let mut clicks = Vec::with_capacity(order.len() + order.len() / 5 + 2);
    for (place, user) in order.iter().enumerate() {
        clicks.push(*user);
        match user % 10 {
            0 => clicks.push(*user),
            1 => clicks.push(order[place / 2]), // a user who clicked earlier
            _ => {}
        }
    }
    clicks
}
