//! One campaign, recomputed from its entries.

mod payments;
mod steps;

use std::collections::{BTreeMap, HashMap};

use qiang_core::{
    book::Setup,
    campaign::{CampaignKind, Phase, Rules, Tally},
    event::{Entry, Event},
    id::{IdempotencyKey, UserId},
    split::SplitRule,
    time::Timestamp,
};

use super::{order, terms};

/// State of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// A share, or an order that waits for its payment.
    Had,
    /// A paid order.
    Paid,
    /// A paid order that was returned.
    Returned,
    /// A cancelled order.
    Cancelled,
    /// An order that was not paid in time.
    Expired,
}

/// A grant as the log records it.
#[derive(Debug, Clone)]
pub struct Row {
    /// User that has the grant.
    pub user: UserId,
    /// Units granted, without cancelled ones.
    pub quantity: u32,
    /// Price or share in minor units.
    pub amount_minor: i64,
    /// Idempotency key of the request.
    pub key: Option<IdempotencyKey>,
    /// Time of the grant.
    pub granted_at: Timestamp,
    /// Current state.
    pub state: RowState,
    /// Outcome of each payment by its reference: the name of the event.
    pub payments: BTreeMap<String, &'static str>,
    /// Minor units that paid the order; `None` before the payment.
    pub paid_minor: Option<i64>,
    /// Units that were returned.
    pub returned: u32,
    /// Minor units that the return of the last units owes.
    pub last_owed_minor: i64,
    /// Units of each partial return, by its key.
    pub returns: BTreeMap<String, u32>,
    /// Units that were cancelled while the order was held.
    pub cancelled: u32,
    /// Units of each partial cancellation, by its key.
    pub cancellations: BTreeMap<String, u32>,
    /// Milliseconds by which the hold was extended.
    pub extension_ms: i64,
    /// Index of the log that contains the grant.
    log: usize,
}

impl Row {
    fn has_units(&self) -> bool {
        matches!(self.state, RowState::Had | RowState::Paid)
    }

    /// Units that were granted at first.
    #[must_use]
    pub fn claimed(&self) -> u32 {
        self.quantity + self.cancelled
    }

    /// Price of the units that were granted at first; the money of a share.
    #[must_use]
    pub fn claimed_minor(&self) -> i64 {
        self.amount_minor / i64::from(self.quantity) * i64::from(self.cancelled) + self.amount_minor
    }

    /// Units that the user has from this grant.
    fn units(&self) -> u32 {
        match self.has_units() {
            true => self.quantity - self.returned,
            false => 0,
        }
    }
}

/// A campaign as the log records it.
#[derive(Debug, Clone)]
pub struct Account {
    /// The setup as entered, with the current stock.
    pub setup: Setup,
    /// Grants by number.
    pub rows: BTreeMap<u32, Row>,
    /// Shards that have opened, by the log that contains them. A campaign that is not spread has one.
    parts: BTreeMap<usize, Part>,
    /// Number of shards that the campaign will have; 0 before the first opens.
    parts_in_all: usize,
    /// Changes of the stock by each log's entries, in order.
    changes: BTreeMap<usize, Vec<i64>>,
    /// Units and minor units that have left the first partition and have not arrived at the second.
    moving: BTreeMap<(usize, usize), [i64; 2]>,
    /// Numbers of each user's grants.
    of_user: HashMap<UserId, Vec<u32>>,
    first_supply: i64,
    pub(super) terms: terms::SaleTerms,
    /// Units in stock, units that users have, units returned to the owner.
    units: [i64; 3],
    /// The same in minor units.
    money: [i64; 3],
}

/// Shard of a campaign on one partition.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    paused: bool,
    ended: bool,
    closed: bool,
}

type Checked = Result<(), String>;

fn check(holds: bool, otherwise: &str) -> Checked {
    holds.then_some(()).ok_or_else(|| otherwise.to_owned())
}

impl Account {
    pub(super) fn new(setup: Setup) -> Self {
        let units = [setup.campaign.supply() as i64, 0, 0];
        let money = [setup.campaign.funded_minor(), 0, 0];
        Self {
            terms: terms::SaleTerms::of(&setup.campaign),
            setup,
            rows: BTreeMap::new(),
            parts: BTreeMap::new(),
            parts_in_all: 0,
            changes: BTreeMap::new(),
            moving: BTreeMap::new(),
            of_user: HashMap::new(),
            first_supply: units[0],
            units,
            money,
        }
    }

    /// Units that users have.
    #[must_use]
    pub fn granted(&self) -> i64 {
        self.units[1]
    }

    /// Minor units returned to the owner.
    #[must_use]
    pub fn refunded_minor(&self) -> i64 {
        self.money[2]
    }

    /// Units returned to the owner.
    #[must_use]
    pub fn returned(&self) -> i64 {
        self.units[2]
    }

    /// Phase of the campaign, without regard to the window. A spread campaign is a draft until all shards have opened.
    /// It is ended when all shards have ended, and closed when all are closed. It is paused while a shard that has not
    /// ended is paused.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let mut parts = self.parts.values();
        if self.parts_in_all == 0 || self.parts.len() < self.parts_in_all {
            Phase::Draft
        } else if parts.clone().all(|part| part.closed) {
            Phase::Closed
        } else if parts.clone().all(|part| part.ended) {
            Phase::Ended
        } else if parts.any(|part| part.paused && !part.ended) {
            Phase::Paused
        } else {
            Phase::Scheduled
        }
    }

    fn is_spread(&self) -> bool {
        self.parts_in_all > 1
    }

    fn open(&mut self, log: usize, parts: u16) -> Checked {
        let parts = usize::from(parts);
        let first = self.parts_in_all == 0;
        check(
            parts > 0 && (first || self.parts_in_all == parts),
            "opened with another number of shards",
        )?;
        self.parts_in_all = parts;
        let again = self.parts.insert(log, Part::default()).is_some();
        check(!again && self.parts.len() <= parts, "opened twice")
    }

    pub(super) fn enter(&mut self, log: usize, entry: &Entry) -> Checked {
        let before = self.units[0];
        self.take_over(log, entry)?;
        if self.units[0] != before {
            let change = self.units[0] - before;
            self.changes.entry(log).or_default().push(change);
        }
        Ok(())
    }

    fn take_over(&mut self, log: usize, entry: &Entry) -> Checked {
        if let Event::Opened { parts } = entry.event {
            return self.open(log, parts);
        }
        let mut part = *(self.parts.get(&log)).ok_or("happened before the shard was opened")?;
        let is_grant = matches!(entry.event, Event::Granted { .. });
        if let Some(number) = entry.event.number().filter(|_| !is_grant) {
            self.check_log(log, number)?;
        }
        match &entry.event {
            Event::Opened { .. } => {}
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                key,
            } => {
                let row = Row {
                    user: user.clone(),
                    quantity: *quantity,
                    amount_minor: *amount_minor,
                    key: key.clone(),
                    granted_at: entry.at,
                    state: RowState::Had,
                    payments: BTreeMap::new(),
                    paid_minor: None,
                    returned: 0,
                    last_owed_minor: 0,
                    returns: BTreeMap::new(),
                    cancelled: 0,
                    cancellations: BTreeMap::new(),
                    extension_ms: 0,
                    log,
                };
                self.grant(*number, row)?;
            }
            Event::Paid {
                number, payment, ..
            } => {
                self.payment(*number, payment.as_str(), "paid")?;
                self.paid(*number, &entry.event)?;
                self.step(*number, RowState::Had, RowState::Paid)?;
            }
            Event::Reinstated {
                number, payment, ..
            } => {
                self.paid(*number, &entry.event)?;
                check(!part.ended, "reinstated after the end")?;
                self.payment(*number, payment.as_str(), "reinstated")?;
                self.step(*number, RowState::Expired, RowState::Paid)?;
                self.within_limit(*number)?;
            }
            Event::RefundDue {
                number,
                payment,
                received,
            } => {
                self.payment(*number, payment.as_str(), "refund_due")?;
                self.turned_away(*number, *received)?;
            }
            Event::Cancelled { number } => {
                self.step(*number, RowState::Had, RowState::Cancelled)?;
            }
            Event::PartCancelled { number, part } => self.cancel_units(*number, part)?,
            Event::Returned { number, part } => self.return_units(*number, part.as_ref())?,
            Event::Expired { number } => {
                let Rules::Sale(sale) = &self.setup.campaign.rules else {
                    return Err("a share of a red packet expired".to_owned());
                };
                let row = self.row(*number)?;
                let until = row
                    .granted_at
                    .plus_millis(sale.hold_ms() + row.extension_ms);
                check(entry.at >= until, "expired before the hold ended")?;
                self.step(*number, RowState::Had, RowState::Expired)?;
            }
            Event::HoldExtended {
                number,
                extension_ms,
            } => self.extend_hold(*number, *extension_ms)?,
            Event::TransferredOut {
                to,
                units,
                amount_minor,
            } => {
                check(!part.closed, "units left a shard after its close")?;
                self.transfer(log, usize::from(to.0), 1, (*units, *amount_minor));
            }
            Event::TransferredIn {
                from,
                units,
                amount_minor,
            } => {
                check(!part.closed, "units arrived at a shard after its close")?;
                self.transfer(usize::from(from.0), log, -1, (*units, *amount_minor));
            }
            Event::TransferReturned {
                to,
                units,
                amount_minor,
            } => {
                check(!part.closed, "units returned to a shard after its close")?;
                self.transfer(log, usize::from(to.0), -1, (*units, *amount_minor));
            }
            Event::Paused => {
                check(!part.paused && !part.ended, "paused twice or after the end")?;
                part.paused = true;
            }
            Event::Resumed => {
                check(part.paused && !part.ended, "resumed without a pause")?;
                part.paused = false;
            }
            Event::Ended => {
                check(!part.ended, "ended twice")?;
                part.ended = true;
            }
            Event::Closed {
                returned,
                refunded_minor,
            } => {
                check(
                    part.ended && !part.closed,
                    "closed twice, or before the end",
                )?;
                part.closed = true;
                transfer(&mut self.units, 0, 2, *returned as i64);
                transfer(&mut self.money, 0, 2, *refunded_minor);
            }
            Event::StockChanged { units } => {
                check(!part.ended, "the stock was changed after the end")?;
                terms::change_stock(&mut self.setup.campaign, *units, self.parts_in_all > 1)?;
                self.units[0] += units;
                self.terms.give(&mut self.setup.campaign);
            }
            Event::TermsChanged { revision, terms } => {
                check(!part.ended, "the terms were changed after the end")?;
                self.terms.change(log, *revision, *terms)?;
                self.terms.give(&mut self.setup.campaign);
            }
            Event::ChangeMade { .. } => {}
        }
        self.parts.insert(log, part);
        if self.phase() == Phase::Closed {
            // All grants are in the logs before the closes, so the closes return all that is left.
            let nothing = (self.units[0], self.money[0]) == (0, 0);
            check(nothing, "the closes did not return exactly what was left")?;
        }
        // A unit that returns to one shard may be sold again by another shard, whose log may be read first here.
        if self.is_spread() && self.setup.campaign.kind() == CampaignKind::Sale {
            return Ok(());
        }
        self.conserves()
    }

    fn row(&self, number: u32) -> Result<&Row, String> {
        self.rows
            .get(&number)
            .ok_or_else(|| format!("there is no grant {number}"))
    }

    fn grant(&mut self, number: u32, row: Row) -> Checked {
        let campaign = &self.setup.campaign;
        let terms = self.terms.in_log(row.log);
        let window = terms.map_or(campaign.window, |terms| terms.window);
        let open = window.starts_at() <= row.granted_at && row.granted_at < window.ends_at();
        check(open, "granted outside the window")?;
        let part = self.parts.get(&row.log).copied().unwrap_or_default();
        check(
            !part.ended && !part.paused,
            "granted while paused or after the end",
        )?;
        if self.is_spread() {
            // Each shard numbers its own grants, with gaps. No number occurs twice.
            let fresh = number > 0 && !self.rows.contains_key(&number);
            check(fresh, "the number was used before")?;
        } else {
            let next = self.rows.len() as u32 + 1;
            check(number == next, "the number is not the next one")?;
        }
        check(row.quantity > 0, "granted no units")?;
        let same_key = |earlier: &Row| row.key.is_some() && earlier.key == row.key;
        let again = self.of(&row.user).any(same_key);
        check(!again, "granted twice under one key")?;

        let minor = row.amount_minor;
        match &campaign.rules {
            Rules::Sale(_) => {
                let price = terms.map_or(0, |terms| terms.unit_price_minor);
                check(
                    minor == price * i64::from(row.quantity),
                    "the price is wrong",
                )?;
            }
            Rules::RedPacket(packet) => {
                check(row.quantity == 1, "more than one share")?;
                match packet.split.rule() {
                    SplitRule::Lazy { min } => {
                        let last = self.units[0] == 1;
                        check(minor >= min, "a share below the minimum")?;
                        check(number <= packet.split.count(), "a share above the count")?;
                        check(
                            !last || minor == self.money[0],
                            "the last share does not take all the money left",
                        )?;
                    }
                    _ => {
                        let planned = self.setup.shares.get(number as usize - 1);
                        check(planned == Some(&minor), "not the next planned share")?;
                    }
                }
                transfer(&mut self.money, 0, 1, minor);
            }
        }
        transfer(&mut self.units, 0, 1, i64::from(row.quantity));
        let own = self.of_user.entry(row.user.clone()).or_default();
        own.push(number);
        self.rows.insert(number, row);
        self.within_limit(number)
    }

    fn of(&self, user: &UserId) -> impl Iterator<Item = &Row> {
        let numbers = self.of_user.get(user).map_or(&[][..], Vec::as_slice);
        numbers.iter().filter_map(|number| self.rows.get(number))
    }

    /// Checks that the grant's user has at most as many units as the campaign allows.
    fn within_limit(&self, number: u32) -> Checked {
        let row = self.row(number)?;
        let held: u64 = self.of(&row.user).map(|row| u64::from(row.units())).sum();
        let limit = (self.terms.in_log(row.log)).map_or(1, |terms| terms.per_user_limit);
        check(held <= u64::from(limit), "one user has more than the limit")
    }

    /// Checks that the entry is in the log that granted the order.
    fn check_log(&self, log: usize, number: u32) -> Checked {
        let same = self.row(number)?.log == log;
        check(same, "an order changed in another shard's log")
    }

    /// Checks that the logs are possible without overselling: by their final sums, and by an order in which all entries
    /// can have happened.
    pub(super) fn explains(&self) -> Checked {
        self.conserves()?;
        let arrived = |moving: &[i64; 2]| moving.iter().all(|sum| *sum >= 0);
        check(
            self.moving.values().all(arrived),
            "more units arrived at a shard than were sent to it",
        )?;
        let closed = self.phase() == Phase::Closed;
        let nothing = self.moving.values().all(|moving| *moving == [0, 0]);
        check(!closed || nothing, "units were in transfer at the close")?;
        let changes: Vec<_> = self.changes.values().cloned().collect();
        let explained = !self.is_spread() || order::exists(self.first_supply, &changes);
        check(explained, "no order of its shards' entries is possible")
    }

    /// Notes that units and their money leave one shard for another (sign 1), or that their transfer ends (sign -1).
    fn transfer(&mut self, from: usize, to: usize, sign: i64, (units, amount_minor): (u64, i64)) {
        let moving = self.moving.entry((from, to)).or_default();
        moving[0] += sign * units as i64;
        moving[1] += sign * amount_minor;
    }

    /// Checks that units and money sum to the campaign's supply and funds, and that no sum is negative.
    fn conserves(&self) -> Checked {
        let sound = |parts: &[i64; 3], whole: i64| {
            parts.iter().all(|part| *part >= 0) && parts.iter().sum::<i64>() == whole
        };
        let supply = self.setup.campaign.supply() as i64;
        check(sound(&self.units, supply), "more units than the supply")?;
        let funded = self.setup.campaign.funded_minor();
        check(sound(&self.money, funded), "more money than the funds")
    }

    /// Difference between a tally and the log, if there is one.
    pub(super) fn differs(&self, tally: &Tally) -> Option<String> {
        let answered = [
            tally.supply as i64,
            tally.remaining as i64,
            tally.granted as i64,
            tally.returned as i64,
            tally.funded_minor,
            tally.remaining_minor,
            tally.claimed_minor,
            tally.refunded_minor,
            i64::from(tally.grants),
        ];
        // Not counted for an evicted sale.
        let is_counted = tally.grants > 0 || tally.phase != Phase::Closed;
        let [free, had, back] = self.units;
        let [money_free, money_had, money_back] = self.money;
        let campaign = &self.setup.campaign;
        let found = [
            campaign.supply() as i64,
            free,
            had,
            back,
            campaign.funded_minor(),
            money_free,
            money_had,
            money_back,
            if is_counted {
                self.rows.len() as i64
            } else {
                0
            },
        ];
        let id = campaign.id;
        (answered != found)
            .then(|| format!("the tally of {id} is {answered:?}, its log gives {found:?}"))
    }
}

fn transfer(parts: &mut [i64; 3], from: usize, to: usize, amount: i64) {
    parts[from] -= amount;
    parts[to] += amount;
}
