//! `qiang payment`: lists payments and refunds of a service.

use std::process::ExitCode;

use qiang_client::{Id, PaymentFilter, PaymentOutcome, PaymentRecord, Refund, UserId};

use crate::{
    amounts,
    history_filter::{MovementArgs, TimeArgs},
    service::{EXITS, Service, ServiceArgs, ask, or_dash},
};

/// List payments and refunds of a service.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct PaymentArgs {
    #[command(subcommand)]
    command: PaymentCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum PaymentCommand {
    /// List recorded payments, newest first.
    #[command(after_help = "Example: qiang payment list --outcome refund_due --json")]
    List {
        /// The buyer. Default: all that the token sees.
        user: Option<UserId>,
        /// Only payments with this outcome: paid, reinstated or refund_due.
        #[arg(long)]
        outcome: Option<PaymentOutcome>,
        /// Only payments with this reference of the payment service.
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        times: TimeArgs,
    },
    /// Show a payment by its reference.
    #[command(after_help = "Example: qiang payment show pay-77")]
    Show {
        /// The payment service's reference.
        reference: Id,
    },
    /// List refunds that were paid, newest first.
    #[command(after_help = "Example: qiang payment refunds --created-after 2026-11-21T00:00:00Z")]
    Refunds {
        #[command(flatten)]
        which: MovementArgs,
    },
}

const HEADING: &str = "decided                   outcome     amount        order";

pub(crate) fn run(args: &PaymentArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &PaymentCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    match command {
        PaymentCommand::List {
            user,
            outcome,
            reference,
            times,
        } => {
            let filter = PaymentFilter {
                user: user.clone(),
                outcome: *outcome,
                reference: reference.clone(),
                created_after: times.created_after,
                created_before: times.created_before,
            };
            let payments = client.list_payments(&filter);
            service.print_all(HEADING, payments, line).await
        }
        PaymentCommand::Show { reference } => {
            let payment = client.get_payment(reference).await?;
            service.print(&payment, line)
        }
        PaymentCommand::Refunds { which } => {
            let refunds = client.list_refunds(&which.filter());
            let heading = "posted                    amount        order";
            let line = |it: &Refund| {
                let amount = amounts::shown(&it.amount);
                format!(
                    "{}  {amount:<12}  {}  {}  {}",
                    it.created_at, it.order, it.user, it.reference
                )
            };
            service.print_all(heading, refunds, line).await
        }
    }
}

fn line(it: &PaymentRecord) -> String {
    let amount = or_dash(it.amount.as_ref().map(amounts::shown));
    let user = or_dash(it.user.as_ref().map(ToString::to_string));
    format!(
        "{}  {:<10}  {amount:<12}  {}  {user}  {}",
        it.created_at, it.outcome, it.order, it.reference
    )
}
