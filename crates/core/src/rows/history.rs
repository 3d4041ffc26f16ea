//! Orders, postings, deposits and payments, as users' lists read them.

use super::{AccountPurpose, Contradiction};
use crate::{
    book::PaymentOutcome,
    id::{CampaignId, OrderId, UserId},
    money::{Currency, Money},
    order::OrderState,
    ports::{
        DepositRecord, GrantRecord, OrderQuery, PaymentRecord, Posting, PostingKind, PostingPlace,
        PostingQuery, UserAccount, UserOrder,
    },
    time::Timestamp,
};

/// Columns: id, title and currency of the campaign; number, quantity, amount, state, granted_at, returned_in_parts
/// and cancelled_in_parts of the order.
pub type UserOrderColumns = (String, String, String, i64, i64, i64, String, i64, i64, i64);
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
/// Columns: amount and at of a deposit's posting; owner and currency of its account.
pub type DepositColumns = (i64, i64, String, String);
/// Columns: id, owner and currency of the campaign; number and user of the order; outcome, amount and at of the
/// payment.
pub type PaymentColumns = (String, String, String, i64, String, String, i64, i64);

impl OrderQuery {
    /// `LIKE` pattern of the state.
    #[must_use]
    pub fn state_pattern(&self) -> &'static str {
        self.state.map_or("%", OrderState::name)
    }

    /// Start of the page: the time, then the campaign id and the number among orders of that time.
    #[must_use]
    pub fn begins(&self) -> (i64, String, i64) {
        self.after.map_or((i64::MAX, String::new(), 0), |place| {
            let OrderId { campaign, number } = place.order;
            (place.at.as_millis(), campaign.to_string(), number.into())
        })
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

/// Converts a row to an order of a user.
///
/// # Errors
/// If a column has an invalid value.
pub fn user_order_of(user: &UserId, columns: UserOrderColumns) -> Result<UserOrder, Contradiction> {
    let (campaign, title, currency, number, quantity, amount, state, at, returned, cancelled) =
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
            user: user.clone(),
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
    let (amount, at, user, currency) = columns;
    let bad = |what: &str| Contradiction::new(format!("a deposit has a bad {what}"));
    let currency = currency.parse().map_err(|_| bad("currency"))?;
    Ok(DepositRecord {
        user: UserId::new(&user).map_err(|_| bad("user"))?,
        amount: Money::new(amount, currency),
        at: Timestamp::from_millis(at),
        reversed_minor,
    })
}

/// Converts a row to a payment.
///
/// # Errors
/// If a column has an invalid value.
pub fn payment_of(columns: PaymentColumns) -> Result<PaymentRecord, Contradiction> {
    let (campaign, seller, currency, number, buyer, outcome, amount, at) = columns;
    let bad = |what: &str| {
        Contradiction::new(format!("a payment of {campaign}-{number} has a bad {what}"))
    };
    Ok(PaymentRecord {
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
