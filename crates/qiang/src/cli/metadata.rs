//! `qiang metadata`: shows and changes a shop's own data about campaigns and orders.

use std::{collections::BTreeMap, process::ExitCode, str::FromStr};

use qiang_client::{CampaignId, Metadata, MetadataChange, OrderId};

use crate::service::{EXITS, Service, ServiceArgs, ask, or_dash, plain};

/// Show or change the metadata of a campaign or an order: the shop's own number, and texts by name. Without a change,
/// it is shown. Users do not see it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct MetadataArgs {
    #[command(subcommand)]
    command: MetadataCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum MetadataCommand {
    /// Show or change the metadata of a sale or a red packet.
    #[command(
        after_help = "Example: qiang metadata campaign 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --set channel=app"
    )]
    Campaign {
        /// The campaign's id.
        campaign: CampaignId,
        #[command(flatten)]
        change: MetadataChangeArgs,
    },
    /// Show or change the metadata of an order.
    #[command(
        after_help = "Example: qiang metadata order 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --reference PO-4711"
    )]
    Order {
        /// The order's id.
        order: OrderId,
        #[command(flatten)]
        change: MetadataChangeArgs,
    },
}

/// A change of metadata.
#[derive(Debug, clap::Args)]
struct MetadataChangeArgs {
    /// The shop's own number; an empty text removes it.
    #[arg(long)]
    reference: Option<String>,
    /// Refuse the reference if another campaign or order of the owner has it as a unique one.
    #[arg(long, requires = "reference")]
    unique: bool,
    /// Name and its new value. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<NamedValue>,
    /// Name to remove. May be repeated.
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
}

/// A name and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedValue(pub(crate) String, pub(crate) String);

impl FromStr for NamedValue {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('=');
        let (name, value) = parts.ok_or("write it as NAME=VALUE")?;
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}

/// Values by name; `None` if there are none.
pub(crate) fn named(values: &[NamedValue]) -> Option<BTreeMap<String, String>> {
    let values = values.iter().cloned();
    let values: BTreeMap<_, _> = values
        .map(|NamedValue(name, value)| (name, value))
        .collect();
    Some(values).filter(|values| !values.is_empty())
}

impl MetadataChangeArgs {
    /// The change; `None` if nothing is to change.
    fn change(&self) -> Option<MetadataChange> {
        let set = self.set.iter().cloned();
        let set = set.map(|NamedValue(name, value)| (name, Some(value)));
        let removed = self.remove.iter().map(|name| (name.clone(), None));
        let metadata: BTreeMap<_, _> = removed.chain(set).collect();
        if self.reference.is_none() && metadata.is_empty() {
            return None;
        }
        let mut change = MetadataChange::with_defaults();
        let reference = self.reference.clone();
        change.reference = reference.map(|text| Some(text).filter(|text| !text.is_empty()));
        change.unique_reference = self.unique.then_some(true);
        change.metadata = Some(metadata).filter(|it| !it.is_empty());
        Some(change)
    }
}

pub(crate) fn run(args: &MetadataArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &MetadataCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    let metadata = match command {
        MetadataCommand::Campaign { campaign, change } => match change.change() {
            Some(change) => client.change_campaign_metadata(campaign, &change).await?,
            None => client.campaign_metadata(campaign).await?,
        },
        MetadataCommand::Order { order, change } => match change.change() {
            Some(change) => client.change_order_metadata(order, &change).await?,
            None => client.order_metadata(order).await?,
        },
    };
    service.print(&metadata, shown)
}

fn shown(of: &Metadata) -> String {
    let reference = of.reference.as_deref().map(plain);
    let values = of.metadata.iter();
    let values: String = values
        .map(|(name, value)| format!("\n{name}: {}", plain(value)))
        .collect();
    format!("{}  reference {}{values}", of.id, or_dash(reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_contain_the_sign_of_equality() {
        let read = |text: &str| text.parse::<NamedValue>();
        let named = |name: &str, value: &str| Ok(NamedValue(name.to_owned(), value.to_owned()));
        assert_eq!(read("a=b=c"), named("a", "b=c"));
        assert_eq!(read("a="), named("a", ""));
        assert!(read("a").is_err());
    }

    #[test]
    fn nothing_to_change_is_no_change() {
        let args = |reference: Option<&str>, set: &[&str], remove: &[&str]| MetadataChangeArgs {
            reference: reference.map(str::to_owned),
            unique: false,
            set: set.iter().map(|it| it.parse().unwrap()).collect(),
            remove: remove.iter().map(|&it| it.to_owned()).collect(),
        };
        assert_eq!(args(None, &[], &[]).change(), None);
        let change = args(Some(""), &["a=1"], &["b"]).change().unwrap();
        assert_eq!(change.reference, Some(None));
        let values = [("a", Some("1".to_owned())), ("b", None)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(change.metadata, Some(values.into_iter().collect()));
    }
}
