//! `qiang webhook`: manages webhooks, the endpoints that receive events of settled changes.

use std::process::ExitCode;

use anyhow::bail;
use qiang_client::{
    CampaignId, DeliveryFilter, EventRedelivery, NewWebhook, OrderId, Timestamp, UserId, Webhook,
    WebhookChange, WebhookDelivery, WebhookDeliveryState, WebhookEventType, WebhookId,
};

use crate::service::{EXITS, Service, ServiceArgs, ask, or_dash, plain};

/// Make, list, test, redrive and delete webhooks: endpoints that receive events of settled changes. Requests are
/// signed according to Standard Webhooks.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    command: WebhookCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum WebhookCommand {
    /// Make a webhook, and print its id and its signing secret.
    #[command(
        after_help = "Example: qiang webhook create https://shop.example/hooks --type order.paid --owner shop"
    )]
    Create {
        /// The https: URL that events are posted to.
        endpoint: String,
        /// Only events of this type, such as order.paid; may be repeated. Default: all.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<WebhookEventType>,
        /// Only events of this campaign; may be repeated. Default: all.
        #[arg(long = "campaign", value_name = "ID")]
        campaigns: Vec<CampaignId>,
        /// Only events of campaigns of this sender or seller.
        #[arg(long, value_name = "USER")]
        owner: Option<UserId>,
    },
    /// List webhooks with their status.
    #[command(
        after_help = "Example: qiang webhook list --json | jq -r 'select(.status != \"ok\").id'"
    )]
    List,
    /// Show a webhook with its status.
    #[command(after_help = "Example: qiang webhook show 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Show {
        /// The webhook's id.
        webhook: WebhookId,
    },
    /// Send a `webhook.test` event to an endpoint. Exits 1 if the delivery fails.
    #[command(after_help = "Example: qiang webhook test 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Test {
        /// The webhook's id.
        webhook: WebhookId,
    },
    /// Retry an endpoint at once. A disabled endpoint is enabled.
    #[command(
        after_help = "Example: qiang webhook redrive 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --since 2026-11-21T00:00:00Z"
    )]
    Redrive {
        /// The webhook's id.
        webhook: WebhookId,
        /// Deliver the events decided since this time again, as far as they are kept.
        #[arg(long, value_name = "TIME")]
        since: Option<Timestamp>,
    },
    /// Change a webhook. Absent options change nothing.
    #[command(
        after_help = "Example: qiang webhook change 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --endpoint https://shop.example/new"
    )]
    Change {
        /// The webhook's id.
        webhook: WebhookId,
        /// The new https: URL that events are posted to.
        #[arg(long = "endpoint", value_name = "URL")]
        endpoint: Option<String>,
        /// Only events of this type; may be repeated.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<WebhookEventType>,
        /// Events of all types.
        #[arg(long, conflicts_with = "types")]
        all_types: bool,
        /// Only events of this campaign; may be repeated.
        #[arg(long = "campaign", value_name = "ID")]
        campaigns: Vec<CampaignId>,
        /// Events of all campaigns.
        #[arg(long, conflicts_with = "campaigns")]
        all_campaigns: bool,
        /// Only events of campaigns of this sender or seller.
        #[arg(long, value_name = "USER")]
        owner: Option<UserId>,
        /// Events of campaigns of all senders and sellers.
        #[arg(long, conflicts_with = "owner")]
        all_owners: bool,
        /// Deliver events.
        #[arg(long)]
        enable: bool,
        /// Deliver no events.
        #[arg(long, conflicts_with = "enable")]
        disable: bool,
    },
    /// List attempts to deliver events to a webhook, newest first.
    #[command(
        after_help = "Example: qiang webhook deliveries 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --state given_up"
    )]
    Deliveries {
        /// The webhook's id.
        webhook: WebhookId,
        /// Only attempts at this event.
        #[arg(long, value_name = "ID")]
        event: Option<String>,
        /// Only attempts at events of this order.
        #[arg(long, value_name = "ID", conflicts_with = "event")]
        order: Option<OrderId>,
        /// Only attempts that left their event in this state: delivered, failed or given_up.
        #[arg(long)]
        state: Option<WebhookDeliveryState>,
    },
    /// Deliver events once more, at once. A disabled endpoint is enabled.
    #[command(after_help = "Example: qiang webhook redeliver \
            01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --given-up-since 2026-11-21T00:00:00Z")]
    Redeliver {
        /// The webhook's id.
        webhook: WebhookId,
        /// Deliver this event, if the log has an attempt at it.
        #[arg(long, value_name = "ID", required_unless_present = "given_up_since")]
        event: Option<String>,
        /// Deliver the events that were given up since this time, unless a later attempt succeeded.
        #[arg(long, value_name = "TIME", conflicts_with = "event")]
        given_up_since: Option<Timestamp>,
    },
    /// Make a new secret for a webhook, and print it.
    #[command(
        after_help = "Example: qiang webhook rotate-secret 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --overlap-seconds 3600"
    )]
    RotateSecret {
        /// The webhook's id.
        webhook: WebhookId,
        /// Time for which requests are also signed with the previous secret. Default: 86400.
        #[arg(long, value_name = "SECONDS")]
        overlap_seconds: Option<u32>,
    },
    /// Delete a webhook.
    #[command(after_help = "Example: qiang webhook delete 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Delete {
        /// The webhook's id.
        webhook: WebhookId,
    },
}

pub(crate) fn run(args: &WebhookArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &WebhookCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    match command {
        WebhookCommand::Create {
            endpoint,
            types,
            campaigns,
            owner,
        } => {
            let webhook = NewWebhook {
                types: Some(types.clone()),
                campaigns: Some(campaigns.clone()),
                owner: owner.clone(),
                ..NewWebhook::new(endpoint)
            };
            let made = client.create_webhook(&webhook).await?;
            service.print(&made, |made| format!("{}\n{}", made.id, secret(made)))
        }
        WebhookCommand::List => {
            let webhooks = client.webhooks().await?.into_iter().map(Ok);
            let heading = "id                                    status      behind  url";
            let all = futures_util::stream::iter(webhooks);
            service.print_all(heading, all, line).await
        }
        WebhookCommand::Show { webhook } => {
            let webhook = client.webhook(webhook).await?;
            service.print(&webhook, shown)
        }
        WebhookCommand::Test { webhook } => {
            let test = client.test_webhook(webhook).await?;
            if let Some(why) = &test.error {
                bail!("{webhook}: {}", plain(why));
            }
            service.print(&test, |_| format!("{webhook}: delivered"))
        }
        WebhookCommand::Redrive { webhook, since } => {
            let redriven = client.redrive_webhook(webhook, *since).await?;
            service.print(&redriven, |_| format!("{webhook}: retrying"))
        }
        WebhookCommand::Change { webhook, .. } => {
            let changed = client.change_webhook(webhook, &change_of(command)).await?;
            service.print(&changed, shown)
        }
        WebhookCommand::Deliveries {
            webhook,
            event,
            order,
            state,
        } => {
            let mut filter = DeliveryFilter::default();
            (filter.event, filter.order) = (event.clone(), order.clone());
            filter.state = *state;
            let heading = "time                      ms      status  state      event";
            let all = client.webhook_deliveries(webhook, &filter);
            service.print_all(heading, all, delivery_line).await
        }
        WebhookCommand::Redeliver {
            webhook,
            event,
            given_up_since,
        } => {
            let events = match (event, given_up_since) {
                (_, Some(since)) => EventRedelivery::GivenUpSince(*since),
                (event, None) => EventRedelivery::Event(event.clone().unwrap_or_default()),
            };
            let redelivered = client.redeliver_events(webhook, &events).await?;
            service.print(&redelivered, |it| {
                format!("{webhook}: {} events wait for a delivery", it.waiting)
            })
        }
        WebhookCommand::RotateSecret {
            webhook,
            overlap_seconds,
        } => {
            let rotated = client.rotate_webhook_secret(webhook, *overlap_seconds);
            service.print(&rotated.await?, |rotated| secret(rotated).to_owned())
        }
        WebhookCommand::Delete { webhook } => {
            client.delete_webhook(webhook).await?;
            service.print(&serde_json::json!({ "id": webhook }), |_| {
                format!("{webhook}: deleted")
            })
        }
    }
}

fn secret(webhook: &Webhook) -> &str {
    let secret = webhook.secret.as_ref();
    secret.map_or("", |secret| secret.as_str())
}

/// Requested changes; nothing for another command.
fn change_of(command: &WebhookCommand) -> WebhookChange {
    let mut change = WebhookChange::with_defaults();
    let WebhookCommand::Change {
        endpoint,
        types,
        all_types,
        campaigns,
        all_campaigns,
        owner,
        all_owners,
        enable,
        disable,
        ..
    } = command
    else {
        return change;
    };
    change.url.clone_from(endpoint);
    change.types = (*all_types || !types.is_empty()).then(|| types.clone());
    change.campaigns = (*all_campaigns || !campaigns.is_empty()).then(|| campaigns.clone());
    change.owner = (*all_owners || owner.is_some()).then(|| owner.clone());
    change.enabled = (*enable || *disable).then_some(*enable);
    change
}

fn delivery_line(delivery: &WebhookDelivery) -> String {
    let why = delivery.error.as_deref().map(plain);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!(
        "{}  {:>6}  {:>6}  {:<9}  {} {}{why}",
        delivery.attempted_at,
        delivery.duration_ms,
        or_dash(delivery.response_status),
        delivery.state,
        delivery.event,
        delivery.r#type,
    )
}

fn line(webhook: &Webhook) -> String {
    let Webhook {
        id,
        status,
        behind,
        url,
        ..
    } = webhook;
    let why = webhook.last_error.as_deref().map(plain);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{id}  {status:<8}  {behind:>8}  {}{why}", plain(url))
}

fn shown(webhook: &Webhook) -> String {
    let list = |words: Vec<&str>| match words.is_empty() {
        true => "all".to_owned(),
        false => words.join(" "),
    };
    let types = list(webhook.types.iter().map(|it| it.as_str()).collect());
    let campaigns = list(webhook.campaigns.iter().map(CampaignId::as_str).collect());
    format!(
        "{}: {}\ntypes      {types}\ncampaigns  {campaigns}, owner {}\nstatus     {}, {} behind, {} waiting, \
         {} attempts failed\nerror      {}\nretry      {}",
        webhook.id,
        plain(&webhook.url),
        or_dash(webhook.owner.as_ref()),
        webhook.status,
        webhook.behind,
        webhook.waiting,
        webhook.attempts,
        or_dash(webhook.last_error.as_deref().map(plain)),
        or_dash(webhook.retry_at),
    )
}
