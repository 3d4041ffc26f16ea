//! `qiang order`: shows and changes orders of a service.

use std::process::ExitCode;

use qiang_client::{
    CampaignId, HeldOrders, Id, IdempotencyKey, Money, NewPayment, Order, OrderFilter, OrderId,
    OrderState, Timestamp, UserId,
};

use crate::{
    amounts,
    history_filter::TimeArgs,
    service::{EXITS, Service, ServiceArgs, ask, or_dash, plain},
};

/// Orders that one request of `cancel-held` cancels, which is the service's maximum.
const CANCELLED_MAX: u32 = 500;

/// Show and change orders of a service.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct OrderArgs {
    #[command(subcommand)]
    command: OrderCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum OrderCommand {
    /// Show an order.
    #[command(after_help = "Example: qiang order show 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3")]
    Show {
        /// The order's id.
        order: OrderId,
    },
    /// List settled orders, newest first.
    #[command(after_help = "Example: qiang order list alice --state held")]
    List {
        /// The buyer. Default: all that the token sees.
        user: Option<UserId>,
        /// Only orders of this sale.
        #[arg(long, value_name = "ID")]
        sale: Option<CampaignId>,
        /// Only orders in this state: held, paid, cancelled, expired or returned.
        #[arg(long)]
        state: Option<OrderState>,
        /// Only orders with this number of the shop in their metadata. Excludes all other filters.
        #[arg(long)]
        reference: Option<String>,
        #[command(flatten)]
        times: TimeArgs,
    },
    /// List the settled orders of a sale by number.
    #[command(after_help = "Example: qiang order of 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --json")]
    Of {
        /// The sale's id.
        sale: CampaignId,
    },
    /// Show the result of a payment.
    #[command(after_help = "Example: qiang order payment pay-77")]
    Payment {
        /// The payment service's reference.
        reference: Id,
    },
    /// Record a received payment. A repeated reference changes nothing.
    #[command(
        after_help = "Example: qiang order pay 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --reference pay-77 \
        --amount 999.00 CNY"
    )]
    Pay {
        /// The order's id.
        order: OrderId,
        /// The payment service's reference.
        #[arg(long)]
        reference: String,
        /// Amount with its currency's decimals, and currency. The order's price, and each amount that the sale accepts,
        /// pay the order. Any other amount becomes a refund due.
        #[arg(long, num_args = 2, required = true, value_names = ["AMOUNT", "CURRENCY"])]
        amount: Vec<String>,
        /// Time of the payment (RFC 3339). Default: now. A payment within the hold pays the order.
        #[arg(long, value_name = "TIME")]
        paid_at: Option<Timestamp>,
        /// The paying user. The payment is refused if the order is another user's.
        #[arg(long)]
        user: Option<UserId>,
    },
    /// Show refunds due to the buyer, and refunds made.
    #[command(after_help = "Example: qiang order refunds 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3")]
    Refunds {
        /// The order's id.
        order: OrderId,
    },
    /// List orders of your own sales with a refund due.
    #[command(after_help = "Example: qiang order owed --all")]
    Owed {
        /// List orders of this seller's sales.
        #[arg(long, value_name = "SELLER")]
        owner: Option<UserId>,
        /// List orders of all sales.
        #[arg(long, conflicts_with = "owner")]
        all: bool,
    },
    /// Record a refund that was made. A repeated reference changes nothing.
    #[command(
        after_help = "Example: qiang order refund 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --reference back-5 \
        --amount 999.00 CNY"
    )]
    Refund {
        /// The order's id.
        order: OrderId,
        /// The payment service's reference.
        #[arg(long)]
        reference: String,
        /// The refund, with its currency's decimals and the currency.
        #[arg(long, num_args = 2, required = true, value_names = ["AMOUNT", "CURRENCY"])]
        amount: Vec<String>,
    },
    /// Reverse a recorded refund, so that its money is due again. Idempotent.
    #[command(
        after_help = "Example: qiang order reverse-refund 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --reference back-5"
    )]
    ReverseRefund {
        /// The order's id.
        order: OrderId,
        /// The payment service's reference of the refund.
        #[arg(long)]
        reference: Id,
    },
    /// Extend the hold of a held order, once, by at most the hold of its sale. Idempotent.
    #[command(
        after_help = "Example: qiang order extend-hold 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --seconds 600"
    )]
    ExtendHold {
        /// The order's id.
        order: OrderId,
        /// Seconds after the present end of the hold.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Cancel units of a held order and restock them. Without a quantity, cancel the order; this is idempotent. With a
    /// quantity, each call cancels that many more, unless it repeats the --idempotency-key.
    #[command(
        after_help = "Example: qiang order cancel 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --quantity 1 \
        --idempotency-key cancel-4711"
    )]
    Cancel {
        /// The order's id.
        order: OrderId,
        /// Number of units. Default: all units.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        quantity: Option<u32>,
    },
    /// Cancel the held orders of a sale, and restock their units. After an error, repeat the command: cancelled orders
    /// do not change.
    #[command(
        after_help = "Example: qiang order cancel-held 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --user alice"
    )]
    CancelHeld {
        /// The sale's id.
        sale: CampaignId,
        /// Only orders of this buyer.
        #[arg(long)]
        user: Option<UserId>,
        #[command(flatten)]
        times: TimeArgs,
    },
    /// Return units of a paid order: restock them and record a refund due. Without a quantity, return all remaining
    /// units; this is idempotent. With a quantity, each call returns that many more, unless it repeats the
    /// --idempotency-key.
    #[command(
        after_help = "Example: qiang order return 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3 --quantity 1 \
        --idempotency-key return-4711"
    )]
    Return {
        /// The order's id.
        order: OrderId,
        /// Number of units. Default: all remaining units.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        quantity: Option<u32>,
    },
}

pub(crate) fn run(args: &OrderArgs) -> anyhow::Result<ExitCode> {
    ask(&args.service, async |service| {
        carry_out(&args.command, service).await
    })
}

async fn carry_out(command: &OrderCommand, service: &Service) -> anyhow::Result<()> {
    let client = &service.client;
    let order = match command {
        OrderCommand::Show { order } => client.get_order(order).await?,
        OrderCommand::List {
            user,
            sale,
            state,
            reference,
            times,
        } => {
            let filter = OrderFilter {
                campaign: sale.clone(),
                user: user.clone(),
                reference: reference.clone(),
                state: *state,
                created_after: times.created_after,
                created_before: times.created_before,
            };
            let orders = client.list_orders(&filter);
            let heading = "granted                   state     units  price         order";
            let line = |it: &Order| {
                let buyer = match user {
                    Some(_) => String::new(),
                    None => format!("  {}", it.user),
                };
                format!(
                    "{}  {:<9} {:>5}  {:<12}  {}{buyer}  {}",
                    it.created_at,
                    it.state,
                    it.quantity,
                    amounts::shown(&it.amount),
                    it.id,
                    plain(it.title.as_deref().unwrap_or_default())
                )
            };
            return service.print_all(heading, orders, line).await;
        }
        OrderCommand::Of { sale } => {
            let orders = client.orders_of_sale(sale);
            let heading = "granted                   state     units  price         order";
            let line = |it: &Order| {
                format!(
                    "{}  {:<9} {:>5}  {:<12}  {}  {}",
                    it.created_at,
                    it.state,
                    it.quantity,
                    amounts::shown(&it.amount),
                    it.id,
                    it.user
                )
            };
            return service.print_all(heading, orders, line).await;
        }
        OrderCommand::Payment { reference } => {
            let payment = client.get_payment(reference).await?;
            return service.print(&payment, |it| {
                let amount = it.amount.as_ref().map(amounts::shown);
                let amount = amount.unwrap_or_else(|| "an unreadable amount".to_owned());
                let end = match (&it.user, &it.problem) {
                    (Some(user), _) => format!("for {user}"),
                    (None, problem) => format!("({})", problem.as_deref().unwrap_or_default()),
                };
                format!("{}: {} of {amount} {end}", it.order, it.outcome)
            });
        }
        OrderCommand::Pay {
            order,
            reference,
            amount,
            paid_at,
            user,
        } => {
            let mut payment = NewPayment::with_defaults(reference.clone(), amounts::money(amount)?);
            payment.paid_at.clone_from(paid_at);
            payment.user.clone_from(user);
            let paid = client.pay_order(order, &payment).await?;
            return service.print(&paid, |paid| {
                format!("{}\npayment  {}", shown(&paid.order), paid.outcome)
            });
        }
        OrderCommand::Refunds { order } => {
            let refunds = client.refunds(order).await?;
            return service.print(&refunds, |refunds| {
                let sum = |due: &Money, refunded: &Money| {
                    let (due, refunded) = (amounts::shown(due), amounts::shown(refunded));
                    format!("{due} due in all, {refunded} of it refunded")
                };
                let own = sum(&refunds.due, &refunds.refunded);
                let others = refunds.other_currencies.iter();
                let others = others.map(|it| format!("; {}", sum(&it.due, &it.refunded)));
                let sums = [own].into_iter().chain(others).collect::<String>();
                let late = if refunds.settled {
                    ""
                } else {
                    " (not settled yet: repeat the command)"
                };
                format!("{order}: {sums}{late}")
            });
        }
        OrderCommand::Owed { owner, all } => {
            let orders = client.owed_orders(owner.as_ref(), *all);
            let heading = "owed          of all        order";
            let line = |it: &qiang_client::OwedOrder| {
                let (left, due) = (amounts::shown(&it.outstanding), amounts::shown(&it.due));
                format!("{left:<12}  {due:<12}  {}  {}", it.order, it.user)
            };
            return service.print_all(heading, orders, line).await;
        }
        OrderCommand::Refund {
            order,
            reference,
            amount,
        } => {
            let refund = NewPayment::with_defaults(reference.clone(), amounts::money(amount)?);
            let refund = client.refund_order(order, &refund).await?;
            return service.print(&refund, |refund| {
                format!("{order}: {} refunded", amounts::shown(&refund.amount))
            });
        }
        OrderCommand::ReverseRefund { order, reference } => {
            let reversed = client.reverse_refund(order, reference).await?;
            return service.print(&reversed, |reversed| {
                format!("{order}: {} due again", amounts::shown(&reversed.amount))
            });
        }
        OrderCommand::ExtendHold { order, seconds } => client.extend_hold(order, *seconds).await?,
        OrderCommand::Cancel { order, quantity } => match quantity {
            Some(quantity) => client.cancel_units(order, *quantity).await?,
            None => client.cancel_order(order).await?,
        },
        OrderCommand::CancelHeld { sale, user, times } => {
            let held = HeldOrders {
                user: user.clone(),
                created_after: times.created_after,
                created_before: times.created_before,
                limit: Some(CANCELLED_MAX),
                ..HeldOrders::with_defaults()
            };
            return cancel_held(service, sale, held).await;
        }
        OrderCommand::Return { order, quantity } => match quantity {
            Some(quantity) => client.return_units(order, *quantity).await?,
            None => client.return_order(order).await?,
        },
    };
    service.print(&order, shown)
}

/// Cancels held orders of a sale in parts, and prints the sums of the parts.
async fn cancel_held(
    service: &Service,
    sale: &CampaignId,
    mut held: HeldOrders,
) -> anyhow::Result<()> {
    let mut sum = service.client.cancel_orders(sale, &held).await?;
    while let Some(next) = sum.next.take() {
        held.after = Some(next);
        let key = IdempotencyKey::random();
        let client = service.client.with_key(key);
        let part = client.cancel_orders(sale, &held);
        let part = part.await.map_err(|error| {
            let cancelled = sum.cancelled;
            anyhow::anyhow!(
                "{error}; before, {cancelled} orders were cancelled: repeat the command"
            )
        })?;
        sum.matched += part.matched;
        sum.cancelled += part.cancelled;
        sum.unchanged += part.unchanged;
        sum.refusals.paid += part.refusals.paid;
        sum.refusals.expired += part.refusals.expired;
        sum.refusals.returned += part.refusals.returned;
        sum.refusals.unknown += part.refusals.unknown;
        sum.settled &= part.settled;
        sum.next = part.next;
    }
    service.print(&sum, |sum| {
        let (cancelled, refusals) = (sum.cancelled, &sum.refusals);
        let paid = refusals.paid + refusals.returned;
        let late = match sum.settled {
            true => "",
            false => " (the newest may be missing: repeat the command)",
        };
        let unknown = match refusals.unknown {
            0 => String::new(),
            unknown => format!(", {unknown} unknown to the engine (run `qiang reconcile`)"),
        };
        let expired = refusals.expired;
        format!("{sale}: {cancelled} cancelled, {paid} paid before, {expired} expired before{unknown}{late}")
    })
}

fn shown(order: &Order) -> String {
    let returned = match order.returned_quantity {
        0 => String::new(),
        units => format!(", {units} returned"),
    };
    let cancelled = match order.cancelled_quantity {
        0 => String::new(),
        units => format!(", {units} cancelled"),
    };
    let extended = match order.hold_extension_seconds {
        Some(seconds) => format!(" ({seconds} s longer)"),
        None => String::new(),
    };
    format!(
        "{}: {}\nbuyer    {}\nunits    {} for {}{returned}{cancelled}\ngranted  {}, hold until {}{extended}\nrefunds  \
         {} due",
        order.id,
        order.state,
        order.user,
        order.quantity,
        amounts::shown(&order.amount),
        order.created_at,
        or_dash(order.hold_until),
        order.refundable_payments.unwrap_or_default()
    )
}
