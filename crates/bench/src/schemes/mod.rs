//! `qiang-bench schemes`: known ways to distribute scarce goods with Redis, each as published, under the same two
//! loads. docs/guide/schemes.md describes each scheme and its faults.

mod counter;
mod deduct;
mod load;
mod lock;
mod plan;
mod qiang;
mod queue;
mod report;
mod row_lock;
mod scheme;
mod svg;
mod table;
mod tally;
mod unlocked;
mod wire;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use self::plan::SchemesArgs;
use self::{
    load::{Load, Users},
    plan::Plan,
    report::{Loaded, Report, Row, Run},
    scheme::{About, Scheme},
    tally::judge,
    wire::{Wire, Work},
};

pub(crate) async fn run(args: &SchemesArgs) -> anyhow::Result<bool> {
    let plan = Plan::new(args)?;
    let report = measure(args, &plan).await?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table::of(&report));
    }
    if let Some(path) = &args.svg {
        svg::draw(path, &report)
            .with_context(|| format!("cannot write the picture {}", path.display()))?;
    }
    for line in report.overruns() {
        eprintln!("{line}");
    }
    for line in report.broken() {
        eprintln!("{line}");
    }
    Ok(report.ok)
}

async fn measure(args: &SchemesArgs, plan: &Plan) -> anyhow::Result<Report> {
    let mut info = match &plan.server {
        Some(server) => Some(server.connect().await?),
        None => None,
    };
    let version = match &mut info {
        Some(info) => Some(wire::version(info).await?),
        None => None,
    };
    let bars = MultiProgress::with_draw_target(if args.json {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    });
    let style = ProgressStyle::with_template("{prefix:<28} {bar:40} {pos}/{len}")?;
    let mut loaded = Vec::new();
    for load in &plan.loads {
        let users = Arc::new(Users::new(load));
        let rows = plan.names.iter().map(|name| Row::new(name.about()));
        let mut rows: Vec<Row> = rows.collect();
        // Rounds over all schemes, so that a drift of the machine's speed affects all equally.
        for round in 1..=args.repeat {
            for (name, row) in plan.names.iter().zip(&mut rows) {
                let bar = bars.add(ProgressBar::new(users.claims()));
                bar.set_style(style.clone());
                let (load_name, repeat) = (load.load.as_str(), args.repeat);
                bar.set_prefix(format!("{load_name} {round}/{repeat} {}", row.about.name));
                let scheme = plan.build(*name).await?;
                let run = once(&*scheme, name.about(), load, &users, info.as_mut(), &bar).await;
                bar.finish_and_clear();
                row.runs
                    .push(run.with_context(|| format!("{} failed", row.about.name))?);
            }
        }
        loaded.push(Loaded::new(*load, users.claims(), rows));
    }
    Ok(Report::new(version, args.repeat, loaded))
}

/// Runs a scheme once, and always removes its data.
async fn once(
    scheme: &dyn Scheme,
    about: &About,
    load: &Load,
    users: &Arc<Users>,
    info: Option<&mut Wire>,
    bar: &ProgressBar,
) -> anyhow::Result<Run> {
    let run = tokio::select! {
        run = Box::pin(exercise(scheme, about, load, users, info, bar)) => run,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    let cleaned = scheme.clean().await;
    let run = run?;
    cleaned.context("cannot remove the keys of the scheme")?;
    Ok(run)
}

async fn exercise(
    scheme: &dyn Scheme,
    about: &About,
    load: &Load,
    users: &Arc<Users>,
    info: Option<&mut Wire>,
    bar: &ProgressBar,
) -> anyhow::Result<Run> {
    scheme.prepare(load.shares).await?;
    let connections = load.connections as usize;
    let drive = scheme.drive(connections).await?;
    let mut info = info.filter(|_| about.on_redis);
    let before = match &mut info {
        Some(info) => Some(Work::sample(info).await?),
        None => None,
    };
    let mut ran = load::run(drive, users, connections, bar.clone()).await?;
    scheme.finish(ran.answers.granted.len() as u64).await?;
    let work = match (info, before) {
        (Some(info), Some(before)) => Some(Work::sample(info).await?.since(&before)),
        _ => None,
    };
    if let Some(work) = &work
        && !scheme.commands().is_empty()
    {
        ran.answers.round_trips = work.calls_of(scheme.commands());
    }
    let recount = scheme.recount().await?;
    let tally = judge(load, users, &ran.answers, &recount);
    let (made, answered) = (users.claims(), ran.answers.claims());
    ensure!(
        made == answered,
        "{made} claims were sent, but {answered} were answered"
    );
    Ok(Run::new(
        about.exact,
        &ran,
        work.as_ref(),
        tally,
        recount.notes,
    ))
}

#[cfg(test)]
mod tests {
    use super::{
        plan::{Name, tests::plan},
        *,
    };

    /// The load reaches the embedded engine, too.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_is_exact_under_both_loads() {
        for line in [
            "--rush --users 400 --shares 20 --scheme embedded",
            "--drain --shares 300 --waiting 50 --scheme embedded",
        ] {
            let plan = plan(line).unwrap();
            let load = plan.loads[0];
            let users = Arc::new(Users::new(&load));
            let scheme = plan.build(Name::Embedded).await.unwrap();
            let run = once(
                &*scheme,
                Name::Embedded.about(),
                &load,
                &users,
                None,
                &ProgressBar::hidden(),
            )
            .await
            .unwrap();
            assert_eq!(run.broken, Vec::<String>::new());
            assert_eq!(run.tally.right, u64::from(load.shares));
            assert_eq!(run.claims, users.claims());
        }
    }
}
