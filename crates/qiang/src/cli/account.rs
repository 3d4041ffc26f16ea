//! `qiang account`: shows accounts of a service, and posts deposits and withdrawals.

use std::process::ExitCode;

use qiang_client::{Account, Claim, Deposit, Id, Posting, PostingKind, UserId, Withdrawal};

use crate::{
    amounts,
    history_filter::MovementArgs,
    service::{EXITS, Service, ServiceArgs, ask, or_dash},
};

/// Show accounts of a service, and post deposits and withdrawals.
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
    /// Show the balances of a user.
    #[command(after_help = "Example: qiang account show alice")]
    Show {
        /// The user.
        user: UserId,
    },
    /// List the settled postings of a user's accounts, newest first.
    #[command(after_help = "Example: qiang account postings alice --kind grant")]
    Postings {
        /// The user.
        user: UserId,
        /// Only postings of this kind, such as deposit, grant, payment or withdrawal.
        #[arg(long)]
        kind: Option<PostingKind>,
    },
    /// List the settled red packet shares of a user, newest first.
    #[command(after_help = "Example: qiang account claims alice --json")]
    Claims {
        /// The user.
        user: UserId,
    },
    /// List deposits, newest first.
    #[command(after_help = "Example: qiang account deposits --created-after 2026-11-21T00:00:00Z")]
    Deposits {
        #[command(flatten)]
        which: MovementArgs,
    },
    /// List withdrawals, newest first.
    #[command(after_help = "Example: qiang account withdrawals alice --json")]
    Withdrawals {
        #[command(flatten)]
        which: MovementArgs,
    },
    /// Show a deposit and its reversals.
    #[command(
        after_help = "Example: qiang account show-deposit alice 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"
    )]
    ShowDeposit {
        /// The user.
        user: UserId,
        /// The deposit's id.
        deposit: Id,
    },
    /// Deposit money into a user's account, and print the deposit's id. A repeated reference changes nothing.
    #[command(
        after_help = "Example: qiang account deposit alice 1000.00 CNY --reference transfer-4711"
    )]
    Deposit {
        /// The user.
        user: UserId,
        /// The amount, with the currency's decimals.
        amount: String,
        /// The currency, such as CNY.
        currency: String,
        /// The payment service's reference of the deposit, kept for good.
        #[arg(long)]
        reference: String,
    },
    /// Reverse the rest of a deposit, or an amount of it, if the balance suffices. Without an amount, the command is
    /// idempotent. With an amount, each call reverses that much more, unless it repeats the --idempotency-key.
    #[command(
        after_help = "Example: qiang account reverse alice 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 10.00 CNY"
    )]
    Reverse {
        /// The user.
        user: UserId,
        /// The deposit's id.
        deposit: Id,
        /// The amount to reverse, with the currency's decimals. Default: the rest of the deposit.
        #[arg(requires = "currency")]
        amount: Option<String>,
        /// The currency, such as CNY.
        currency: Option<String>,
    },
    /// Move available money from a user's account to another user's. A repeated reference changes nothing.
    #[command(
        after_help = "Example: qiang account transfer alice 1000.00 CNY --to bob --reference left-7"
    )]
    Transfer {
        /// The user who has the money.
        user: UserId,
        /// The amount, with the currency's decimals.
        amount: String,
        /// The currency, such as CNY.
        currency: String,
        /// The user who gets the money.
        #[arg(long, value_name = "USER")]
        to: UserId,
        /// Your reference of the transfer.
        #[arg(long)]
        reference: String,
    },
    /// Withdraw money from an account, for a payout. A repeated reference changes nothing.
    #[command(
        after_help = "Example: qiang account withdraw alice 1000.00 CNY --reference payout-12"
    )]
    Withdraw {
        /// The user.
        user: UserId,
        /// The amount, with the currency's decimals.
        amount: String,
        /// The currency, such as CNY.
        currency: String,
        /// The payment service's reference.
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
        AccountCommand::Postings { user, kind } => {
            let postings = service.client.postings_of(user, *kind);
            let heading = "at                        kind         account      amount        for";
            let line = |it: &Posting| {
                let about = it.order.as_ref().map(ToString::to_string);
                let about = about.or_else(|| it.campaign.as_ref().map(ToString::to_string));
                format!(
                    "{}  {:<11}  {:<11}  {:<12}  {}",
                    it.at,
                    it.kind,
                    it.account,
                    amounts::shown(&it.amount),
                    or_dash(about.or_else(|| it.reference.clone()))
                )
            };
            service.print_all(heading, postings, line).await
        }
        AccountCommand::Claims { user } => {
            let claims = service.client.claims_of(user);
            let line = |it: &Claim| {
                let amount = amounts::shown(&it.amount);
                format!("{}  {amount:<12}  {}", it.created_at, it.campaign)
            };
            service
                .print_all(
                    "granted                   share         packet",
                    claims,
                    line,
                )
                .await
        }
        AccountCommand::Deposits { which } => {
            let deposits = service.client.list_deposits(&which.filter());
            let heading = "made                      amount        reversed      user";
            let line = |it: &Deposit| {
                format!(
                    "{}  {:<12}  {:<12}  {}  {}  {}",
                    it.created_at,
                    amounts::shown(&it.amount),
                    amounts::shown(&it.reversed_amount),
                    it.user,
                    it.id,
                    or_dash(it.reference.clone())
                )
            };
            service.print_all(heading, deposits, line).await
        }
        AccountCommand::Withdrawals { which } => {
            let withdrawals = service.client.list_withdrawals(&which.filter());
            let heading = "posted                    amount        user";
            let line = |it: &Withdrawal| {
                let amount = amounts::shown(&it.amount);
                let (at, user) = (&it.created_at, &it.user);
                format!("{at}  {amount:<12}  {user}  {}", it.reference)
            };
            service.print_all(heading, withdrawals, line).await
        }
        AccountCommand::ShowDeposit { user, deposit } => {
            let deposit = service.client.get_deposit(user, deposit).await?;
            service.print(&deposit, |it| {
                let back = match it.reversed_amount.amount {
                    0 => String::new(),
                    _ if it.reversed => ", reversed".to_owned(),
                    _ => format!(", {} of it reversed", amounts::shown(&it.reversed_amount)),
                };
                format!(
                    "{}: {} at {}{back}",
                    it.user,
                    amounts::shown(&it.amount),
                    it.created_at
                )
            })
        }
        AccountCommand::Deposit {
            user,
            amount,
            currency,
            reference,
        } => {
            let amount = amounts::money(&[amount.clone(), currency.clone()])?;
            let deposit = service.client.deposit(user, reference, amount).await?;
            service.print(&deposit, |deposit| deposit.id.to_string())
        }
        AccountCommand::Reverse {
            user,
            deposit,
            amount,
            currency,
        } => {
            let reversal = match amount.clone().zip(currency.clone()) {
                Some((amount, currency)) => {
                    let amount = amounts::money(&[amount, currency])?;
                    let client = &service.client;
                    client
                        .reverse_part_of_deposit(user, deposit, amount)
                        .await?
                }
                None => service.client.reverse_deposit(user, deposit).await?,
            };
            service.print(&reversal, |reversal| {
                format!("{user}: {} reversed", amounts::shown(&reversal.amount))
            })
        }
        AccountCommand::Transfer {
            user,
            amount,
            currency,
            to,
            reference,
        } => {
            let amount = amounts::money(&[amount.clone(), currency.clone()])?;
            let client = &service.client;
            let transfer = client.transfer(user, to, reference, amount).await?;
            service.print(&transfer, |transfer| {
                let amount = amounts::shown(&transfer.amount);
                format!("{amount} moved from {user} to {to}")
            })
        }
        AccountCommand::Withdraw {
            user,
            amount,
            currency,
            reference,
        } => {
            let amount = amounts::money(&[amount.clone(), currency.clone()])?;
            let withdrawal = service.client.withdraw(user, reference, amount).await?;
            service.print(&withdrawal, |withdrawal| {
                format!("{user}: {} withdrawn", amounts::shown(&withdrawal.amount))
            })
        }
    }
}

fn shown(account: &Account) -> String {
    let mut text = format!("{}: ", account.user);
    if account.balances.is_empty() {
        text.push_str("nothing");
    }
    let balance = |balance: &qiang_client::Balance| {
        let (has, due) = (&balance.available, &balance.refunds_due);
        match due.amount {
            0 => amounts::shown(has),
            _ => format!(
                "{}, and refunds due {}",
                amounts::shown(has),
                amounts::shown(due)
            ),
        }
    };
    let balances: Vec<_> = account.balances.iter().map(balance).collect();
    text.push_str(&balances.join("; "));
    if !account.settled {
        text.push_str(" (not settled yet: repeat the command)");
    }
    text
}
