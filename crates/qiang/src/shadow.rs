//! Shadow mode: decides the mirrored claims of an existing shop beside it, and says where the decisions differ.
//!
//! The reference model of the engines decides, at the times of the shop's log. So a report needs no service, and the
//! same log always gives the same report.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use qiang_core::{
    book::{Book, CampaignAction, Claim, Command, Refusal, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, Requirements, Rules, Sale},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    outcome::Outcome,
    payment::{PaymentPolicy, ReceivedMoney},
    time::{Timestamp, Window},
};
use serde::Serialize;
use uuid::Uuid;

/// Most due changes per tick; a tick is repeated while more are due.
const TICK_EVENTS: usize = 10_000;
/// First id of the sales: a UUID of version 7, plus a number.
const FIRST_ID: u128 = 0x0193_2c07_8e5a_7000_9000_0000_0000_0000;

/// Sale of the shop.
#[derive(Debug, Clone)]
pub struct ShadowSale {
    /// The shop's id.
    pub id: String,
    /// Units, limit, price and hold.
    pub rules: Sale,
    /// Time in which claims are accepted.
    pub window: Window,
}

/// Event of the shop's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShadowEvent {
    /// A claim, and the shop's decision.
    Claim {
        /// The sale, by the shop's id.
        sale: String,
        /// The user.
        user: UserId,
        /// Units.
        quantity: u32,
        /// Key of the request. A claim with the same key is a retry.
        key: Option<IdempotencyKey>,
        /// The shop's id of the order. A later claim that was answered with the same order is a retry.
        order: Option<String>,
        /// Whether the shop granted it.
        is_granted: bool,
    },
    /// An order was paid.
    Paid {
        /// The shop's id of the order.
        order: String,
    },
    /// A held order was cancelled.
    Cancelled {
        /// The shop's id of the order.
        order: String,
    },
    /// A paid order was returned.
    Returned {
        /// The shop's id of the order.
        order: String,
    },
    /// The stock of a sale was set.
    Stock {
        /// The sale, by the shop's id.
        sale: String,
        /// Units in all.
        stock: u64,
    },
    /// A sale was closed.
    Closed {
        /// The sale, by the shop's id.
        sale: String,
    },
}

/// Kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchKind {
    /// The shop granted units that are no longer there.
    Oversold,
    /// The shop granted a user more than the limit, or a further order to a claim that repeats one.
    SecondOrder,
    /// The shop granted before the start, after the end, or while the sale was closed.
    OutsideWindow,
    /// The shop refused a claim that is granted here.
    RefusedThere,
    /// The shop's log names a sale that is not in the file of sales.
    UnknownSale,
    /// The shop used one key for different claims.
    KeyReused,
}

impl MismatchKind {
    /// Name as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Oversold => "oversold",
            Self::SecondOrder => "second_order",
            Self::OutsideWindow => "outside_window",
            Self::RefusedThere => "refused_there",
            Self::UnknownSale => "unknown_sale",
            Self::KeyReused => "key_reused",
        }
    }
}

/// Claim that the shop decided in another way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionMismatch {
    /// Line of the shop's log.
    pub line: u64,
    /// Kind of the difference.
    pub kind: MismatchKind,
    /// The sale.
    pub sale: String,
    /// The user.
    pub user: String,
    /// Units of the claim.
    pub quantity: u32,
    /// Outcome here.
    pub outcome: &'static str,
    /// Units that remained here before the claim.
    pub remaining: u64,
}

/// Numbers of a sale.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SaleComparison {
    /// The sale.
    pub sale: String,
    /// Units at the end of the log.
    pub stock: u64,
    /// Claims of the log.
    pub claims: u64,
    /// Units that the shop granted, less those of orders that were cancelled or returned.
    pub sold_there: u64,
    /// Units that users have here.
    pub sold_here: u64,
    /// Differences by kind.
    pub differences: BTreeMap<MismatchKind, u64>,
}

/// Comparison of a whole log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShadowReport {
    /// Claims of the log.
    pub claims: u64,
    /// Claims with the same decision.
    pub same: u64,
    /// Events of orders that are not known here, because the decision of their claim differs or is not in the log.
    pub unmatched_events: u64,
    /// Sales, by id.
    pub sales: Vec<SaleComparison>,
    /// Differences, in the order of the log.
    pub differences: Vec<DecisionMismatch>,
}

/// Order of the shop.
struct ShopOrder {
    sale: String,
    /// Units that the shop granted and that were not cancelled or returned.
    units: u32,
    /// The same order here, if it was granted here too.
    here: Option<OrderId>,
}

/// Decides a log, line by line, beside the shop.
pub struct Shadow {
    book: Book,
    sales: BTreeMap<String, (CampaignId, SaleComparison)>,
    orders: HashMap<String, ShopOrder>,
    report: ShadowReport,
    payments: u64,
    now: Timestamp,
}

impl Shadow {
    /// A shadow with these sales.
    ///
    /// # Errors
    /// If two sales have one id, which it names.
    pub fn new(sales: Vec<ShadowSale>) -> Result<Self, String> {
        let mut shadow = Self {
            book: Book::new(),
            sales: BTreeMap::new(),
            orders: HashMap::new(),
            report: ShadowReport::default(),
            payments: 0,
            now: Timestamp::default(),
        };
        for (number, sale) in (0..).zip(sales) {
            let campaign = campaign_id(number).ok_or("there are too many sales")?;
            let comparison = SaleComparison {
                sale: sale.id.clone(),
                stock: sale.rules.stock(),
                ..SaleComparison::default()
            };
            shadow.open(campaign, &sale);
            if shadow
                .sales
                .insert(sale.id.clone(), (campaign, comparison))
                .is_some()
            {
                return Err(format!("two sales have the id {}", sale.id));
            }
        }
        Ok(shadow)
    }

    fn open(&mut self, id: CampaignId, sale: &ShadowSale) {
        let campaign = Campaign {
            id,
            owner: UserId::new("shop").expect("it is a valid user"),
            title: sale.id.clone(),
            window: sale.window,
            ack: AckLevel::Memory,
            requirements: Requirements::default(),
            payment_policy: PaymentPolicy::default(),
            created_at: Timestamp::default(),
            rules: Rules::Sale(sale.rules),
        };
        self.book.restore(Setup {
            shares: Vec::new(),
            campaign,
        });
    }

    /// Decides one event of the log.
    ///
    /// # Errors
    /// If it is earlier than the one before.
    pub fn apply(&mut self, line: u64, at: Timestamp, event: &ShadowEvent) -> Result<(), String> {
        if at < self.now {
            return Err(
                "the line is earlier than the one before: sort the file by `at`".to_owned(),
            );
        }
        self.now = at;
        self.tick();
        match event {
            ShadowEvent::Claim {
                sale,
                user,
                quantity,
                key,
                order,
                is_granted,
            } => {
                let claim = ShopClaim {
                    line,
                    sale,
                    user,
                    quantity: *quantity,
                    key: key.as_ref(),
                    order: order.as_deref(),
                    is_granted: *is_granted,
                };
                self.claim(&claim);
            }
            ShadowEvent::Paid { order } => {
                self.payments += 1;
                let payment = PaymentRef::new(&format!("shadow-{}", self.payments));
                let payment = payment.expect("it is a valid reference");
                self.change(order, |order| Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                });
            }
            ShadowEvent::Cancelled { order } => {
                self.end(order);
                self.change(order, |order| Command::Cancel { order, part: None });
            }
            ShadowEvent::Returned { order } => {
                self.end(order);
                self.change(order, |order| Command::Return { order, part: None });
            }
            ShadowEvent::Stock { sale, stock } => {
                let Some((campaign, comparison)) = self.sales.get_mut(sale) else {
                    self.report.unmatched_events += 1;
                    return Ok(());
                };
                comparison.stock = *stock;
                let command = Command::SetStock {
                    campaign: *campaign,
                    stock: *stock,
                };
                self.submit(&command);
            }
            ShadowEvent::Closed { sale } => match self.sales.get(sale) {
                Some((campaign, _)) => {
                    let command = Command::Act {
                        campaign: *campaign,
                        action: CampaignAction::Close,
                    };
                    self.submit(&command);
                }
                None => self.report.unmatched_events += 1,
            },
        }
        Ok(())
    }

    /// Comparison of everything so far.
    #[must_use]
    pub fn into_report(mut self) -> ShadowReport {
        let sales = std::mem::take(&mut self.sales);
        for (campaign, mut comparison) in sales.into_values() {
            let tally = self.book.tally(self.now, campaign);
            comparison.sold_here = tally.map_or(0, |tally| tally.granted);
            self.report.sales.push(comparison);
        }
        self.report
    }

    /// Applies what is due: ends of holds and windows.
    fn tick(&mut self) {
        let tick = Command::Tick {
            events_max: TICK_EVENTS,
        };
        while self.book.next_due().is_some_and(|due| due <= self.now) {
            let more = self.book.apply(self.now, &tick, &mut Vec::new());
            if more != Ok(qiang_core::book::Reply::Ticked { more: true }) {
                return;
            }
        }
    }

    fn claim(&mut self, claim: &ShopClaim<'_>) {
        self.report.claims += 1;
        let Some((campaign, comparison)) = self.sales.get_mut(claim.sale) else {
            return self.differ(claim, MismatchKind::UnknownSale, "unknown_campaign", 0);
        };
        comparison.claims += 1;
        let campaign = *campaign;
        let remaining = self
            .book
            .tally(self.now, campaign)
            .map_or(0, |tally| tally.remaining);
        let decided = self.book.claim(
            self.now,
            &Claim {
                campaign,
                kind: CampaignKind::Sale,
                user: claim.user.clone(),
                quantity: claim.quantity,
                key: claim.key.cloned(),
            },
            &mut Vec::new(),
        );
        let is_retry = self.is_retry(claim);
        if claim.is_granted && !is_retry {
            self.record(claim, &decided);
        }
        let (outcome, kind) = match &decided {
            Ok(outcome) => (outcome.name(), difference(outcome, claim, is_retry)),
            Err(_) => ("key_reused", Some(MismatchKind::KeyReused)),
        };
        match kind {
            Some(kind) => self.differ(claim, kind, outcome, remaining),
            None => self.report.same += 1,
        }
    }

    /// Whether the shop answered a claim with an order that it had granted before.
    fn is_retry(&self, claim: &ShopClaim<'_>) -> bool {
        claim
            .order
            .is_some_and(|order| self.orders.contains_key(order))
    }

    /// Records the shop's grant.
    fn record(&mut self, claim: &ShopClaim<'_>, decided: &Result<Outcome, Refusal>) {
        let grant = decided.as_ref().ok().and_then(Outcome::grant);
        let is_repeated = matches!(decided, Ok(Outcome::AlreadyGranted(_)));
        // The same key gets the same order, so it adds no units.
        if is_repeated && claim.key.is_some() && claim.order.is_none() {
            return;
        }
        if let Some((_, comparison)) = self.sales.get_mut(claim.sale) {
            comparison.sold_there += u64::from(claim.quantity);
        }
        if let Some(order) = claim.order {
            self.orders.insert(
                order.to_owned(),
                ShopOrder {
                    sale: claim.sale.to_owned(),
                    units: claim.quantity,
                    here: grant.filter(|_| !is_repeated).map(|grant| grant.order_id()),
                },
            );
        }
    }

    fn differ(
        &mut self,
        claim: &ShopClaim<'_>,
        kind: MismatchKind,
        outcome: &'static str,
        remaining: u64,
    ) {
        if let Some((_, comparison)) = self.sales.get_mut(claim.sale) {
            *comparison.differences.entry(kind).or_default() += 1;
        }
        self.report.differences.push(DecisionMismatch {
            line: claim.line,
            kind,
            sale: claim.sale.to_owned(),
            user: claim.user.to_string(),
            quantity: claim.quantity,
            outcome,
            remaining,
        });
    }

    /// Ends an order of the shop: its units are sold again there.
    fn end(&mut self, order: &str) {
        let Some(order) = self.orders.get_mut(order) else {
            return;
        };
        let units = std::mem::take(&mut order.units);
        if let Some((_, comparison)) = self.sales.get_mut(&order.sale) {
            comparison.sold_there -= u64::from(units);
        }
    }

    fn change(&mut self, order: &str, command: impl FnOnce(OrderId) -> Command) {
        match self.orders.get(order).and_then(|order| order.here) {
            Some(here) => self.submit(&command(here)),
            None => self.report.unmatched_events += 1,
        }
    }

    fn submit(&mut self, command: &Command) {
        if self.book.apply(self.now, command, &mut Vec::new()).is_err() {
            self.report.unmatched_events += 1;
        }
    }
}

/// Claim with the shop's decision.
struct ShopClaim<'a> {
    line: u64,
    sale: &'a str,
    user: &'a UserId,
    quantity: u32,
    key: Option<&'a IdempotencyKey>,
    order: Option<&'a str>,
    is_granted: bool,
}

/// Kind of difference between an outcome and the shop's decision; `None` if they agree.
fn difference(outcome: &Outcome, claim: &ShopClaim<'_>, is_retry: bool) -> Option<MismatchKind> {
    match (claim.is_granted, outcome) {
        (true, Outcome::Granted(_)) => None,
        // A retry is answered with the first grant, also after the sale is over.
        (true, _) if is_retry => None,
        (true, Outcome::AlreadyGranted(_)) if claim.key.is_some() && claim.order.is_none() => None,
        (true, Outcome::AlreadyGranted(_) | Outcome::LimitReached { .. }) => {
            Some(MismatchKind::SecondOrder)
        }
        (true, Outcome::SoldOut { .. }) => Some(MismatchKind::Oversold),
        (true, Outcome::NotStarted { .. } | Outcome::Ended | Outcome::Paused) => {
            Some(MismatchKind::OutsideWindow)
        }
        (true, Outcome::UnknownCampaign) => Some(MismatchKind::UnknownSale),
        (false, Outcome::Granted(_)) => Some(MismatchKind::RefusedThere),
        // Many shops refuse a user who has the order already.
        (false, _) => None,
    }
}

/// Id of the sale with this number.
fn campaign_id(number: u32) -> Option<CampaignId> {
    CampaignId::new(Uuid::from_u128(FIRST_ID | u128::from(number))).ok()
}
