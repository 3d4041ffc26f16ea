//! Faults under load. Starts real servers and nodes, runs users, and injects one fault after the other. Then checks
//! that nothing acknowledged is lost or doubled and that the service recovers automatically. `cargo xtask faults`
//! starts it.

mod campaigns;
mod check;
mod client;
mod clock;
mod faults;
mod history;
mod installation;
mod life;
mod load;
mod plan;
mod probe;
mod report;
mod round;
mod rows;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use self::{
    clock::Clock,
    installation::{Setup, ledger::LedgerKind, program::SHARD_SUPPLY_MIN},
    plan::{Kind, Plan, Scope, Topology},
    report::Report,
    round::Order,
};

/// Maximum duration of one installation. After it, a new one is started.
const ROUND: Duration = Duration::from_secs(240);
/// Minimum time left that justifies a new round.
const ROUND_MIN: Duration = Duration::from_secs(10);

/// Default kinds of faults.
const KINDS: &str = "kill,stop,cut,halfcut,restore,memory,scripts,slots";

#[derive(Debug, Parser)]
#[command(about = "Inject faults under load and check the answers to users")]
struct Args {
    /// Duration of the faults. Start, final requests and checks take additional time.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the sequence of faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Topology of Redis; `both` alternates Sentinels and a Cluster.
    #[arg(long, value_enum, default_value_t = Which::Both)]
    topology: Which,
    /// Kinds of faults, comma-separated: kill, stop, cut, halfcut, lose, isolate, older, empty, full, restore, memory,
    /// scripts, slots, clock.
    #[arg(long, default_value = KINDS)]
    faults: String,
    /// Do not kill, stop or cut off primaries of Redis.
    #[arg(long)]
    spare_primaries: bool,
    /// Carry entries through RabbitMQ, and inject faults into it too.
    #[arg(long)]
    rabbitmq: bool,
    /// Maximum time in seconds until the service is available again after a fault.
    #[arg(long, default_value_t = 30)]
    recovery_max: u64,
    /// The program `qiang`; by default the one next to this program.
    #[arg(long, value_name = "FILE")]
    qiang: Option<PathBuf>,
    /// Print the sequence of this many faults and exit.
    #[arg(long, value_name = "COUNT")]
    plan: Option<usize>,
    /// Run whole lives of campaigns, one per seed, under SIGKILL and SIGSTOP of nodes and worker. A life has warm-up,
    /// peak load, expired holds, returns, refunds and close.
    #[arg(long, conflicts_with_all = ["seconds", "seed", "topology", "faults", "rabbitmq"])]
    life: bool,
    /// Number of lives.
    #[arg(long, default_value_t = 100, requires = "life")]
    seeds: u64,
    /// Seed of the first life; later lives use the following seeds.
    #[arg(long, default_value_t = 1, requires = "life")]
    first_seed: u64,
    /// Ledger of all lives. By default, every fourth seed uses MariaDB and the others PostgreSQL.
    #[arg(long, value_enum, requires = "life")]
    ledger: Option<LedgerKind>,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Standalone,
    Sentinel,
    Cluster,
    Both,
}

impl Which {
    fn topologies(self) -> &'static [Topology] {
        match self {
            Self::Standalone => &[Topology::Standalone],
            Self::Sentinel => &[Topology::Sentinel],
            Self::Cluster => &[Topology::Cluster],
            Self::Both => &[Topology::Sentinel, Topology::Cluster],
        }
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    if args.life {
        return lives(args);
    }
    let kinds = Kind::parse_list(&args.faults).map_err(anyhow::Error::msg)?;
    let has_clock = kinds.contains(&Kind::Clock);
    let topologies = args.topology.topologies();
    let mut plans: Vec<Plan> = topologies
        .iter()
        .map(|topology| {
            let scope = Scope {
                topology: *topology,
                has_rabbit: args.rabbitmq,
                has_clock,
                spares_primaries: args.spare_primaries,
            };
            Plan::new(args.seed, &kinds, scope)
        })
        .collect();
    if let Some(count) = args.plan {
        for (topology, plan) in topologies.iter().zip(plans) {
            for fault in plan.take(count) {
                println!("{topology}: {fault}");
            }
        }
        return Ok(true);
    }
    let clock = has_clock.then(Clock::load).transpose()?;
    let mut report = Report::default();
    let done = runtime()?.block_on(rounds(
        args,
        topologies,
        &mut plans,
        clock.as_ref(),
        &mut report,
    ));
    if let Some(clock) = clock {
        clock.remove();
    }
    match args.json {
        true => println!("{}", report.json()),
        false => print!("{}", report.text()),
    }
    done?;
    Ok(report.is_sound())
}

fn lives(args: &Args) -> Result<bool> {
    let seeds = args.first_seed..args.first_seed.saturating_add(args.seeds);
    if let Some(count) = args.plan {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        life::print(seeds.start..seeds.end.min(seeds.start.saturating_add(count)));
        return Ok(true);
    }
    let order = life::Order {
        qiang: qiang(args)?,
        seeds,
        ledger: args.ledger,
    };
    let mut report = life::Report::default();
    let done = runtime()?.block_on(life::run(order, &mut report));
    match args.json {
        true => println!("{}", report.json()),
        false => print!("{}", report.text()),
    }
    done?;
    Ok(report.is_sound())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(4).enable_all().build()?)
}

/// Path of the program `qiang`.
fn qiang(args: &Args) -> Result<PathBuf> {
    let qiang = match &args.qiang {
        Some(qiang) => qiang.clone(),
        None => std::env::current_exe()?.with_file_name("qiang"),
    };
    let found = qiang.canonicalize();
    found.with_context(|| format!("find {}", qiang.display()))
}

async fn rounds(
    args: &Args,
    topologies: &[Topology],
    plans: &mut [Plan],
    clock: Option<&Clock>,
    report: &mut Report,
) -> Result<()> {
    let qiang = qiang(args)?;
    // The time left is divided over the topologies.
    let mut left = Duration::from_secs(args.seconds);
    let share = left / u32::try_from(topologies.len()).unwrap_or(1);
    let length = share.clamp(ROUND_MIN, ROUND);
    for round in 0_usize.. {
        if left < ROUND_MIN {
            break;
        }
        let which = round % topologies.len();
        let began = Instant::now();
        let order = Order {
            setup: Setup {
                topology: topologies[which],
                with_rabbit: args.rabbitmq,
                ledger: LedgerKind::Postgres,
                shard_supply_min: SHARD_SUPPLY_MIN,
                qiang: qiang.clone(),
            },
            clock: clock.cloned(),
            length: length.min(left),
            recovery_max: Duration::from_secs(args.recovery_max),
            logs: std::env::temp_dir().join(format!("qiang-faults-{}-{round}", args.seed)),
        };
        let spent = round::run(order, &mut plans[which], report)
            .await
            .with_context(|| format!("round {round} on {}", topologies[which]))?;
        // A round that ends at once must not cause endless further rounds.
        left = left.saturating_sub(spent.max(ROUND_MIN));
        eprintln!("round {round} took {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}
