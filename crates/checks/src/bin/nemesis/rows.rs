//! Final rows of the ledger and numbers of the engine, once everything is settled.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

/// A grant in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRow {
    pub(crate) user: String,
    pub(crate) quantity: u32,
    pub(crate) amount: i64,
    /// An order's state; `granted` for a share.
    pub(crate) state: String,
    /// Units that returns of parts have returned.
    pub(crate) returned: u32,
    /// Units that cancellations of parts have cancelled. Quantity and amount are without them.
    pub(crate) cancelled: u32,
}

impl GrantRow {
    /// Units and minor units of the grant, with cancelled units.
    pub(crate) fn claimed(&self) -> (u32, i64) {
        let units = self.quantity + self.cancelled;
        let amount = self.amount * i64::from(units) / i64::from(self.quantity.max(1));
        (units, amount)
    }

    /// Whether the user has the units of this grant.
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.state.as_str(), "cancelled" | "expired" | "returned")
    }

    /// Units that the user has.
    pub(crate) fn units(&self) -> u32 {
        match self.is_held() {
            true => self.quantity.saturating_sub(self.returned),
            false => 0,
        }
    }

    /// Refund due of the money that paid the order.
    pub(crate) fn owed_of(&self, paid: i64) -> i64 {
        match self.state.as_str() {
            "returned" => paid,
            _ => paid * i64::from(self.returned) / i64::from(self.quantity.max(1)),
        }
    }
}

/// A campaign in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CampaignRow {
    pub(crate) phase: String,
    pub(crate) supply: u32,
    pub(crate) granted: u32,
    pub(crate) returned: u32,
    pub(crate) refunded: i64,
    /// Balance of the packet's escrow account.
    pub(crate) escrow: i64,
}

/// A campaign's numbers in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EngineRow {
    pub(crate) supply: u32,
    pub(crate) granted: u32,
    pub(crate) remaining: u32,
    pub(crate) returned: u32,
    pub(crate) withheld: u32,
}

/// All final data that the checker compares with the history.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// By campaign and number.
    pub(crate) grants: BTreeMap<(String, u32), GrantRow>,
    pub(crate) campaigns: BTreeMap<String, CampaignRow>,
    pub(crate) engine: BTreeMap<String, EngineRow>,
    /// Campaign, number, reference, outcome, minor units.
    pub(crate) payments: BTreeSet<(String, u32, String, String, i64)>,
    /// Spendable balances of users, without the sender and the seller.
    pub(crate) balances: BTreeMap<String, i64>,
    /// Refunds due to users.
    pub(crate) refunds_due: BTreeMap<String, i64>,
    /// Refunds to a packet's sender: the campaign, the log that refunded (-1 for residue), the amount.
    pub(crate) refunds: Vec<(String, i64, i64)>,
    pub(crate) sender: i64,
    pub(crate) seller: i64,
    /// Sum of all balances.
    pub(crate) sum: i64,
    /// Units that repairs had withheld before the campaigns were closed.
    pub(crate) withheld: BTreeMap<String, u32>,
    /// Errors that `qiang audit` found.
    pub(crate) audit: Vec<String>,
}

const GRANTS: &str = "SELECT c.id, s.number, s.user, 1, s.amount, 'granted', 0, 0 FROM shares s
    JOIN campaigns c ON c.ref = s.campaign WHERE s.user IS NOT NULL
    UNION ALL SELECT c.id, o.number, o.user, o.quantity, o.amount, o.state,
    o.returned_in_parts, o.cancelled_in_parts FROM orders o
    JOIN campaigns c ON c.ref = o.campaign";

const CAMPAIGNS: &str =
    "SELECT c.id, c.phase, c.supply, c.granted, c.returned, c.refunded, coalesce(a.balance, 0)
    FROM campaigns c LEFT JOIN accounts a ON a.owner = c.id AND a.purpose = 'escrow'";

const PAYMENTS: &str = "SELECT c.id, p.number, p.payment, p.outcome, p.amount FROM payments p
    JOIN campaigns c ON c.ref = p.campaign";

const REFUNDS: &str = "SELECT c.id, p.source, p.amount FROM postings p
    JOIN campaigns c ON c.ref = p.campaign WHERE p.kind IN ('refund', 'residue')";

const BALANCES: &str = "SELECT owner, purpose, balance FROM accounts";

impl Rows {
    /// Reads the ledger. `sql` runs a statement and returns lines with `|` between the columns.
    pub(crate) fn read(
        sql: impl Fn(&str) -> Result<String>,
        sender: &str,
        seller: &str,
    ) -> Result<Self> {
        let mut rows = Self::default();
        for line in sql(GRANTS)?.lines() {
            let [
                id,
                number,
                user,
                quantity,
                amount,
                state,
                returned,
                cancelled,
            ] = columns(line)?;
            let row = GrantRow {
                user: user.to_owned(),
                quantity: number_in(quantity, line)?,
                amount: number_in(amount, line)?,
                state: state.to_owned(),
                returned: number_in(returned, line)?,
                cancelled: number_in(cancelled, line)?,
            };
            let key = (id.to_owned(), number_in(number, line)?);
            rows.grants.insert(key, row);
        }
        for line in sql(CAMPAIGNS)?.lines() {
            let [id, phase, supply, granted, returned, refunded, escrow] = columns(line)?;
            let row = CampaignRow {
                phase: phase.to_owned(),
                supply: number_in(supply, line)?,
                granted: number_in(granted, line)?,
                returned: number_in(returned, line)?,
                refunded: number_in(refunded, line)?,
                escrow: number_in(escrow, line)?,
            };
            rows.campaigns.insert(id.to_owned(), row);
        }
        for line in sql(PAYMENTS)?.lines() {
            let [id, number, payment, outcome, amount] = columns(line)?;
            let row = (
                id.to_owned(),
                number_in(number, line)?,
                payment.to_owned(),
                outcome.to_owned(),
                number_in(amount, line)?,
            );
            rows.payments.insert(row);
        }
        for line in sql(REFUNDS)?.lines() {
            let [id, source, amount] = columns(line)?;
            let row = (
                id.to_owned(),
                number_in(source, line)?,
                number_in(amount, line)?,
            );
            rows.refunds.push(row);
        }
        for line in sql(BALANCES)?.lines() {
            let [owner, purpose, balance] = columns(line)?;
            let balance: i64 = number_in(balance, line)?;
            rows.sum += balance;
            match (purpose, owner) {
                ("user", owner) if owner == sender => rows.sender = balance,
                ("user", owner) if owner == seller => rows.seller = balance,
                ("user", owner) => {
                    rows.balances.insert(owner.to_owned(), balance);
                }
                ("refunds_due", owner) => {
                    rows.refunds_due.insert(owner.to_owned(), balance);
                }
                _ => {}
            }
        }
        Ok(rows)
    }

    /// Keeps the rows of these campaigns, and of users with names that start with `prefix`. The sum of all balances
    /// stays.
    pub(crate) fn keep(&mut self, prefix: &str, is_ours: impl Fn(&str) -> bool) {
        self.grants.retain(|(id, _), _| is_ours(id));
        self.campaigns.retain(|id, _| is_ours(id));
        self.payments.retain(|row| is_ours(&row.0));
        self.refunds.retain(|row| is_ours(&row.0));
        self.balances.retain(|user, _| user.starts_with(prefix));
        self.refunds_due.retain(|user, _| user.starts_with(prefix));
    }
}

fn columns<const N: usize>(line: &str) -> Result<[&str; N]> {
    let words: Vec<&str> = line.split('|').collect();
    let found = words.len();
    <[&str; N]>::try_from(words)
        .ok()
        .with_context(|| format!("{found} columns instead of {N}: {line}"))
}

fn number_in<T: std::str::FromStr>(text: &str, line: &str) -> Result<T> {
    let parsed = text.parse().ok();
    parsed.with_context(|| format!("`{text}` is not a number of this type: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_psql_writes_them() {
        let text = |statement: &str| match statement {
            GRANTS => "c1|7|ann|1|350|granted|0|0\nc2|1|bob|2|200|held|0|1".to_owned(),
            CAMPAIGNS => "c1|scheduled|10|1|0|0|650".to_owned(),
            PAYMENTS => "c2|1|ref-1|paid|203".to_owned(),
            REFUNDS => "c1|2|70\nc1|-1|5".to_owned(),
            _ => "sender|user|5\nshop|user|200\nann|user|350\nc1|escrow|650\nbob|refunds_due|3\n\
                outside|outside|-1208"
                .to_owned(),
        };
        let sql = |statement: &str| Ok(text(statement));
        let rows = Rows::read(sql, "sender", "shop").unwrap();
        assert_eq!(rows.grants[&("c1".to_owned(), 7)].amount, 350);
        assert!(rows.grants[&("c2".to_owned(), 1)].is_held());
        assert_eq!(rows.campaigns["c1"].escrow, 650);
        assert_eq!((rows.sender, rows.seller, rows.sum), (5, 200, 0));
        assert_eq!(rows.balances.len(), 1);
        assert_eq!(rows.payments.len(), 1);
        assert_eq!(rows.refunds_due["bob"], 3);
        assert_eq!(rows.refunds[1], ("c1".to_owned(), -1, 5));
        let mut rows = rows;
        rows.keep("b", |id| id == "c2");
        assert_eq!((rows.campaigns.len(), rows.grants.len()), (0, 1));
        assert_eq!((rows.balances.len(), rows.refunds_due.len()), (0, 1));
        assert!(Rows::read(|_| Ok("a|b".to_owned()), "", "").is_err());
    }
}
