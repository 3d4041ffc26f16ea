//! `qiang sale`: opens, shows, lists, changes and ends sales of a service.

use std::process::ExitCode;

use qiang_client::{CampaignId, Id, NewSale, PaymentPolicy, Sale, SaleChange, Timestamp, UserId};

use crate::{
    amounts,
    campaign::{CampaignArgs, CampaignFilter, CampaignVerb, act, numbers},
    metadata::{self, NamedValue},
    service::{EXITS, Service, ServiceArgs, ask, or_dash, plain},
};

/// Open, show, list, change and end sales of a service.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct SaleArgs {
    #[command(subcommand)]
    command: SaleCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum SaleCommand {
    /// Open a sale, and print its id.
    #[command(
        after_help = "Example: qiang sale create --title 'Phone 10' --stock 100 --price 999.00 CNY --limit 2"
    )]
    Create(Box<CreateSaleArgs>),
    /// Show a sale with its current numbers.
    #[command(after_help = "Example: qiang sale show 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --json")]
    Show {
        /// The sale's id.
        sale: CampaignId,
    },
    /// Set the stock of a sale that is live or before its start. Idempotent.
    #[command(
        after_help = "Example: qiang sale set-stock 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 150"
    )]
    SetStock {
        /// The sale's id.
        sale: CampaignId,
        /// Units in all, granted units included. At least the number of granted units.
        stock: u64,
    },
    /// Change window, limit or price of a sale that is live or before its start. Idempotent.
    #[command(
        after_help = "Example: qiang sale set-terms 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --price 899.00 CNY"
    )]
    SetTerms {
        /// The sale's id.
        sale: CampaignId,
        #[command(flatten)]
        terms: SaleSettingsArgs,
    },
    /// Change texts of a sale: title, product, description, picture. An empty text removes the value, except the title.
    #[command(
        after_help = "Example: qiang sale describe 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --title 'Phone 10'"
    )]
    Describe {
        /// The sale's id.
        sale: CampaignId,
        #[command(flatten)]
        texts: SaleTextArgs,
    },
    /// List sales by id, with their settled numbers; sales of a product by start.
    #[command(after_help = "Example: qiang sale list --phase live --json | jq -r .id")]
    List {
        #[command(flatten)]
        which: CampaignFilter,
        /// Only sales of this product.
        #[arg(long, value_name = "ID")]
        product_id: Option<Id>,
    },
    /// Pause granting. Idempotent.
    #[command(after_help = "Example: qiang sale pause 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Pause {
        /// The sale's id.
        sale: CampaignId,
    },
    /// Resume a paused sale. Idempotent.
    #[command(after_help = "Example: qiang sale resume 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Resume {
        /// The sale's id.
        sale: CampaignId,
    },
    /// Start a scheduled sale now. Idempotent.
    #[command(after_help = "Example: qiang sale start 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Start {
        /// The sale's id.
        sale: CampaignId,
    },
    /// End a sale now, permanently. Remaining units are not sold.
    #[command(after_help = "Example: qiang sale close 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Close {
        /// The sale's id.
        sale: CampaignId,
    },
    /// Hide a closed sale from lists that do not include archived ones.
    #[command(after_help = "Example: qiang sale archive 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    Archive {
        /// The sale's id.
        sale: CampaignId,
    },
}

/// A sale to open.
#[derive(Debug, clap::Args)]
struct CreateSaleArgs {
    /// Title that users see.
    #[arg(long)]
    title: String,
    /// Units for sale.
    #[arg(long, value_name = "UNITS")]
    stock: u64,
    /// The price of one unit, with its currency's decimals and the currency.
    #[arg(long, num_args = 2, required = true, value_names = ["AMOUNT", "CURRENCY"])]
    price: Vec<String>,
    /// Units that one user may have. Default: 1.
    #[arg(long, value_name = "UNITS")]
    limit: Option<u32>,
    /// Time for which an unpaid order holds its units. Default: 900.
    #[arg(long, value_name = "SECONDS")]
    hold_seconds: Option<u32>,
    /// The seller. Default: the token's user.
    #[arg(long, value_name = "USER")]
    seller: Option<UserId>,
    /// The seller's id of the product. Sales of one product are its rounds.
    #[arg(long, value_name = "ID")]
    product_id: Option<Id>,
    /// Description of the product.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// URL of its picture: `https://…`, or a path that begins with `/`.
    #[arg(long, value_name = "URL")]
    image_url: Option<String>,
    /// URL of a further picture. May be repeated, up to 8 times.
    #[arg(long, value_name = "URL")]
    gallery: Vec<String>,
    /// Price of one unit before the discount, above its price, with its currency. Buyers see the difference.
    #[arg(long, num_args = 2, value_names = ["AMOUNT", "CURRENCY"])]
    list_price: Option<Vec<String>>,
    /// The shop's own number of the sale. Users do not see it.
    #[arg(long)]
    reference: Option<String>,
    /// Name and value of the shop's own data. Users do not see it. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<NamedValue>,
    /// Users admitted to a decision at a time for each 100 remaining units; 0: no bound.
    #[arg(long, value_name = "PERCENT")]
    admission_percent: Option<u32>,
    /// Amounts that pay an order, beside its price. `owed`: none, another amount becomes a refund due. `accept_over`:
    /// larger amounts. `accept_with_tolerance`: amounts within the tolerance. It never changes. Default: owed.
    #[arg(long, value_name = "POLICY")]
    payment_policy: Option<PaymentPolicy>,
    /// The largest difference that accept_with_tolerance accepts, with its currency. It is less than the price.
    #[arg(long, num_args = 2, value_names = ["AMOUNT", "CURRENCY"])]
    payment_tolerance: Option<Vec<String>>,
    #[command(flatten)]
    rules: CampaignArgs,
}

impl CreateSaleArgs {
    fn sale(&self) -> anyhow::Result<NewSale> {
        let rules = &self.rules;
        Ok(NewSale {
            seller: self.seller.clone(),
            per_user_limit: self.limit,
            hold_seconds: self.hold_seconds,
            starts_at: rules.starts_at,
            ends_at: rules.ends_at,
            id: rules.id.clone(),
            ack: rules.ack,
            admission_percent: self.admission_percent,
            payment_policy: self.payment_policy,
            payment_tolerance: match &self.payment_tolerance {
                Some(words) => Some(amounts::money(words)?),
                None => None,
            },
            waiting_room: rules.waiting_room(),
            requirements: rules.requirements(),
            audience: rules.audience()?,
            product_id: self.product_id.clone(),
            description: self.description.clone(),
            image_url: self.image_url.clone(),
            gallery: Some(self.gallery.clone()).filter(|urls| !urls.is_empty()),
            list_price: self.list_price.as_deref().map(amounts::money).transpose()?,
            reference: self.reference.clone(),
            metadata: metadata::named(&self.metadata),
            ..NewSale::new(
                self.title.as_str(),
                self.stock,
                amounts::money(&self.price)?,
            )
        })
    }
}

/// Changes of the terms of a sale.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct SaleSettingsArgs {
    /// Units in all, granted units included, if the stock changes together with the terms.
    #[arg(long, value_name = "UNITS")]
    stock: Option<u64>,
    /// Start time, such as 2027-01-15T08:00:00Z: not in the past, and only until the sale has sold units.
    #[arg(long, value_name = "TIME")]
    starts_at: Option<Timestamp>,
    /// End time: not in the past.
    #[arg(long, value_name = "TIME")]
    ends_at: Option<Timestamp>,
    /// Units that one user may have. A user with more units keeps them.
    #[arg(long, value_name = "UNITS")]
    limit: Option<u32>,
    /// The price of one unit for later orders, with its currency's decimals and the currency.
    #[arg(long, num_args = 2, value_names = ["AMOUNT", "CURRENCY"])]
    price: Option<Vec<String>>,
    /// Users admitted to a decision at a time for each 100 remaining units: 100 to 10000, or 0 for no bound.
    #[arg(long, value_name = "PERCENT")]
    admission_percent: Option<u32>,
}

/// Texts of a sale that users see.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct SaleTextArgs {
    /// Title, at most 1,024 characters.
    #[arg(long)]
    title: Option<String>,
    /// The seller's id of the product, at most 128 visible ASCII characters. Sales of one product are its rounds.
    #[arg(long, value_name = "ID")]
    product_id: Option<String>,
    /// Description, at most 4,096 characters.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// URL of the picture: `https://…`, or a path that begins with `/`; at most 2,048 characters.
    #[arg(long, value_name = "URL")]
    image_url: Option<String>,
    /// URL of a further picture. May be repeated, up to 8 times; an empty one removes all.
    #[arg(long, value_name = "URL")]
    gallery: Option<Vec<String>>,
    /// Price of one unit before the discount, above its price, with its currency.
    #[arg(long, num_args = 2, value_names = ["AMOUNT", "CURRENCY"])]
    list_price: Option<Vec<String>>,
    /// Remove the price before the discount.
    #[arg(long, conflicts_with = "list_price")]
    no_list_price: bool,
}

impl SaleTextArgs {
    fn change(&self) -> anyhow::Result<SaleChange> {
        let text = |text: &Option<String>| {
            Some(text.clone()?).map(|text| Some(text).filter(|text| !text.is_empty()))
        };
        let product_id = match text(&self.product_id) {
            Some(Some(id)) => Some(Some(id.parse::<Id>().map_err(super::usage)?)),
            Some(None) => Some(None),
            None => None,
        };
        Ok(SaleChange {
            title: self.title.clone(),
            product_id,
            description: text(&self.description),
            image_url: text(&self.image_url),
            gallery: self.gallery.clone().map(|mut urls| {
                urls.retain(|url| !url.is_empty());
                urls
            }),
            list_price: match &self.list_price {
                Some(price) => Some(Some(amounts::money(price)?)),
                None => self.no_list_price.then_some(None),
            },
            ..SaleChange::with_defaults()
        })
    }
}

pub(crate) fn run(args: &SaleArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &SaleCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    match command {
        SaleCommand::Create(create) => {
            let sale = client.create_sale(&create.sale()?).await?;
            service.print(&sale, |sale| sale.id.to_string())
        }
        SaleCommand::Show { sale } => service.print(&client.sale(sale).await?, shown),
        SaleCommand::SetStock { sale, stock } => {
            let change = SaleChange {
                stock: Some(*stock),
                ..SaleChange::with_defaults()
            };
            let changed = client.change_sale(sale, &change).await?;
            service.print(&changed, |Sale { stock, state, .. }| {
                let (granted, remaining) = (state.granted, state.remaining);
                format!("{sale}: stock {stock}, granted {granted}, remaining {remaining}")
            })
        }
        SaleCommand::SetTerms { sale, terms } => {
            let change = SaleChange {
                stock: terms.stock,
                starts_at: terms.starts_at,
                ends_at: terms.ends_at,
                per_user_limit: terms.limit,
                unit_price: terms.price.as_deref().map(amounts::money).transpose()?,
                admission_percent: terms.admission_percent,
                ..SaleChange::with_defaults()
            };
            let changed = client.change_sale(sale, &change).await?;
            service.print(&changed, |changed| format!("{sale}: {}", terms_of(changed)))
        }
        SaleCommand::Describe { sale, texts } => {
            let changed = client.change_sale(sale, &texts.change()?).await?;
            service.print(&changed, |changed| {
                format!("{sale}: {}", plain(&changed.title))
            })
        }
        SaleCommand::List { which, product_id } => {
            let mut listing = which.listing();
            listing.product_id = product_id.clone();
            let heading = concat!(
                "id                                    phase      starts                    ",
                "stock  granted  title"
            );
            let line = |sale: &Sale| {
                let Sale {
                    id,
                    state,
                    stock,
                    title,
                    ..
                } = sale;
                format!(
                    "{id}  {:<9}  {}  {stock:>5}  {:>7}  {}",
                    state.phase,
                    state.starts_at,
                    state.granted,
                    plain(title)
                )
            };
            service
                .print_all(heading, client.sales(&listing), line)
                .await
        }
        SaleCommand::Pause { sale } => act(service, sale, CampaignVerb::Pause).await,
        SaleCommand::Resume { sale } => act(service, sale, CampaignVerb::Resume).await,
        SaleCommand::Start { sale } => act(service, sale, CampaignVerb::Start).await,
        SaleCommand::Close { sale } => act(service, sale, CampaignVerb::Close).await,
        SaleCommand::Archive { sale } => act(service, sale, CampaignVerb::Archive).await,
    }
}

fn terms_of(sale: &Sale) -> String {
    let Sale {
        state,
        per_user_limit,
        unit_price,
        admission_percent,
        ..
    } = sale;
    let (starts, ends) = (state.starts_at, state.ends_at);
    let price = amounts::shown(unit_price);
    format!(
        "from {starts} up to {ends}, {per_user_limit} a user, {price} a unit, admission {admission_percent} %"
    )
}

fn shown(sale: &Sale) -> String {
    let product = or_dash(sale.product_id.as_ref());
    format!(
        "{}: {}\nseller   {}, product {product}\nterms    {}, held for {} s, ack {}\nstock    {}: {}",
        sale.id,
        plain(&sale.title),
        sale.seller,
        terms_of(sale),
        sale.hold_seconds,
        sale.ack,
        sale.stock,
        numbers(&sale.state)
    )
}
