//! `qiang account`: shows accounts of a service, and puts money into them.

use std::process::ExitCode;

use qiang_client::{Account, Id, UserId};

use crate::service::{EXITS, Service, ServiceArgs, ask, money};

/// Show accounts of a service, and put money into them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct AccountArgs {
    #[command(subcommand)]
    command: AccountCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum AccountCommand {
    /// Show what a user has.
    #[command(after_help = "Example: qiang account show alice")]
    Show {
        /// The user.
        user: UserId,
    },
    /// Put money from outside into a user's account; prints the deposit's id. Each call is another deposit, unless it
    /// has the same --idempotency-key.
    #[command(
        after_help = "Example: qiang account deposit alice 100000 CNY --idempotency-key transfer-4711"
    )]
    Deposit {
        /// The user.
        user: UserId,
        /// How much, in minor units.
        amount: String,
        /// Of what, such as CNY.
        currency: String,
    },
    /// Take a deposit back, while the account has as much. Again changes nothing.
    Reverse {
        /// The user.
        user: UserId,
        /// The deposit's id.
        deposit: Id,
    },
    /// Take money out of an account, to be paid out. The same reference again changes nothing.
    #[command(
        after_help = "Example: qiang account withdraw alice 100000 CNY --reference payout-12"
    )]
    Withdraw {
        /// The user.
        user: UserId,
        /// How much, in minor units.
        amount: String,
        /// Of what, such as CNY.
        currency: String,
        /// The payment service's name for it.
        #[arg(long)]
        reference: String,
    },
}

pub(crate) fn run(args: &AccountArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &AccountCommand, service: &Service) -> anyhow::Result<()> {
    match command {
        AccountCommand::Show { user } => {
            let account = service.client.account(user).await?;
            service.print(&account, shown)
        }
        AccountCommand::Deposit {
            user,
            amount,
            currency,
        } => {
            let amount = money(&[amount.clone(), currency.clone()])?;
            let deposit = service.client.deposit(user, amount).await?;
            service.print(&deposit, |deposit| deposit.id.to_string())
        }
        AccountCommand::Reverse { user, deposit } => {
            let reversal = service.client.reverse_deposit(user, deposit).await?;
            service.print(&reversal, |reversal| {
                format!("{user}: {} taken back", reversal.amount)
            })
        }
        AccountCommand::Withdraw {
            user,
            amount,
            currency,
            reference,
        } => {
            let amount = money(&[amount.clone(), currency.clone()])?;
            let withdrawal = service.client.withdraw(user, reference, amount).await?;
            service.print(&withdrawal, |withdrawal| {
                format!("{user}: {} taken out", withdrawal.amount)
            })
        }
    }
}

fn shown(account: &Account) -> String {
    let mut text = format!("{}: ", account.user);
    if account.balances.is_empty() {
        text.push_str("nothing");
    }
    let balance = |balance: &qiang_client::Balance| match balance.refunds_due.amount {
        0 => balance.available.to_string(),
        due => format!("{}, and {due} owed back", balance.available),
    };
    let balances: Vec<_> = account.balances.iter().map(balance).collect();
    text.push_str(&balances.join("; "));
    if !account.settled {
        text.push_str(" (more is on its way: ask again)");
    }
    text
}
