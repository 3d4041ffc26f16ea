//! `qiang bench http --baseline`: what deciding and keeping a claim costs, beside a request that does nothing.
//!
//! Rounds alternate no-op, claim, no-op, sold-out, so that a machine whose speed drifts treats all alike; each claim
//! round is held against the no-op rounds beside it, and the median of these ratios is quoted.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;

use super::http::{HttpArgs, Target, users_for};
use crate::load::{
    client::Client,
    race::{self, Course, Racer},
};

/// One kind of round.
#[derive(Default)]
struct Lane {
    per_second: Vec<f64>,
    /// Each round's rate over that of the no-op round before it.
    ratios: Vec<f64>,
}

impl Lane {
    fn add(&mut self, per_second: f64, noop: f64) {
        self.per_second.push(per_second);
        self.ratios.push(per_second / noop);
    }
}

pub(super) async fn run(args: &HttpArgs, target: &Target) -> anyhow::Result<bool> {
    let racers = target.racers(users_for(args.seconds))?;
    let sold_out = target.open_packet(1).await?;
    let claims = format!("{sold_out}/claims");
    let mut client = Client::connect(target.addr).await?;
    client
        .post(&claims, &target.operator, Bytes::new())
        .await?
        .success()?;
    let noop = format!(
        "/v1/noop/{}/claims",
        sold_out.rsplit('/').next().unwrap_or_default()
    );

    let (mut noops, mut claim, mut sold) = (Vec::new(), Lane::default(), Lane::default());
    // The first round of each kind warms up and does not count.
    for round in 0..=args.rounds {
        let packet = target.open_packet(racers.len() as u32).await?;
        let before_claim = rate(args, target, &racers, &noop, 201).await?;
        let claimed = rate(args, target, &racers, &format!("{packet}/claims"), 201).await?;
        if let Some(local) = &target.local {
            // What the ledger has yet to catch up on would slow the next round, which is not a claim.
            local.settle(Duration::from_secs(600)).await?;
        }
        let before_sold_out = rate(args, target, &racers, &noop, 201).await?;
        let refused = rate(args, target, &racers, &claims, 409).await?;
        if round > 0 {
            noops.extend([before_claim, before_sold_out]);
            claim.add(claimed, before_claim);
            sold.add(refused, before_sold_out);
        }
    }
    let audited = target.audit().await?;
    let ok = audited.as_ref().is_none_or(|audit| audit.ok);
    let (noop, claimed, refused) = (
        median(&noops),
        median(&claim.per_second),
        median(&sold.per_second),
    );
    let (claim_ratio, sold_out_ratio) = (median(&claim.ratios), median(&sold.ratios));
    if args.json {
        let report = json!({
            "noop": { "per_second": noop.round() },
            "claim": { "per_second": claimed.round(), "ratio": claim_ratio, "ratios": claim.ratios },
            "sold_out": { "per_second": refused.round(), "ratio": sold_out_ratio, "ratios": sold.ratios },
            "rounds": args.rounds, "seconds": args.seconds, "connections": args.connections,
            "audit": audited.map(|audit| json!({ "ok": audit.ok })),
        });
        println!("{report}");
    } else {
        println!(
            "no-op          {noop:>9.0} requests/s (median of {} rounds of {} s)",
            noops.len(),
            args.seconds
        );
        println!("durable claim  {claimed:>9.0} requests/s, {claim_ratio:.3} of the no-op");
        println!("sold out       {refused:>9.0} requests/s, {sold_out_ratio:.3} of the no-op");
        println!("audit          {}", if ok { "ok" } else { "BROKEN" });
    }
    Ok(ok)
}

/// The rate of one round in which every answer must have `status`.
async fn rate(
    args: &HttpArgs,
    target: &Target,
    racers: &Arc<Vec<Racer>>,
    path: &str,
    status: u16,
) -> anyhow::Result<f64> {
    let course = Course {
        addr: target.addr,
        path: path.to_owned(),
        body: Bytes::new(),
        racers: Arc::clone(racers),
        clicks: Arc::new((0..racers.len() as u32).collect()),
        connections: args.connections as usize,
        per_second: None,
        time_max: Some(Duration::from_secs(u64::from(args.seconds))),
        keep_grants: false,
    };
    let results = race::run(course, |_| ()).await?;
    let unexpected = results.requests - results.count(status);
    anyhow::ensure!(
        unexpected == 0,
        "{path}: {unexpected} answers were not {status}: {:?}",
        results.statuses
    );
    Ok(results.per_second())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
