//! `qiang sale`: changes sales, and lists them, through a node that serves.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::header::HeaderValue;
use qiang_core::id::{CampaignId, ProductId, UserId};
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
        stock: u64,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Change window, limit or price, while the sale is live or ahead of its start. The same again changes nothing.
    SetTerms {
        /// The sale's id.
        sale: CampaignId,
        #[command(flatten)]
        terms: Terms,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Change what people see: title, product, description, picture. An empty text takes away, but for the title.
    Describe {
        /// The sale's id.
        sale: CampaignId,
        #[command(flatten)]
        texts: Texts,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// List sales with their numbers as settled, by id; those of a product by their start.
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Have lists not show a closed sale any more unless asked.
    Archive {
        /// The sale's id.
        sale: CampaignId,
        #[command(flatten)]
        node: NodeArgs,
    },
}

/// What to change about the terms of a sale.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Terms {
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
}

impl Terms {
    /// The body of the request.
    fn change(&self) -> anyhow::Result<Value> {
        let price = self.price.as_deref().map(money).transpose()?;
        let given = [
            ("starts_at", self.starts_at.clone().map(Value::from)),
            ("ends_at", self.ends_at.clone().map(Value::from)),
            ("per_user_limit", self.limit.map(Value::from)),
            ("unit_price", price),
        ];
        let field = |(field, value): (&str, Option<Value>)| Some((field.to_owned(), value?));
        let fields: serde_json::Map<String, Value> = given.into_iter().filter_map(field).collect();
        Ok(fields.into())
    }
}

fn money(words: &[String]) -> anyhow::Result<Value> {
    let [minor, currency] = words else {
        return Err(UsageError::new("a price is a number and a currency").into());
    };
    let number = |_| UsageError::new(format!("{minor} is no number of minor units"));
    let minor: i64 = minor.parse().map_err(number)?;
    Ok(json!({ "amount": minor, "currency": currency }))
}

/// What people see of a sale.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Texts {
    /// At most 1,024 characters.
    #[arg(long)]
    title: Option<String>,
    /// The seller's id of the product, at most 128 visible ASCII characters. Sales of one product are its rounds.
    #[arg(long, value_name = "ID")]
    product_id: Option<String>,
    /// At most 4,096 characters.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// `https://…`, or a path that begins with `/`; at most 2,048 characters.
    #[arg(long, value_name = "URL")]
    image_url: Option<String>,
}

/// Which sales.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Those of this seller; default: everybody's.
    #[arg(long, value_name = "USER")]
    owner: Option<UserId>,
    /// Rounds of this product.
    #[arg(long, value_name = "ID")]
    product_id: Option<ProductId>,
    /// draft, scheduled, live, paused, ended or closed.
    #[arg(long)]
    phase: Option<String>,
    /// Archived ones as well.
    #[arg(long)]
    archived: bool,
}

/// The node to ask, and the right to.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// Where the node listens.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    node: SocketAddr,
    /// A file with a token whose scope has `campaigns:write`, or for others' sales `campaigns:write:any`: see
    /// `qiang token`.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

pub(crate) fn run(command: &Sale) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(carry_out(command))?;
    Ok(ExitCode::SUCCESS)
}

async fn carry_out(command: &Sale) -> anyhow::Result<()> {
    match command {
        Sale::SetStock { sale, stock, node } => {
            let changed = patch(node, sale, json!({ "stock": stock })).await?;
            let (stock, state) = (&changed["stock"], &changed["state"]);
            println!(
                "{sale}: stock {stock}, granted {}, remaining {}",
                state["granted"], state["remaining"]
            );
        }
        Sale::SetTerms { sale, terms, node } => {
            let changed = patch(node, sale, terms.change()?).await?;
            let state = &changed["state"];
            println!(
                "{sale}: from {} up to {}, {} a user, {} {} a unit",
                word(&state["starts_at"]),
                word(&state["ends_at"]),
                changed["per_user_limit"],
                changed["unit_price"]["amount"],
                word(&changed["unit_price"]["currency"])
            );
        }
        Sale::Describe { sale, texts, node } => {
            let given = [
                ("product_id", &texts.product_id),
                ("description", &texts.description),
                ("image_url", &texts.image_url),
            ];
            let mut change = serde_json::Map::new();
            for (field, text) in given {
                if let Some(text) = text {
                    let gone = text.is_empty();
                    change.insert(
                        field.to_owned(),
                        if gone { Value::Null } else { json!(text) },
                    );
                }
            }
            if let Some(title) = &texts.title {
                change.insert("title".to_owned(), json!(title));
            }
            let changed = patch(node, sale, change.into()).await?;
            println!("{sale}: {}", word(&changed["title"]));
        }
        Sale::List { which, node } => list(which, node).await?,
        Sale::Archive { sale, node } => {
            let (mut client, bearer) = connect(node).await?;
            let path = format!("/v1/campaigns/{sale}/archive");
            client.post(&path, &bearer, Bytes::new()).await?.success()?;
            println!("{sale}: archived");
        }
    }
    Ok(())
}

/// Prints a line a sale, page after page.
async fn list(which: &Which, node: &NodeArgs) -> anyhow::Result<()> {
    let (mut client, bearer) = connect(node).await?;
    let mut asked = vec![format!("archived={}", which.archived)];
    asked.push(match &which.owner {
        Some(owner) => format!("owner={}", encoded(owner.as_str())),
        None => "all=true".to_owned(),
    });
    let product = which.product_id.as_ref();
    asked.extend(product.map(|id| format!("product_id={}", encoded(id.as_str()))));
    let phase = which.phase.as_ref();
    asked.extend(phase.map(|phase| format!("phase={}", encoded(phase))));
    let first = format!("/v1/sales?{}", asked.join("&"));
    let mut path = first.clone();
    println!(
        "id                                    phase      starts                    stock  granted  title"
    );
    loop {
        let page = client.get(&path, &bearer).await?.success()?;
        for sale in page["sales"].as_array().into_iter().flatten() {
            let state = &sale["state"];
            println!(
                "{}  {:<9}  {}  {:>5}  {:>7}  {}",
                word(&sale["id"]),
                word(&state["phase"]),
                word(&state["starts_at"]),
                sale["stock"],
                state["granted"],
                word(&sale["title"])
            );
        }
        let Some(next) = page["next"].as_str() else {
            return Ok(());
        };
        path = format!("{first}&after={next}");
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text as a value in a query (RFC 3986).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

async fn patch(args: &NodeArgs, sale: &CampaignId, change: Value) -> anyhow::Result<Value> {
    let (mut client, bearer) = connect(args).await?;
    let body = Bytes::from(change.to_string());
    client
        .patch(&format!("/v1/sales/{sale}"), &bearer, body)
        .await?
        .success()
}

async fn connect(args: &NodeArgs) -> anyhow::Result<(Client, HeaderValue)> {
    let file = args.token_file.display();
    let token = std::fs::read_to_string(&args.token_file)
        .map_err(|error| UsageError::new(format!("cannot read {file}: {error}")))?;
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let bearer = bearer.with_context(|| format!("{file} holds no token"))?;
    Ok((Client::connect(args.node).await?, bearer))
}
