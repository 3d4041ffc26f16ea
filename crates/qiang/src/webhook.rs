//! `qiang webhook`: endpoints that are told what was settled.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::bail;
use jiff::Timestamp as Calendar;
use qiang_core::{
    id::{CampaignId, UserId},
    ports::{Clock as _, Ledger},
    time::Timestamp,
    webhook::{
        EventType, FILTER_CAMPAIGNS_MAX, Filter, WEBHOOKS_MAX, Webhook, WebhookEvent, WebhookRecord,
    },
};
use qiang_node::{Config, SystemClock, UsageError, Webhooks, id_at};
use serde::Serialize;
use uuid::Uuid;

use crate::{backend::BackendArgs, block_on, settlement::open};

/// An endpoint did not answer.
const FAILED: u8 = 1;

/// Endpoints that are told what was settled: requests that are signed as Standard Webhooks has it. A node serves the
/// same under /v1/webhooks. A ledger in a file is open in one process at a time: stop the node that has it first.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum WebhookCommand {
    /// List endpoints, and how they stand.
    List(ListArgs),
    /// Make an endpoint, and print the secret that its requests are signed with.
    Create(CreateArgs),
    /// Delete an endpoint.
    Delete(OneArgs),
    /// Send a `webhook.test` to an endpoint. Exits 1 if it does not get through.
    Test(OneArgs),
    /// Have an endpoint tried again at once, also one that is disabled.
    Redrive(RedriveArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Where events are posted: an https: URL.
    url: String,
    #[command(flatten)]
    backend: BackendArgs,
    /// Events of this type alone, such as order.paid; may be repeated. Default: all.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Events of this campaign alone; may be repeated. Default: all.
    #[arg(long = "campaign", value_name = "ID")]
    campaigns: Vec<String>,
    /// Events of campaigns of this sender or seller alone.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// The endpoint's id: see `qiang webhook list`.
    id: Uuid,
    #[command(flatten)]
    backend: BackendArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Tell once more what was decided from then on, as far as it is kept, such as 2026-11-21T20:00:00+08:00.
    #[arg(long, value_name = "TIME")]
    since: Option<Calendar>,
}

pub(crate) fn run(command: &WebhookCommand) -> anyhow::Result<ExitCode> {
    let backend = match command {
        WebhookCommand::List(args) => &args.backend,
        WebhookCommand::Create(args) => &args.backend,
        WebhookCommand::Delete(args) | WebhookCommand::Test(args) => &args.backend,
        WebhookCommand::Redrive(args) => &args.one.backend,
    };
    let config = backend.load(&backend.overrides())?;
    block_on(async {
        let ledger_backend = open(&config).await?;
        let ledger = ledger_backend.ledger();
        let done = match command {
            WebhookCommand::List(args) => list(&*ledger, args.json).await,
            WebhookCommand::Create(args) => create(&*ledger, &config, args).await,
            WebhookCommand::Delete(args) => delete(&*ledger, args.id).await,
            WebhookCommand::Test(args) => test(&*ledger, &config, args.id).await,
            WebhookCommand::Redrive(args) => redrive(&*ledger, args).await,
        };
        let closed = ledger_backend.close().await;
        let done = done?;
        closed?;
        Ok(done)
    })
}

/// An endpoint, as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    url: String,
    types: String,
    campaigns: String,
    owner: Option<String>,
    status: &'static str,
    behind: i64,
    attempts: u32,
    last_error: Option<String>,
}

impl Row {
    fn of(record: &WebhookRecord) -> Self {
        let (webhook, progress) = (&record.webhook, &record.progress);
        Self {
            id: webhook.id.to_string(),
            url: webhook.url.clone(),
            types: webhook.filter.type_names(),
            campaigns: webhook.filter.campaign_names(),
            owner: webhook.filter.owner.as_ref().map(ToString::to_string),
            status: progress.status(),
            behind: record.last_place - progress.place,
            attempts: progress.attempts,
            last_error: progress.last_error.clone(),
        }
    }
}

async fn list(ledger: &dyn Ledger, json: bool) -> anyhow::Result<ExitCode> {
    let records = ledger.webhooks().await?;
    let rows: Vec<_> = records.iter().map(Row::of).collect();
    let mut out = io::stdout().lock();
    if json {
        let listed = serde_json::json!({ "webhooks": rows });
        writeln!(out, "{listed}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        writeln!(out, "there are no webhooks")?;
    }
    for row in rows {
        let (id, status, behind, url) = (row.id, row.status, row.behind, row.url);
        let why = row.last_error.map(|why| format!(": {why}"));
        let why = why.unwrap_or_default();
        writeln!(out, "{id}  {status:<8}  {behind:>8} behind  {url}{why}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(args: &CreateArgs) -> Result<Filter, UsageError> {
    let kind = |name: &String| {
        let known = EventType::settled().find(|one| one.name() == name);
        known.ok_or_else(|| {
            let names: Vec<_> = EventType::settled().map(EventType::name).collect();
            UsageError::new(format!("a type is one of {}", names.join(", ")))
        })
    };
    let usage = |error: qiang_core::id::IdError| UsageError::new(error.to_string());
    if args.campaigns.len() > FILTER_CAMPAIGNS_MAX {
        let line = format!("a filter names at most {FILTER_CAMPAIGNS_MAX} campaigns");
        return Err(UsageError::new(line));
    }
    let campaigns = args.campaigns.iter().map(|id| id.parse::<CampaignId>());
    Ok(Filter {
        types: args.types.iter().map(kind).collect::<Result<_, _>>()?,
        campaigns: campaigns.collect::<Result<_, _>>().map_err(usage)?,
        owner: args
            .owner
            .as_deref()
            .map(UserId::new)
            .transpose()
            .map_err(usage)?,
    })
}

async fn create(
    ledger: &dyn Ledger,
    config: &Config,
    args: &CreateArgs,
) -> anyhow::Result<ExitCode> {
    let Webhooks { sender, .. } = config.webhooks.sender()?;
    sender.check_url(&args.url).map_err(UsageError::new)?;
    let now = SystemClock.now();
    let webhook = Webhook {
        id: id_at(now),
        url: args.url.clone(),
        secret: sender.fresh_secret().map_err(anyhow::Error::msg)?,
        previous_secret: None,
        filter: filter(args)?,
        created_at: now,
    };
    if !ledger.add_webhook(&webhook, None).await? {
        bail!("there are {WEBHOOKS_MAX} webhooks, and no more may be");
    }
    let (id, secret) = (webhook.id, &webhook.secret);
    match args.json {
        true => println!(
            "{}",
            serde_json::json!({ "id": id.to_string(), "secret": secret })
        ),
        false => println!("{id}\n{secret}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn missing(id: Uuid) -> UsageError {
    UsageError::new(format!(
        "there is no webhook {id}: see `qiang webhook list`"
    ))
}

async fn delete(ledger: &dyn Ledger, id: Uuid) -> anyhow::Result<ExitCode> {
    match ledger.delete_webhook(id, None).await? {
        true => {
            println!("{id} is deleted");
            Ok(ExitCode::SUCCESS)
        }
        false => Err(missing(id).into()),
    }
}

async fn test(ledger: &dyn Ledger, config: &Config, id: Uuid) -> anyhow::Result<ExitCode> {
    let records = ledger.webhooks().await?;
    let record = records.into_iter().find(|record| record.webhook.id == id);
    let record = record.ok_or_else(|| missing(id))?;
    let now = SystemClock.now();
    let event = WebhookEvent::test(id_at(now), now);
    let sender = config.webhooks.sender()?.sender;
    match sender.send(&record.webhook, &event, now).await {
        Ok(()) => {
            println!("{id}: delivered");
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            println!("{id}: {failure}");
            Ok(ExitCode::from(FAILED))
        }
    }
}

async fn redrive(ledger: &dyn Ledger, args: &RedriveArgs) -> anyhow::Result<ExitCode> {
    let id = args.one.id;
    let since = args
        .since
        .map(|at| Timestamp::from_millis(at.as_millisecond()));
    match ledger.redrive_webhook(id, since, None).await? {
        true => {
            println!("{id} is tried again");
            Ok(ExitCode::SUCCESS)
        }
        false => Err(missing(id).into()),
    }
}
