//! Accounts and postings.

use super::{Value, columns};
use crate::{money::Currency, string_enum::string_enum, time::Timestamp};

/// Owner of the account for all money outside Qiang.
pub const OUTSIDE: &str = "outside";
/// Source of postings without a log entry.
pub const DIRECT: i64 = -1;

/// Purpose of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccountPurpose {
    /// Spendable money of a user. Returns may overdraw it, because a refund is due even if the seller spent the
    /// payment.
    User,
    /// Refunds due to a user.
    RefundsDue,
    /// Remaining money of a red packet.
    Escrow,
    /// Origin of deposits and payments. Its debt equals the sum of all other accounts.
    Outside,
}

string_enum!(AccountPurpose {
    User = "user",
    RefundsDue = "refunds_due",
    Escrow = "escrow",
    Outside = "outside",
});

impl AccountPurpose {
    /// Whether many concurrent transactions move such an account.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Escrow | Self::Outside)
    }
}

/// Key of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountKey<'a> {
    /// A user, a campaign's id for its escrow, or [`OUTSIDE`].
    pub owner: &'a str,
    /// Purpose of the account.
    pub purpose: AccountPurpose,
    /// Currency of the account.
    pub currency: Currency,
}

impl<'a> AccountKey<'a> {
    /// Creates the key of an account.
    pub fn new(owner: &'a str, purpose: AccountPurpose, currency: Currency) -> Self {
        Self {
            owner,
            purpose,
            currency,
        }
    }

    /// Columns `owner`, `purpose` and `currency`.
    pub fn columns(&self) -> (&'a str, &'static str, &'static str) {
        (self.owner, self.purpose.name(), self.currency.code())
    }
}

/// Movement of money: `amount`, always positive, from the account `debit` to the account `credit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingRow {
    /// Partition of the entry that it follows from, or [`DIRECT`].
    pub source: i64,
    /// Log position of the entry; for direct postings a number of their own sequence.
    pub seq: i64,
    /// `deposit`, `fund`, `grant`, `refund`, `residue`, `payment`, `refund_due`, `return`, `refund_paid`,
    /// `withdrawal`, `reversal`, `refund_reversal` or `transfer`.
    pub kind: &'static str,
    /// Account that is debited.
    pub debit: i64,
    /// Account that is credited.
    pub credit: i64,
    /// Minor units.
    pub amount: i64,
    /// `ref` of the campaign.
    pub campaign: Option<i64>,
    /// Number of the share or order.
    pub number: Option<i64>,
    /// Time, in milliseconds.
    pub at: i64,
}

impl PostingRow {
    /// Creates a posting without a log entry.
    pub fn direct(
        seq: i64,
        kind: &'static str,
        (debit, credit): (i64, i64),
        amount: i64,
        campaign: Option<i64>,
        at: Timestamp,
    ) -> Self {
        Self {
            source: DIRECT,
            seq,
            kind,
            debit,
            credit,
            amount,
            campaign,
            number: None,
            at: at.as_millis(),
        }
    }

    /// Columns `source`, `seq`, `kind`, `debit`, `credit`, `amount`, `campaign`, `number` and `at`.
    pub fn columns(&self) -> [Value<'static>; 9] {
        columns!(self; source, seq, kind, debit, credit, amount, campaign, number, at)
    }
}
