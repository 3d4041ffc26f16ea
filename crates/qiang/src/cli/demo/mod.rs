//! `qiang demo`: a demonstration with a real service, on the embedded engine by default. Users grab a red packet and
//! buy out a flash sale over HTTP. An audit of the ledger checks that nothing was granted twice or lost.

mod crowd;
mod report;

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use anyhow::Context as _;
use indicatif::MultiProgress;

use self::{
    crowd::{DemoCrowd, PACKET, SALE},
    report::{DemoReport, LoadNumbers},
};
use crate::{environment, secrets};
use qiang::{
    UsageError,
    local::{LocalServers, LocalService},
};
use qiang_client::load::{
    verdict::{self, Verdict},
    visitors::Goal,
};
use qiang_client::{CampaignId, Client, Currency, Money, NewRedPacket, NewSale, SplitRuleName};

/// Minor units of the demonstration's red packet: ¥1,000.00.
const TOTAL_MINOR: i64 = 100_000;
/// Sender of the red packet.
const SENDER: &str = "sender";
/// Seconds over which the crowd comes if it is watched on a terminal.
const WATCHED_S: u32 = 20;
/// Largest default number of shares and units if the crowd comes over a time.
const WATCHED_SUPPLY: u32 = 5_000;
/// Default number of shares and units if the crowd comes at once.
const SUPPLY: u32 = 100;
/// Default URLs of servers.
const REDIS: &str = "redis://127.0.0.1:6379";
const RABBITMQ: &str = "amqp://127.0.0.1:5672";
/// Time for the ledger to catch up before the demonstration gives up.
const SETTLE_MAX: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  qiang demo                             10,000 users at once; serves on until Ctrl-C
  qiang demo --over 60                   the same crowd within a minute, to be watched in a browser
  qiang demo --engine redis --exit       on the Redis of this machine, and end after the report";

/// Users grab a red packet and buy out a flash sale over HTTP; an audit proves the result.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Users; each claims a share of the packet and a unit of the sale.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: u32,
    /// Shares of the red packet of ¥1,000.00. Default: 100; if the crowd comes over a time, one for every second user,
    /// at most 5,000.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    shares: Option<u32>,
    /// Units of the flash sale. Default: as for --shares.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    stock: Option<u32>,
    /// Connections that the users share.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    connections: u32,
    /// The engine: embedded or redis.
    #[arg(long, value_name = "KIND", default_value = "embedded", value_parser = ["embedded", "redis"])]
    engine: String,
    /// URL of Redis, for `--engine redis`. The demonstration uses keys of its own, and removes them at its end. Put a
    /// URL with a password into QIANG_DEMO_REDIS. Default: redis://127.0.0.1:6379.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// postgres:// or mysql:// URL of a database server for the ledger, for `--engine redis`. The demonstration creates
    /// a database of its own there, and drops it at its end. Put a URL with a password into QIANG_DEMO_LEDGER.
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// Transport of entries to the ledger, for `--engine redis`.
    #[arg(long, value_name = "KIND", default_value = "stream",
        value_parser = ["stream", "list", "rabbitmq", "log"])]
    transport: String,
    /// URL of RabbitMQ, for `--transport rabbitmq`. Put a URL with a password into QIANG_DEMO_RABBITMQ. Default:
    /// amqp://127.0.0.1:5672.
    #[arg(long, value_name = "URL")]
    rabbitmq: Option<String>,
    /// Seconds over which the crowd comes, to watch it in a browser; 0: at once. On a terminal, the crowd waits for
    /// Enter. Default: 20 on a terminal, without waiting. Elsewhere, or with `--exit` or `--json`, the default is 0.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=3_600))]
    over: Option<u32>,
    /// End after the report instead of serving on.
    #[arg(long)]
    exit: bool,
    /// Print one JSON object instead of the report.
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    /// Seconds over which the crowd comes; `None` if at once. On a terminal, the demonstration is watched by default.
    fn over(&self, is_terminal: bool) -> Option<u32> {
        let is_watched = is_terminal && !self.exit && !self.json;
        let over = self.over.or(is_watched.then_some(WATCHED_S));
        over.filter(|seconds| *seconds > 0)
    }

    /// Shares of the packet, and units of the sale. If a crowd comes over a time, a hundred would be gone before a user
    /// opens the page, so the default is larger.
    fn supply(&self, over: Option<u32>) -> (u32, u32) {
        let usual = match over {
            Some(_) => (self.users / 2).clamp(1, WATCHED_SUPPLY),
            None => SUPPLY,
        };
        let shares = self.shares.unwrap_or(usual);
        (shares, self.stock.unwrap_or(usual))
    }
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(demonstrate(args))
}

async fn demonstrate(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let ledger = place("--ledger", &args.ledger, "QIANG_DEMO_LEDGER")?;
    let redis = place("--redis", &args.redis, "QIANG_DEMO_REDIS")?;
    let rabbitmq = place("--rabbitmq", &args.rabbitmq, "QIANG_DEMO_RABBITMQ")?;
    let local = match args.engine.as_str() {
        "redis" => {
            let servers = LocalServers {
                redis: redis.as_deref().unwrap_or(REDIS),
                read_urls: "",
                ledger: ledger.as_deref(),
                transport: &args.transport,
                rabbitmq: rabbitmq.as_deref().unwrap_or(RABBITMQ),
            };
            LocalService::start_on_redis(&servers).await?
        }
        _ if args.ledger.is_some() => {
            let line = "the embedded engine is its own ledger: --ledger goes with --engine redis";
            return Err(UsageError::new(line).into());
        }
        _ => LocalService::start(false).await?,
    };
    let operator = client(&local, "shop", "campaigns:write deposit")?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let over = args.over(is_terminal);
    let (shares, stock) = args.supply(over);
    let packet = open_packet(&local, &operator, shares).await?;
    let sale = open_sale(&operator, stock).await?;

    print_pages(&local, &packet, &sale);
    if let Some(seconds) = args.over.filter(|seconds| *seconds > 0) {
        wait_for_enter(seconds).await?;
    }
    let users = (0..args.users).map(|n| token(&local, &user(n), "claim"));
    let users = users.collect::<anyhow::Result<Vec<_>>>()?;
    let bars = if args.json {
        MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::hidden())
    } else {
        MultiProgress::new()
    };
    let crowd = DemoCrowd {
        local: &local,
        args,
        users,
        bars,
    };
    let (packet_load, sale_load) = match over {
        // Both run at once, so that a viewer sees both.
        Some(seconds) => {
            let packet_goal = Goal::Share(packet.clone());
            let sale_goal = Goal::Unit(sale.clone());
            tokio::try_join!(
                crowd.visit(PACKET, packet_goal, seconds),
                crowd.visit(SALE, sale_goal, seconds)
            )?
        }
        None => (
            crowd
                .rush(PACKET, format!("/v1/red-packets/{packet}/claims"), "")
                .await?,
            crowd
                .rush(
                    SALE,
                    format!("/v1/sales/{sale}/orders"),
                    r#"{"quantity":1}"#,
                )
                .await?,
        ),
    };

    let packet_verdict = verdict::judge(&packet_load.seen, u64::from(shares))?;
    let sale_verdict = verdict::judge(&sale_load.seen, u64::from(stock))?;
    local.settle(SETTLE_MAX).await?;
    let packet_state = operator.red_packet(&packet).await?;
    let sale_state = operator.sale(&sale).await?.state;
    let audited = audit(&local).await?;
    let report = DemoReport {
        packet: LoadNumbers::from_counts(
            (args.users, shares),
            (packet_state.state.granted, packet_state.claimed.amount),
            &packet_verdict,
            &packet_load,
        ),
        sale: LoadNumbers::from_counts(
            (args.users, stock),
            (sale_state.granted, 0),
            &sale_verdict,
            &sale_load,
        ),
        total_minor: TOTAL_MINOR,
        remaining_minor: packet_state.remaining.amount,
        refunded_minor: packet_state.refunded.amount,
        luckiest: luckiest(&packet_verdict),
        is_open: over.is_some(),
        shares: packet_verdict.grants.iter().map(|grant| grant.2).collect(),
        audit: audited,
        packet_load,
        sale_load,
    };
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    if !args.exit {
        // The operators' desk shows each check of this audit.
        client(&local, "shop", "admin")?.start_audit().await?;
        print_links(&local, &packet)?;
        local.serve_on().await?;
    } else {
        local.stop().await?;
    }
    Ok(if report.sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A server's URL, from the flag without a password, or from the variable.
fn place(flag: &str, given: &Option<String>, variable: &str) -> anyhow::Result<Option<String>> {
    secrets::refuse(flag, given.as_deref(), variable)?;
    match given {
        Some(url) => Ok(Some(url.clone())),
        None => Ok(environment::variable(variable)?),
    }
}

fn user(n: u32) -> String {
    format!("user-{n}")
}

/// A client that creates the campaigns and reads their results.
fn client(local: &LocalService, user: &str, scope: &str) -> anyhow::Result<Client> {
    let token = token(local, user, scope)?;
    let client = Client::builder(&format!("http://{}", local.addr())).token(token);
    Ok(client.build()?)
}

fn token(local: &LocalService, user: &str, scope: &str) -> anyhow::Result<String> {
    let bearer = local.tokens().bearer(user, scope)?;
    Ok(bearer.trim_start_matches("Bearer ").to_owned())
}

async fn open_packet(
    local: &LocalService,
    operator: &Client,
    shares: u32,
) -> anyhow::Result<CampaignId> {
    let total = Money::new(TOTAL_MINOR, yuan()?);
    operator.deposit(&SENDER.parse()?, "demo", total).await?;
    let packet = NewRedPacket::new("恭喜发财", total, shares, SplitRuleName::DoubleAverage);
    let sender = client(local, SENDER, "send")?;
    Ok(sender.create_red_packet(&packet).await?.id)
}

async fn open_sale(operator: &Client, stock: u32) -> anyhow::Result<CampaignId> {
    let price = Money::new(99_900, yuan()?);
    let sale = NewSale::new("Phone, one a customer", u64::from(stock), price);
    Ok(operator.create_sale(&sale).await?.id)
}

fn yuan() -> anyhow::Result<Currency> {
    Ok("CNY".parse()?)
}

fn luckiest(verdict: &Verdict) -> Option<(String, i64)> {
    let best = verdict.grants.iter().max_by_key(|grant| grant.2)?;
    Some((user(best.1), best.2))
}

/// Proves the invariants from the ledger's rows.
async fn audit(local: &LocalService) -> anyhow::Result<qiang_audit::AuditFindings> {
    if let Some(url) = local.ledger_url() {
        return qiang_audit::audit_ledger(url).await;
    }
    let path = local.database();
    tokio::task::spawn_blocking(move || qiang_audit::audit(&path)).await?
}

/// Prints the pages to watch and to join. The roles have the names of the sign-in page.
fn print_pages(local: &LocalService, packet: &CampaignId, sale: &CampaignId) {
    let base = format!("http://{}", local.addr());
    eprintln!("In a browser, as any user:");
    eprintln!("  red packet     {base}/p/{packet}");
    eprintln!("  sale           {base}/s/{sale}");
    eprintln!("Signed in as an operator or an administrator:");
    eprintln!("  its chart      {base}/admin/packets/{packet} (red packet)");
    eprintln!("  its chart      {base}/admin/sales/{sale} (sale)");
    eprintln!("  all charts     {base}/admin/live");
    eprintln!("Signed in as an administrator:");
    eprintln!("  audit          {base}/admin/operation");
}

/// Waits for Enter on a terminal, so that the viewer can open a page first.
async fn wait_for_enter(seconds: u32) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    eprintln!("Press Enter to let the crowd come over {seconds} seconds.");
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    read.await?.map(drop).context("read from the terminal")
}

fn print_links(local: &LocalService, packet: &CampaignId) -> anyhow::Result<()> {
    let base = format!("http://{}", local.addr());
    let token = local.tokens().bearer("you", "claim send")?;
    eprintln!("Serving until Ctrl-C: the pages above stay, and /admin/operation has the audit.");
    eprintln!("For programs:");
    eprintln!("  documentation  {base}/docs");
    eprintln!("  metrics        {base}/metrics");
    eprintln!(
        "Try: curl -X POST {base}/v1/red-packets/{packet}/claims -H 'Authorization: {token}'"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArgs,
    }

    #[test]
    fn people_at_a_terminal_watch_and_programs_do_not_wait() {
        let check = |words: &[&str], is_terminal, expected, supply| {
            let line = [&["demo"][..], words].concat();
            let args = Line::parse_from(line).demo;
            let over = args.over(is_terminal);
            assert_eq!((over, args.supply(over)), (expected, supply), "{words:?}");
        };
        check(&[], true, Some(20), (5_000, 5_000));
        check(&["--users", "60"], true, Some(20), (30, 30));
        check(&["--users", "1"], true, Some(20), (1, 1));
        check(&["--over", "0"], true, None, (100, 100));
        check(&["--over", "7", "--shares", "9"], true, Some(7), (9, 5_000));
        check(&["--over", "7", "--exit"], false, Some(7), (5_000, 5_000));
        check(&["--stock", "3"], false, None, (100, 3));
        for words in [["--exit"], ["--json"]] {
            check(&words, true, None, (100, 100));
        }
        check(&[], false, None, (100, 100));
    }
}
