//! `qiang sale`: changes a sale through a node that serves.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::header::HeaderValue;
use qiang_core::id::CampaignId;
use qiang_load::client::Client;
use qiang_node::UsageError;
use serde_json::{Value, json};

/// What to do to a sale.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sale {
    /// Raise or lower the stock, while the sale is live or ahead of its start. The same stock again changes nothing.
    SetStock {
        /// The sale's id.
        sale: CampaignId,
        /// Units for sale in all, those that users have included. Not less than users have.
        stock: u32,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Change window, limit or price, while the sale is live or ahead of its start. The same again changes nothing.
    SetTerms {
        /// The sale's id.
        sale: CampaignId,
        /// When it opens, such as 2027-01-15T08:00:00Z: not in the past, and only while it has not opened.
        #[arg(long, value_name = "TIME")]
        starts_at: Option<String>,
        /// When it ends: not in the past.
        #[arg(long, value_name = "TIME")]
        ends_at: Option<String>,
        /// Units that one user may have. Whoever has more keeps them.
        #[arg(long, value_name = "UNITS")]
        limit: Option<u32>,
        /// The price of one unit for orders from then on, in minor units, with its currency.
        #[arg(long, num_args = 2, value_names = ["MINOR", "CURRENCY"])]
        price: Option<Vec<String>>,
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// The node to ask, and the right to.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// Where the node listens.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    node: SocketAddr,
    /// A file with a token whose scope has `operate`: see `qiang token`.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

pub(crate) fn run(command: &Sale) -> anyhow::Result<ExitCode> {
    let (sale, body, node) = match command {
        Sale::SetStock { sale, stock, node } => (sale, json!({ "stock": stock }), node),
        Sale::SetTerms {
            sale,
            starts_at,
            ends_at,
            limit,
            price,
            node,
        } => {
            let mut body = json!({});
            let mut put = |field: &str, value: Option<Value>| {
                if let Some(value) = value {
                    body[field] = value;
                }
            };
            put("starts_at", starts_at.clone().map(Value::from));
            put("ends_at", ends_at.clone().map(Value::from));
            put("per_user_limit", limit.map(Value::from));
            put("unit_price", price.as_deref().map(money).transpose()?);
            (sale, body, node)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let changed = runtime.block_on(patch(node, &format!("/v1/sales/{sale}"), &body))?;
    let (stock, state) = (&changed["stock"], &changed["state"]);
    println!(
        "{sale}: stock {stock}, granted {}, remaining {}",
        state["granted"], state["remaining"]
    );
    if let Sale::SetTerms { .. } = command {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        println!(
            "from {} up to {}, {} a user, {} {} a unit",
            text(&state["starts_at"]),
            text(&state["ends_at"]),
            changed["per_user_limit"],
            changed["unit_price"]["amount"],
            text(&changed["unit_price"]["currency"])
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn money(words: &[String]) -> anyhow::Result<Value> {
    let [minor, currency] = words else {
        return Err(UsageError::new("a price is a number and a currency").into());
    };
    let minor: i64 = (minor.parse())
        .map_err(|_| UsageError::new(format!("{minor} is no number of minor units")))?;
    Ok(json!({ "amount": minor, "currency": currency }))
}

async fn patch(
    args: &NodeArgs,
    path: &str,
    body: &serde_json::Value,
) -> anyhow::Result<serde_json::Value> {
    let file = args.token_file.display();
    let token = std::fs::read_to_string(&args.token_file)
        .map_err(|error| UsageError::new(format!("cannot read {file}: {error}")))?;
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let bearer = bearer.with_context(|| format!("{file} holds no token"))?;
    let mut client = Client::connect(args.node).await?;
    let body = Bytes::from(body.to_string());
    client.patch(path, &bearer, body).await?.success()
}
