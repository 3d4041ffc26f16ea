//! Orders, postings, deposits and payments, as lists read them.

use super::{AccountPurpose, Contradiction};
use crate::{
    book::PaymentOutcome,
    id::{CampaignId, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    ports::{
        DepositRecord, GrantRecord, HistoryPage, Movement, MovementPlace, MovementQuery,
        OrderQuery, PaymentQuery, PaymentRecord, Posting, PostingKind, PostingPlace, PostingQuery,
        TimeRange, UserAccount, UserOrder,
    },
    time::Timestamp,
};

/// Columns: id, title and currency of the campaign; number, quantity, amount, state, granted_at, returned_in_parts,
/// cancelled_in_parts and user of the order.
pub type UserOrderColumns = (
    String,
    String,
    String,
    i64,
    i64,
    i64,
    String,
    i64,
    i64,
    i64,
    String,
);
/// Columns: source, seq, kind, amount and at of a posting; campaign id; number; reference.
pub type PostingColumns = (
    i64,
    i64,
    String,
    i64,
    i64,
    Option<String>,
    Option<i64>,
    Option<String>,
);
/// Columns: amount and at of a deposit's posting; owner and currency of its account; reference of the deposit.
pub type DepositColumns = (i64, i64, String, String, Option<String>);
/// Columns: id, owner and currency of the campaign; number and user of the order; outcome, amount, at and reference of
/// the payment.
pub type PaymentColumns = (
    String,
    String,
    String,
    i64,
    String,
    String,
    i64,
    i64,
    String,
);
/// Columns: at, seq and amount of a posting; owner and currency of the user's account; id of the deposit; reference of
/// the deposit or the payout; id of the campaign and number of the order; minor units of a refund that were reversed.
pub type MovementColumns = (
    i64,
    i64,
    i64,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
);
/// Columns: number of rows that a page may read, and the oldest time among them.
pub type OldestColumns = (i64, Option<i64>);

impl TimeRange {
    /// First instant of the range in milliseconds.
    #[must_use]
    pub fn from_millis(self) -> i64 {
        self.from.map_or(i64::MIN, Timestamp::as_millis)
    }

    /// First instant after the range in milliseconds.
    #[must_use]
    pub fn before_millis(self) -> i64 {
        self.before.map_or(i64::MAX, Timestamp::as_millis)
    }

    /// Start of a page of the range, if the page begins after a place: the time, and the place if it has that time.
    fn begins<T>(self, after: Option<(Timestamp, Option<T>)>) -> (i64, Option<T>) {
        let end = self.before_millis();
        match after {
            Some((at, place)) if at.as_millis() < end => (at.as_millis(), place),
            _ => (end, None),
        }
    }
}

/// Last instant of a page that begins so: the time of its place, or the one before.
fn last_instant<T>((at, place): (i64, Option<T>)) -> i64 {
    match place {
        Some(_) => at,
        None => at.saturating_sub(1),
    }
}

impl<T> HistoryPage<T> {
    /// The page of a query with a limit. It ended early if the query read only rows from an instant on, and found less
    /// than it asked for.
    #[must_use]
    pub fn new(items: Vec<T>, limit: u32, read_from: Option<i64>) -> Self {
        let is_short = items.len() < limit as usize;
        Self {
            items,
            read_from: read_from.filter(|_| is_short).map(Timestamp::from_millis),
        }
    }
}

/// Oldest instant that a page reads, if more than `reads_max` rows are left.
#[must_use]
pub fn read_from((rows, oldest): OldestColumns, reads_max: u32) -> Option<i64> {
    oldest.filter(|_| rows >= i64::from(reads_max))
}

impl OrderQuery {
    /// `LIKE` pattern of the state.
    #[must_use]
    pub fn state_pattern(&self) -> &'static str {
        self.state.map_or("%", OrderState::name)
    }

    /// Start of the page: the time, then the campaign id and the number among orders of that time. The page has smaller
    /// values.
    #[must_use]
    pub fn begins(&self) -> (i64, String, i64) {
        let after = self.after.map(|place| (place.at, place.order));
        let (at, order) = self.created.begins(after);
        let (campaign, number) = order.map_or((String::new(), 0), |order| {
            (order.campaign.to_string(), order.number.into())
        });
        (at, campaign, number)
    }

    /// Last instant of the page in milliseconds.
    #[must_use]
    pub fn ends(&self) -> i64 {
        let after = self.after.map(|place| (place.at, place.order));
        last_instant(self.created.begins(after))
    }

    /// Whether the page reads a bounded number of orders: the state may reject most of them.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.state.is_some() && self.user.is_none()
    }
}

impl PaymentQuery {
    /// `LIKE` pattern of the outcome.
    #[must_use]
    pub fn outcome_pattern(&self) -> &'static str {
        self.outcome.map_or("%", PaymentOutcome::name)
    }

    /// Start of the page: the time, then campaign id, number and reference among payments of that time. The page has
    /// smaller values.
    #[must_use]
    pub fn begins(&self) -> (i64, String, i64, String) {
        let after = self.after.clone().map(|place| (place.at, place.payment));
        let (at, payment) = self.created.begins(after);
        let Some((OrderId { campaign, number }, reference)) = payment else {
            return (at, String::new(), 0, String::new());
        };
        let (campaign, reference) = (campaign.to_string(), reference.to_string());
        (at, campaign, number.into(), reference)
    }

    /// Last instant of the page in milliseconds.
    #[must_use]
    pub fn ends(&self) -> i64 {
        let after = self.after.as_ref();
        let after = after.map(|place| (place.at, place.payment.as_ref()));
        last_instant(self.created.begins(after))
    }

    /// Whether the page reads a bounded number of payments: the outcome may reject most of them.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.outcome.is_some() && self.user.is_none() && self.reference.is_none()
    }

    /// The page, from all payments with the reference, newest first.
    #[must_use]
    pub fn named(&self, mut payments: Vec<PaymentRecord>) -> Vec<PaymentRecord> {
        let after = self.after.as_ref();
        // The order among payments of one time is that of the list: the first one is the place itself.
        let begins = after.and_then(|after| {
            let is_there = |it: &PaymentRecord| it.place() == *after;
            payments.iter().position(is_there).map(|place| place + 1)
        });
        payments.drain(..begins.unwrap_or(0));
        payments.retain(|it| {
            let is_older = || after.is_none_or(|after| it.at < after.at);
            (begins.is_some() || is_older())
                && self.created.contains(it.at)
                && self.user.as_ref().is_none_or(|user| *user == it.buyer)
                && self.outcome.is_none_or(|outcome| outcome == it.outcome)
        });
        payments.truncate(self.limit as usize);
        payments
    }
}

impl MovementQuery {
    /// Start of the page: the time, then the number among movements of that time. The page has smaller values.
    #[must_use]
    pub fn begins(&self) -> (i64, i64) {
        let after = self.after.map(|place| (place.at, Some(place.seq)));
        let (at, seq) = self.created.begins(after);
        (at, seq.unwrap_or(i64::MIN))
    }

    /// The page, from movements of several accounts, or from those with the reference.
    #[must_use]
    pub fn newest(&self, mut found: Vec<Movement>) -> Vec<Movement> {
        found.retain(|it| {
            self.created.contains(it.place.at)
                && self.after.is_none_or(|after| it.place < after)
                && self.user.as_ref().is_none_or(|user| *user == it.user)
        });
        found.sort_by_key(|movement| std::cmp::Reverse(movement.place));
        found.truncate(self.limit as usize);
        found
    }
}

impl PostingQuery {
    /// `LIKE` pattern of the kind.
    #[must_use]
    pub fn kind_pattern(&self) -> &'static str {
        self.kind.map_or("%", PostingKind::name)
    }

    /// Start of the page among credits or among debits: the time, then source and seq among postings of that time. The
    /// page has smaller values.
    #[must_use]
    pub fn begins(&self, comes: bool) -> (i64, i64, i64) {
        self.after.map_or((i64::MAX, 0, 0), |place| {
            // The debit of a posting follows its credit.
            let follows = place.comes && !comes;
            let seq = place.seq.saturating_add(follows.into());
            (place.at.as_millis(), place.source, seq)
        })
    }

    /// The page: the newest postings of several accounts.
    #[must_use]
    pub fn newest(&self, mut postings: Vec<Posting>) -> Vec<Posting> {
        postings.sort_by_key(|posting| std::cmp::Reverse(posting.place));
        postings.truncate(self.limit as usize);
        postings
    }
}

/// Converts a row to an order.
///
/// # Errors
/// If a column has an invalid value.
pub fn user_order_of(columns: UserOrderColumns) -> Result<UserOrder, Contradiction> {
    let (campaign, title, currency, number, quantity, amount, state, at, returned, cancelled, user) =
        columns;
    let bad =
        |what: &str| Contradiction::new(format!("order {campaign}-{number} has a bad {what}"));
    let quantity = quantity.try_into().map_err(|_| bad("quantity"))?;
    let state = OrderState::from_name(&state).ok_or_else(|| bad("state"))?;
    Ok(UserOrder {
        campaign: campaign.parse().map_err(|_| bad("campaign"))?,
        title,
        currency: currency.parse().map_err(|_| bad("currency"))?,
        grant: GrantRecord {
            number: number.try_into().map_err(|_| bad("number"))?,
            user: UserId::new(&user).map_err(|_| bad("user"))?,
            quantity,
            amount_minor: amount,
            granted_at: Timestamp::from_millis(at),
            state,
            returned: match state {
                OrderState::Returned => quantity,
                _ => u32::try_from(returned).map_err(|_| bad("number of returned units"))?,
            },
            cancelled: u32::try_from(cancelled).map_err(|_| bad("number of cancelled units"))?,
        },
    })
}

/// Account of a user, from the columns purpose and currency; `None` for another purpose.
#[must_use]
pub fn user_account_of(purpose: &str, currency: &str) -> Option<(UserAccount, Currency)> {
    let account = match AccountPurpose::from_name(purpose)? {
        AccountPurpose::User => UserAccount::Available,
        AccountPurpose::RefundsDue => UserAccount::RefundsDue,
        AccountPurpose::Escrow | AccountPurpose::Outside => return None,
    };
    Some((account, currency.parse().ok()?))
}

/// Converts a row to a credit or a debit of an account.
///
/// # Errors
/// If a column has an invalid value.
pub fn posting_of(
    (account, currency): (UserAccount, Currency),
    comes: bool,
    columns: PostingColumns,
) -> Result<Posting, Contradiction> {
    let (source, seq, kind, amount, at, campaign, number, reference) = columns;
    let bad =
        |what: &str| Contradiction::new(format!("posting {seq} of {source} has a bad {what}"));
    let campaign: Option<Result<CampaignId, _>> = campaign.map(|id| id.parse());
    let number = number.map(u32::try_from).transpose();
    Ok(Posting {
        place: PostingPlace {
            at: Timestamp::from_millis(at),
            source,
            seq,
            comes,
        },
        kind: PostingKind::from_name(&kind).ok_or_else(|| bad("kind"))?,
        account,
        amount: Money::new(if comes { amount } else { -amount }, currency),
        campaign: campaign.transpose().map_err(|_| bad("campaign"))?,
        number: number.map_err(|_| bad("number"))?,
        reference: reference.map(|reference| match PostingKind::from_name(&kind) {
            // The reference of a partial reversal has a key after the deposit id.
            Some(PostingKind::Reversal) => match reference.split_once('/') {
                Some((deposit, _)) => deposit.to_owned(),
                None => reference,
            },
            _ => reference,
        }),
    })
}

/// Converts a row to a deposit, of which `reversed_minor` minor units were reversed.
///
/// # Errors
/// If a column has an invalid value.
pub fn deposit_of(
    columns: DepositColumns,
    reversed_minor: i64,
) -> Result<DepositRecord, Contradiction> {
    let (amount, at, user, currency, reference) = columns;
    let bad = |what: &str| Contradiction::new(format!("a deposit has a bad {what}"));
    let currency = currency.parse().map_err(|_| bad("currency"))?;
    Ok(DepositRecord {
        user: UserId::new(&user).map_err(|_| bad("user"))?,
        amount: Money::new(amount, currency),
        at: Timestamp::from_millis(at),
        reference: reference_of(reference.as_deref()).map_err(|()| bad("reference"))?,
        reversed_minor,
    })
}

fn reference_of(text: Option<&str>) -> Result<Option<PaymentRef>, ()> {
    text.map(PaymentRef::new).transpose().map_err(|_| ())
}

/// Converts a row to a movement. The sum of a deposit's reversals is read apart.
///
/// # Errors
/// If a column has an invalid value.
pub fn movement_of(columns: MovementColumns) -> Result<Movement, Contradiction> {
    let (at, seq, amount, user, currency, deposit, reference, campaign, number, reversed) = columns;
    let bad = |what: &str| Contradiction::new(format!("posting {seq} of -1 has a bad {what}"));
    let currency = currency.parse().map_err(|_| bad("currency"))?;
    let at = Timestamp::from_millis(at);
    let order = campaign.zip(number).map(|(campaign, number)| {
        Ok(OrderId {
            campaign: campaign.parse().map_err(|_| bad("campaign"))?,
            number: number.try_into().map_err(|_| bad("number"))?,
        })
    });
    Ok(Movement {
        place: MovementPlace { at, seq },
        user: UserId::new(&user).map_err(|_| bad("user"))?,
        amount: Money::new(amount, currency),
        reference: reference_of(reference.as_deref()).map_err(|()| bad("reference"))?,
        deposit: match deposit {
            Some(id) => Some(id.parse().map_err(|_| bad("deposit"))?),
            None => None,
        },
        reversed_minor: reversed.unwrap_or(0),
        order: order.transpose()?,
    })
}

/// Converts a row to a payment.
///
/// # Errors
/// If a column has an invalid value.
pub fn payment_of(columns: PaymentColumns) -> Result<PaymentRecord, Contradiction> {
    let (campaign, seller, currency, number, buyer, outcome, amount, at, reference) = columns;
    let bad = |what: &str| {
        Contradiction::new(format!("a payment of {campaign}-{number} has a bad {what}"))
    };
    Ok(PaymentRecord {
        reference: PaymentRef::new(&reference).map_err(|_| bad("reference"))?,
        order: OrderId {
            campaign: campaign.parse().map_err(|_| bad("campaign"))?,
            number: number.try_into().map_err(|_| bad("number"))?,
        },
        buyer: UserId::new(&buyer).map_err(|_| bad("buyer"))?,
        seller: UserId::new(&seller).map_err(|_| bad("seller"))?,
        outcome: PaymentOutcome::from_name(&outcome).ok_or_else(|| bad("outcome"))?,
        amount: Money::new(amount, currency.parse().map_err(|_| bad("currency"))?),
        at: Timestamp::from_millis(at),
    })
}
