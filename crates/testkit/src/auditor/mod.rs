//! An independent check of what happened: from the log alone, and by arithmetic of its own, it recomputes every
//! number and holds the answers that people got against it.
//!
//! It shares no code with the book. What it proves of a history are the invariants: no oversell, once per user (or as
//! often as the limit says), conservation of units and money, every acknowledged grant kept, and a retry answered
//! with the very same grant.

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

/// What an engine was asked, and what it answered.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// A claim and its outcome.
    Claim(Claim, Result<Outcome, EngineError>),
    /// A command and its reply.
    Command(Command, Result<Reply, EngineError>),
}

impl Exchange {
    /// Whether the engine gave an outcome or a reply, and no error.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Claim(_, outcome) => outcome.is_ok(),
            Self::Command(_, reply) => reply.is_ok(),
        }
    }
}

/// Everything that is to be checked.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The campaigns, as they were entered.
    pub setups: Vec<Setup>,
    /// Money that came from outside, or below 0 went there: whose it is, and how many minor units.
    pub deposits: Vec<(UserId, i64)>,
    /// What was paid back to buyers: to each how much.
    pub refunds: Vec<(UserId, Money)>,
    /// Claims and commands with their answers, in any order.
    pub exchanges: Vec<Exchange>,
    /// Whether every claim of the history is among the exchanges; then every grant was answered to somebody.
    pub complete: bool,
    /// Whether the answers to each user stand in the order in which they were given, and no more is asked than one
    /// claim at a time: then who has been told of a grant is told of the same one ever after.
    pub in_order: bool,
    /// Seeds of packets that were shown.
    pub reveals: Vec<Reveal>,
    /// The log of each partition, from its first entry to its head.
    pub logs: Vec<Vec<Entry>>,
    /// Whether each log was cut somewhere before its head, as settlement cuts it. Units that one part of a spread sale
    /// took back, and another sold again, may then be seen with both.
    pub cut: bool,
    /// The numbers that the engine shows at the end.
    pub tallies: Vec<(CampaignId, Tally)>,
}

/// What follows from a sound history.
#[derive(Debug, Default)]
pub struct ExpectedLedger {
    /// Every campaign that was opened.
    pub accounts: HashMap<CampaignId, Account>,
    /// What each user has once all is settled: spendable minor units, and minor units owed back.
    pub balances: BTreeMap<UserId, (i64, i64)>,
    /// Minor units owed back in other currencies than that of the campaigns, by user and code.
    pub other_dues: BTreeMap<(UserId, &'static str), i64>,
}

/// Recomputes a history. The logs may come in any order: what is said of the whole of a spread campaign holds in all.
///
/// # Errors
/// Every breach that was found, one sentence each.
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
                audit.breach(format!("entry {seq} stands at place {place} of its log"));
            }
            audit.enter(number, entry);
        }
    }
    for (id, account) in &audit.expected.accounts {
        if let Err(what) = account.explains()
            && !history.cut
        {
            audit.breaches.push(format!("all of {id}: {what}"));
        }
    }
    for (id, tally) in &history.tallies {
        let breach = match audit.expected.accounts.get(id) {
            Some(account) => account.differs(tally),
            None => Some(format!("{id} has a tally and was never entered")),
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

/// Checks a history that must be sound.
///
/// # Panics
/// With every breach.
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
