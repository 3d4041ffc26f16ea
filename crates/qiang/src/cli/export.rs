//! `qiang export`: campaigns, orders, money and accounts of a service as CSV or JSON lines.

mod rows;

use std::{collections::BTreeSet, io::Write, process::ExitCode};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use qiang_client::{
    Client, Error, Listing, MovementFilter, OrderFilter, PaymentFilter, Phase, RedPacket, UserId,
};
use serde::Serialize;

use self::rows::{
    ExportedAccount, ExportedClaim, ExportedDeposit, ExportedMovement, ExportedOrder,
    ExportedPayment, ExportedRedPacket, ExportedSale,
};
use crate::{
    history_filter::TimeArgs,
    service::{EXITS, Service, ServiceArgs, ask},
};

/// Requests in flight for single accounts.
const IN_FLIGHT: usize = 8;
/// Campaigns per page.
const PAGE: u32 = 100;

/// Export campaigns, orders, money and accounts to standard output: CSV with a header, or JSON lines with --json.
///
/// Orders, claims and money are settled ones. Amounts are decimals, with their currency in a column of its own. `qiang
/// import` reads sales and accounts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    command: ExportCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ExportCommand {
    /// Export sales with their numbers, archived ones too.
    #[command(after_help = "Example: qiang export sales --phase scheduled > sales.csv")]
    Sales {
        /// Only sales in this phase: draft, scheduled, live, paused, ended or closed.
        #[arg(long)]
        phase: Option<Phase>,
        #[command(flatten)]
        times: TimeArgs,
    },
    /// Export red packets with their numbers, archived ones too.
    #[command(after_help = "Example: qiang export red-packets > packets.csv")]
    RedPackets(TimeArgs),
    /// Export shares of red packets.
    #[command(after_help = "Example: qiang export claims --json > claims.jsonl")]
    Claims(TimeArgs),
    /// Export orders, newest first.
    #[command(
        after_help = "Example: qiang export orders --created-after 2026-11-21T00:00:00Z > orders.csv"
    )]
    Orders(TimeArgs),
    /// Export payments, newest first.
    #[command(after_help = "Example: qiang export payments > payments.csv")]
    Payments(TimeArgs),
    /// Export deposits, newest first.
    #[command(after_help = "Example: qiang export deposits > deposits.csv")]
    Deposits(TimeArgs),
    /// Export withdrawals, newest first.
    #[command(after_help = "Example: qiang export withdrawals > withdrawals.csv")]
    Withdrawals(TimeArgs),
    /// Export paid refunds, newest first.
    #[command(after_help = "Example: qiang export refunds > refunds.csv")]
    Refunds(TimeArgs),
    /// Export balances of all users with a deposit, a red packet, a share or an order.
    #[command(after_help = "Example: qiang export accounts > accounts.csv")]
    Accounts,
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        let out = std::io::stdout().lock();
        let mut out = RowWriter::new(out, args.service.is_json());
        write(&args.command, service, &mut out).await?;
        out.finish()
    })
}

/// Writer of rows in one of the two formats.
struct RowWriter<W: Write> {
    csv: Option<csv::Writer<W>>,
    json: Option<W>,
}

impl<W: Write> RowWriter<W> {
    fn new(out: W, json: bool) -> Self {
        match json {
            true => Self {
                csv: None,
                json: Some(out),
            },
            false => Self {
                csv: Some(csv::Writer::from_writer(out)),
                json: None,
            },
        }
    }

    fn add(&mut self, row: &impl Serialize) -> anyhow::Result<()> {
        if let Some(csv) = &mut self.csv {
            csv.serialize(row)?;
        }
        if let Some(json) = &mut self.json {
            writeln!(json, "{}", serde_json::to_string(row)?)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(csv) = &mut self.csv {
            csv.flush()?;
        }
        Ok(())
    }
}

/// Writes a row for each item.
async fn write_all<T, R: Serialize, W: Write>(
    items: impl Stream<Item = Result<T, Error>>,
    row: impl Fn(T) -> anyhow::Result<R>,
    out: &mut RowWriter<W>,
) -> anyhow::Result<()> {
    let mut items = std::pin::pin!(items);
    while let Some(item) = items.try_next().await? {
        out.add(&row(item)?)?;
    }
    Ok(())
}

async fn write<W: Write>(
    command: &ExportCommand,
    service: &Service,
    out: &mut RowWriter<W>,
) -> anyhow::Result<()> {
    let client = &service.client;
    match command {
        ExportCommand::Sales { phase, times } => {
            let listing = Listing {
                phase: *phase,
                ..all_campaigns(times)
            };
            write_all(client.sales(&listing), ExportedSale::new, out).await
        }
        ExportCommand::RedPackets(times) => {
            let listed = client.red_packets(&all_campaigns(times));
            write_all(whole(listed, client), ExportedRedPacket::new, out).await
        }
        ExportCommand::Claims(times) => {
            let mut packets = std::pin::pin!(client.red_packets(&all_campaigns(times)));
            while let Some(packet) = packets.try_next().await? {
                let claims = client.shares(&packet.id);
                write_all(claims, ExportedClaim::new, out).await?;
            }
            Ok(())
        }
        ExportCommand::Orders(times) => {
            let orders = client.list_orders(&OrderFilter {
                created_after: times.created_after,
                created_before: times.created_before,
                ..OrderFilter::default()
            });
            write_all(orders, ExportedOrder::new, out).await
        }
        ExportCommand::Payments(times) => {
            let payments = client.list_payments(&PaymentFilter {
                created_after: times.created_after,
                created_before: times.created_before,
                ..PaymentFilter::default()
            });
            write_all(payments, ExportedPayment::new, out).await
        }
        ExportCommand::Deposits(times) => {
            write_all(
                client.list_deposits(&movements(times)),
                ExportedDeposit::new,
                out,
            )
            .await
        }
        ExportCommand::Withdrawals(times) => {
            let withdrawals = client.list_withdrawals(&movements(times));
            write_all(withdrawals, ExportedMovement::from_withdrawal, out).await
        }
        ExportCommand::Refunds(times) => {
            let refunds = client.list_refunds(&movements(times));
            write_all(refunds, ExportedMovement::from_refund, out).await
        }
        ExportCommand::Accounts => write_accounts(client, out).await,
    }
}

fn all_campaigns(times: &TimeArgs) -> Listing {
    Listing {
        all: true,
        archived: true,
        created_after: times.created_after,
        created_before: times.created_before,
        page_size: Some(PAGE),
        ..Listing::default()
    }
}

fn movements(times: &TimeArgs) -> MovementFilter {
    MovementFilter {
        created_after: times.created_after,
        created_before: times.created_before,
        ..MovementFilter::default()
    }
}

/// Red packets of a list with their money, which lists do not have.
fn whole(
    listed: impl Stream<Item = Result<qiang_client::ListedRedPacket, Error>>,
    client: &Client,
) -> impl Stream<Item = Result<RedPacket, Error>> {
    listed
        .map_ok(move |packet| async move { client.red_packet(&packet.id).await })
        .try_buffered(IN_FLIGHT)
}

/// Writes one row per user and currency, by user.
async fn write_accounts<W: Write>(client: &Client, out: &mut RowWriter<W>) -> anyhow::Result<()> {
    let users = users(client).await?;
    let accounts = stream::iter(users).map(|user| async move { client.account(&user).await });
    let mut accounts = accounts.buffered(IN_FLIGHT);
    while let Some(account) = accounts.try_next().await? {
        for balance in &account.balances {
            out.add(&ExportedAccount::new(&account, balance)?)?;
        }
    }
    Ok(())
}

/// All users that may have an account: no list of the API has accounts.
async fn users(client: &Client) -> anyhow::Result<BTreeSet<UserId>> {
    let mut users = BTreeSet::new();
    let everything = MovementFilter::default();
    let mut deposits = std::pin::pin!(client.list_deposits(&everything));
    while let Some(deposit) = deposits.try_next().await? {
        users.insert(deposit.user);
    }
    let every_order = OrderFilter::default();
    let mut orders = std::pin::pin!(client.list_orders(&every_order));
    while let Some(order) = orders.try_next().await? {
        users.insert(order.user);
    }
    let listing = Listing {
        all: true,
        archived: true,
        page_size: Some(PAGE),
        ..Listing::default()
    };
    let mut packets = std::pin::pin!(client.red_packets(&listing));
    while let Some(packet) = packets.try_next().await? {
        users.insert(packet.sender);
        let mut claims = std::pin::pin!(client.shares(&packet.id));
        while let Some(claim) = claims.try_next().await? {
            users.insert(claim.user);
        }
    }
    Ok(users)
}
