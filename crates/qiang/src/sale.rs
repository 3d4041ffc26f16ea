//! `qiang sale`: changes a sale through a node that serves.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::header::HeaderValue;
use qiang_core::id::CampaignId;
use qiang_load::client::Client;
use qiang_node::UsageError;

/// What to do to a sale.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sale {
    /// Raise or lower the stock, while the sale is live or ahead of its start. The same stock again changes nothing.
    SetStock {
        /// The sale's id.
        sale: CampaignId,
        /// Units for sale in all, those that users have included. Not less than users have.
        stock: u64,
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
    let Sale::SetStock { sale, stock, node } = command;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let body = serde_json::json!({ "stock": stock });
    let changed = runtime.block_on(patch(node, &format!("/v1/sales/{sale}"), &body))?;
    let (stock, state) = (&changed["stock"], &changed["state"]);
    println!(
        "{sale}: stock {stock}, granted {}, remaining {}",
        state["granted"], state["remaining"]
    );
    Ok(ExitCode::SUCCESS)
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
