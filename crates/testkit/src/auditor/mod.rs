//! Independent audit of a history. It recomputes every number from the log alone, with its own arithmetic, and compares
//! the users' answers with the result.
//!
//! It shares no code with the book. It proves these invariants of a history:
//!
//! - There is no oversell.
//! - A user gets at most one grant, or as many units as the limit allows.
//! - Units and money are conserved.
//! - No acknowledged grant is lost, and each retry gets the same grant.

mod account;
mod answers;
mod order;
mod reveals;
#[cfg(test)]
mod spread_tests;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use qiang_core::{
    book::{Claim, Command, Reply, Setup},
    campaign::Tally,
    event::{Entry, Event},
    id::{CampaignId, UserId},
    money::Money,
    outcome::Outcome,
    ports::EngineError,
};

use crate::campaign::currency;

pub use self::{
    account::{Account, Row, RowState},
    reveals::Reveal,
};

/// A request to an engine, with its answer.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// A claim and its outcome.
    Claim(Claim, Result<Outcome, EngineError>),
    /// A command and its reply.
    Command(Command, Result<Reply, EngineError>),
}

impl Exchange {
    /// Whether the engine returned an outcome or a reply, and not an error.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Claim(_, outcome) => outcome.is_ok(),
            Self::Command(_, reply) => reply.is_ok(),
        }
    }
}

/// Input of an audit.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Campaigns as entered.
    pub setups: Vec<Setup>,
    /// Money that came from outside: the account and minor units. A negative amount went outside.
    pub deposits: Vec<(UserId, i64)>,
    /// Refunds paid to buyers: the buyer and the amount.
    pub refunds: Vec<(UserId, Money)>,
    /// Claims and commands with their answers, in any order.
    pub exchanges: Vec<Exchange>,
    /// Whether `exchanges` contains every claim of the history. If so, every grant must occur in an answer.
    pub complete: bool,
    /// Whether the answers to each user are in the order in which they were given, one claim at a time. If so, later
    /// answers must name the grant of earlier ones.
    pub in_order: bool,
    /// Published seeds of red packets.
    pub reveals: Vec<Reveal>,
    /// The log of each partition, from its first entry to its head.
    pub logs: Vec<Vec<Entry>>,
    /// Whether a log was cut somewhere before its head, as settlement cuts it. A unit that one shard restocked and
    /// another sold again may then appear in both.
    pub cut: bool,
    /// Final numbers shown by the engine.
    pub tallies: Vec<(CampaignId, Tally)>,
}

/// Result of a sound history.
#[derive(Debug, Default)]
pub struct ExpectedLedger {
    /// Every campaign that was opened.
    pub accounts: HashMap<CampaignId, Account>,
    /// Balance of each user after full settlement: spendable minor units, and minor units of refunds due.
    pub balances: BTreeMap<UserId, (i64, i64)>,
    /// Minor units of refunds due in currencies other than that of the campaigns, by user and code.
    pub other_dues: BTreeMap<(UserId, &'static str), i64>,
}

/// Recomputes a history. The logs may come in any order: checks of a whole spread campaign use all logs.
///
/// # Errors
/// All breaches found, one sentence each.
pub fn audit(history: &History) -> Result<ExpectedLedger, Vec<String>> {
    let mut audit = Audit::default();
    for setup in &history.setups {
        let account = Account::new(setup.clone());
        audit.expected.accounts.insert(setup.campaign.id, account);
        audit.move_money(&setup.campaign.owner, -setup.campaign.funded_minor());
    }
    for (user, minor) in &history.deposits {
        audit.move_money(user, *minor);
    }
    for (user, money) in &history.refunds {
        let refunded = Money::new(-money.minor, money.currency);
        audit.owe(user.clone(), refunded);
    }
    for (number, log) in history.logs.iter().enumerate() {
        for (place, entry) in (1..).zip(log) {
            if entry.seq != place {
                let seq = entry.seq;
                audit.breach(format!("entry {seq} is at position {place} of its log"));
            }
            audit.enter(number, entry);
        }
    }
    for (id, account) in &audit.expected.accounts {
        if let Err(what) = account.explains()
            && !history.cut
        {
            audit.breaches.push(format!("the whole of {id}: {what}"));
        }
    }
    for (id, tally) in &history.tallies {
        let breach = match audit.expected.accounts.get(id) {
            Some(account) => account.differs(tally),
            None => Some(format!("{id} has a tally but was never entered")),
        };
        audit.breaches.extend(breach);
    }
    let found = answers::check(&audit.expected, &history.exchanges, history.complete);
    audit.breaches.extend(found);
    if history.in_order {
        audit
            .breaches
            .extend(answers::forgotten(&history.exchanges));
    }
    let found = reveals::check(&audit.expected, &history.logs, &history.reveals);
    audit.breaches.extend(found);
    if audit.breaches.is_empty() {
        Ok(audit.expected)
    } else {
        Err(audit.breaches)
    }
}

/// Audits a history that must be sound.
///
/// # Panics
/// If the audit finds breaches. The message lists all.
#[must_use]
pub fn assert_sound(history: &History) -> ExpectedLedger {
    audit(history).unwrap_or_else(|breaches| panic!("{}", breaches.join("\n")))
}

#[derive(Default)]
struct Audit {
    expected: ExpectedLedger,
    breaches: Vec<String>,
}

impl Audit {
    fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }

    fn move_money(&mut self, user: &UserId, minor: i64) {
        self.expected.balances.entry(user.clone()).or_default().0 += minor;
    }

    fn owe(&mut self, user: UserId, money: Money) {
        let due = match money.currency == currency() {
            true => &mut self.expected.balances.entry(user).or_default().1,
            false => {
                let key = (user, money.currency.code());
                self.expected.other_dues.entry(key).or_default()
            }
        };
        *due += money.minor;
    }

    fn enter(&mut self, log: usize, entry: &Entry) {
        let Some(account) = self.expected.accounts.get_mut(&entry.campaign) else {
            let (seq, id) = (entry.seq, entry.campaign);
            return self.breach(format!(
                "entry {seq} belongs to {id}, which was never entered"
            ));
        };
        if let Err(what) = account.enter(log, entry) {
            let (seq, id) = (entry.seq, entry.campaign);
            return self.breach(format!("entry {seq} of {id}: {what}"));
        }
        let owner = account.setup.campaign.owner.clone();
        let of_packet = account.setup.campaign.funded_minor() > 0;
        let price = |number: &u32| account.rows.get(number).map(|row| row.amount_minor);
        let buyer = |number: &u32| account.rows.get(number).map(|row| row.user.clone());
        match &entry.event {
            Event::Granted {
                user, amount_minor, ..
            } if of_packet => self.move_money(user, *amount_minor),
            Event::Closed { refunded_minor, .. } => self.move_money(&owner, *refunded_minor),
            Event::Paid { number, .. } | Event::Reinstated { number, .. } => {
                let paid = account.rows.get(number).and_then(|row| row.paid_minor);
                self.move_money(&owner, paid.unwrap_or(0));
            }
            Event::Returned { number, .. } => {
                let row = account.rows.get(number);
                let paid = |row: &Row| (row.user.clone(), row.last_owed_minor);
                if let Some((buyer, minor)) = row.map(paid) {
                    self.owe(buyer, Money::new(minor, currency()));
                    self.move_money(&owner, -minor);
                }
            }
            Event::RefundDue {
                number, received, ..
            } => {
                if let Some((buyer, minor)) = buyer(number).zip(price(number)) {
                    self.owe(buyer, received.money(Money::new(minor, currency())));
                }
            }
            _ => {}
        }
    }
}
