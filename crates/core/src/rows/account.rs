//! Accounts and postings.

use super::{Value, columns};
use crate::{money::Currency, time::Timestamp, words::words};

/// The owner of the account that stands for everything outside Qiang.
pub const OUTSIDE: &str = "outside";
/// The source of postings that follow from no log entry.
pub const DIRECT: i64 = -1;

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// What a user can spend. Returns may overdraw it: what was paid is owed back, whatever the seller did with it.
    User,
    /// Payments owed back to a user.
    RefundsDue,
    /// What a red packet still has to give.
    Escrow,
    /// Where deposits and payments come from. It owes what all others have together.
    Outside,
}

words!(Purpose {
    User = "user",
    RefundsDue = "refunds_due",
    Escrow = "escrow",
    Outside = "outside",
});

impl Purpose {
    /// Whether many transactions at once move such an account.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Escrow | Self::Outside)
    }
}

/// What identifies an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountKey<'a> {
    /// A user, a campaign's id for its escrow, or [`OUTSIDE`].
    pub owner: &'a str,
    /// What it is for.
    pub purpose: Purpose,
    /// Its currency.
    pub currency: Currency,
}

impl<'a> AccountKey<'a> {
    /// The account of that owner for that purpose.
    pub fn new(owner: &'a str, purpose: Purpose, currency: Currency) -> Self {
        Self {
            owner,
            purpose,
            currency,
        }
    }

    /// The columns `owner`, `purpose` and `currency`.
    pub fn columns(&self) -> (&'a str, &'static str, &'static str) {
        (self.owner, self.purpose.name(), self.currency.code())
    }
}

/// A movement of money: `amount`, always positive, from the account `debit` to the account `credit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingRow {
    /// The partition whose entry it follows from, or [`DIRECT`].
    pub source: i64,
    /// The entry's place in the log; for direct postings a number of its own.
    pub seq: i64,
    /// `deposit`, `fund`, `grant`, `refund`, `residue`, `payment`, `refund_due`, `return`, `refund_paid`,
    /// `withdrawal` or `reversal`.
    pub kind: &'static str,
    /// The account that gives.
    pub debit: i64,
    /// The account that gets.
    pub credit: i64,
    /// Minor units.
    pub amount: i64,
    /// The campaign's `ref`.
    pub campaign: Option<i64>,
    /// The number of the share or order.
    pub number: Option<i64>,
    /// When, in milliseconds.
    pub at: i64,
}

impl PostingRow {
    /// A posting that follows from no log entry.
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

    /// The columns `source`, `seq`, `kind`, `debit`, `credit`, `amount`, `campaign`, `number` and `at`.
    pub fn columns(&self) -> [Value<'static>; 9] {
        columns!(self; source, seq, kind, debit, credit, amount, campaign, number, at)
    }
}
