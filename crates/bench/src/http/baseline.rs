//! `qiang-bench http --baseline`: cost of a claim compared with a request that does nothing.
//!
//! Rounds alternate no-op, claim, no-op, sold-out, so that a drift of the machine's speed affects all kinds equally.
//! Each claim round is compared with the mean of the two no-op rounds around it, each sold-out round with the no-op
//! round before it. The report has the medians of these ratios. With watchers, there are also claims of a watched red
//! packet, compared with claims of an unwatched one. The watchers are a separate process on the same cores.

use std::sync::Arc;

use bytes::Bytes;
use qiang_client::load::{
    client::LoadClient,
    load_generator::{self, LoadPlan, User},
};
use serde_json::json;

use super::{
    HttpArgs, plan,
    target::Target,
    users_for,
    watchers::{Told, Watchers},
};
use crate::{
    median,
    process::{cpu_seconds, cpu_seconds_of},
};

/// Rate of one round, and the cost of a request.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    /// Processor time of this process: the clients, and the service if it is in this process.
    cpu_us: f64,
    /// Processor time of a service in a separate process.
    service_cpu_us: Option<f64>,
}

impl Round {
    fn of_service(&self) -> f64 {
        self.service_cpu_us.unwrap_or(f64::NAN)
    }
}

#[derive(Default)]
struct Rounds {
    rounds: Vec<Round>,
    /// Rate of each round divided by that of its no-op round.
    ratios: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, round: Round, noop_per_second: f64) {
        self.rounds.push(round);
        self.ratios.push(round.per_second / noop_per_second);
    }

    /// Median of a value over all rounds; NaN without rounds.
    fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure)).unwrap_or(f64::NAN)
    }

    fn ratio(&self) -> f64 {
        median(self.ratios.iter().copied()).unwrap_or(f64::NAN)
    }
}

pub(super) async fn run(args: &HttpArgs, target: &Target) -> anyhow::Result<bool> {
    let users = target.users(users_for(args.seconds))?;
    // A red packet ends when all shares are claimed. A sale remains sold out while its order is held.
    let sale = target.open_sale().await?;
    let orders = format!("/v1/sales/{sale}/orders");
    let mut client = LoadClient::connect(target.addr).await?;
    client
        .post(&orders, &target.operator, Bytes::new())
        .await?
        .success()?;
    let noop = format!("/v1/noop/{sale}/claims");

    let (mut noops, mut claim, mut sold) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    let (mut watched, mut told) = (Rounds::default(), Vec::new());
    let mut creation = Rounds::default();
    // The first round of each kind warms up and does not count.
    for round in 0..=args.rounds {
        let packet = target.open_packet(users.len() as u32).await?;
        let before_claim = one(args, target, &users, &noop, 201).await?;
        let claimed = one(args, target, &users, &format!("{packet}/claims"), 201).await?;
        // A settlement backlog would slow the next round, which is not a claim.
        target.settle().await?;
        if args.watchers > 0 {
            let (beside, watching) = watched_claims(args, target, &users).await?;
            if round > 0 {
                watched.add(beside, claimed.per_second);
                told.push(watching);
            }
        }
        if args.creations {
            let created = creations(args, target, users.len() as u32).await?;
            target.settle().await?;
            if round > 0 {
                creation.add(created, before_claim.per_second);
            }
        }
        let before_sold_out = one(args, target, &users, &noop, 201).await?;
        let refused = one(args, target, &users, &orders, 409).await?;
        if round > 0 {
            let (first, second) = (before_claim.per_second, before_sold_out.per_second);
            noops.add(before_claim, first);
            noops.add(before_sold_out, first);
            claim.add(claimed, f64::midpoint(first, second));
            sold.add(refused, second);
        }
    }
    let audited = target.audit().await?;
    let ok = audited.as_ref().is_none_or(|audit| audit.ok);
    let mut kinds = vec![
        ("no-op", &noops, "no-op"),
        ("durable claim", &claim, "no-op"),
        ("sold out", &sold, "no-op"),
    ];
    if args.watchers > 0 {
        kinds.push(("watched claim", &watched, "claim"));
    }
    if args.creations {
        kinds.push(("creation", &creation, "no-op"));
    }
    let of_watchers = |figure: fn(&Watching) -> f64| median(told.iter().map(figure));
    if args.json {
        let object = |rounds: &Rounds| {
            json!({
                "per_second": rounds.median(|round| round.per_second).round(),
                "ratio": rounds.ratio(), "ratios": rounds.ratios,
                "cpu_us": rounds.median(|round| round.cpu_us),
                "service_cpu_us": args.pid.map(|_| rounds.median(Round::of_service)),
            })
        };
        let report = json!({
            "noop": object(&noops), "claim": object(&claim), "sold_out": object(&sold),
            "watched": (args.watchers > 0).then(|| object(&watched)), "watchers": args.watchers,
            "creation": args.creations.then(|| object(&creation)),
            "watchers_cpu_us": of_watchers(|it| it.cpu_us),
            "reads_per_second": of_watchers(|it| it.told.reads_per_second()),
            "bytes_per_second": of_watchers(|it| it.told.bytes_per_second()),
            "rounds": args.rounds, "seconds": args.seconds, "connections": args.connections,
            "audit": audited.map(|audit| json!({ "ok": audit.ok })),
        });
        println!("{report}");
    } else {
        println!(
            "medians of {} rounds of {} s, {} connections",
            args.rounds, args.seconds, args.connections
        );
        for (name, rounds, beside) in kinds {
            print!(
                "{name:<14}{:>8.0} requests/s, {:.3} of the {beside} rate; ",
                rounds.median(|round| round.per_second),
                rounds.ratio(),
            );
            let cpu_us = rounds.median(|round| round.cpu_us);
            match args.pid {
                None => println!("{cpu_us:.1} µs of CPU each, clients included"),
                Some(_) => {
                    let of_service = rounds.median(Round::of_service);
                    println!(
                        "{of_service:.1} µs of the service's CPU each, {cpu_us:.1} of clients'"
                    );
                }
            }
        }
        if let Some(cpu_us) = of_watchers(|it| it.cpu_us) {
            println!(
                "{} watchers: {cpu_us:.2} µs of their CPU per claim, {:.0} reads/s, {:.2} MB/s",
                args.watchers,
                of_watchers(|it| it.told.reads_per_second()).unwrap_or_default(),
                of_watchers(|it| it.told.bytes_per_second()).unwrap_or_default() / 1e6,
            );
        }
        println!("audit {}", if ok { "ok" } else { "BROKEN" });
    }
    Ok(ok)
}

/// Results of the watchers in a round.
struct Watching {
    told: Told,
    /// Processor time of the watchers' process per claim, in µs.
    cpu_us: f64,
}

/// Runs a round of claims of a red packet with many watchers.
async fn watched_claims(
    args: &HttpArgs,
    target: &Target,
    users: &Arc<Vec<User>>,
) -> anyhow::Result<(Round, Watching)> {
    let packet = target.open_packet(users.len() as u32).await?;
    let id = packet.rsplit('/').next().unwrap_or_default();
    let watchers = Watchers::start(target.addr, id, &target.operator, args.watchers).await?;
    let round = one(args, target, users, &format!("{packet}/claims"), 201).await?;
    let told = watchers.stop().await?;
    anyhow::ensure!(
        told.bytes_per_second() > 0.0,
        "the watchers received no events"
    );
    target.settle().await?;
    let claims = round.per_second * f64::from(args.seconds);
    let cpu_us = told.cpu_seconds * 1e6 / claims;
    Ok((round, Watching { told, cpu_us }))
}

/// Runs a round of at most `packets` creations.
async fn creations(args: &HttpArgs, target: &Target, packets: u32) -> anyhow::Result<Round> {
    let sender = User {
        token: target.operator.clone(),
    };
    let plan = LoadPlan {
        body: target.small_packets(packets).await?,
        clicks: Arc::new(vec![0; packets as usize]),
        ..plan(
            args,
            target,
            &Arc::new(vec![sender]),
            "/v1/red-packets".to_owned(),
        )
    };
    measure(args, plan, 201).await
}

/// Runs a round in which every answer must have `status`.
async fn one(
    args: &HttpArgs,
    target: &Target,
    users: &Arc<Vec<User>>,
    path: &str,
    status: u16,
) -> anyhow::Result<Round> {
    let plan = plan(args, target, users, path.to_owned());
    measure(args, plan, status).await
}

async fn measure(args: &HttpArgs, plan: LoadPlan, status: u16) -> anyhow::Result<Round> {
    let path = plan.path.clone();
    let service = args.pid.map(|pid| pid.to_string());
    let used = || {
        let service = service.as_deref().map(cpu_seconds_of).transpose()?;
        anyhow::Ok((cpu_seconds()?, service))
    };
    let before = used()?;
    let results = load_generator::run(plan, |_| ()).await?;
    let after = used()?;
    let unexpected = results.requests - results.count(status);
    anyhow::ensure!(
        unexpected == 0,
        "{path}: {unexpected} answers had another status than {status}: {:?}",
        results.statuses
    );
    let each = |before: f64, after: f64| (after - before) * 1e6 / results.requests as f64;
    Ok(Round {
        per_second: results.per_second(),
        cpu_us: each(before.0, after.0),
        service_cpu_us: before
            .1
            .zip(after.1)
            .map(|(before, after)| each(before, after)),
    })
}
