//! Plan that restores deleted orders and shares: rows that the ledger lacks, and postings that its journal lacks.
//! Counts do not change.

use super::{
    plan::{Planner, SettlementPlan},
    rows::{KnownCampaign, NewOrder, PaymentRow, ReturnRow, ShareGrant},
};
use crate::{
    campaign::CampaignKind,
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    order::{OrderState, PartKind, owed_for_returned},
    payment::{PaymentOutcome, PaymentState},
    reconcile::{DeletedOrder, DeletedOrders},
    rows::{AccountPurpose, Contradiction, OUTSIDE},
};

/// Columns of an order that is still there: number and `updated_at`.
pub type RemainingOrderColumns = (i64, i64);
/// Columns of a share's row that is still there: number and user.
pub type RemainingShareColumns = (i64, Option<String>);
/// Columns of a payment that is still there: number, payment and `at`.
pub type RemainingPaymentColumns = (i64, String, i64);
/// Columns of a posting of an order that is still there: number, kind, amount, currency of the account that gets it,
/// and `at`.
pub type RemainingPostingColumns = (i64, String, i64, Option<String>, i64);

/// Columns of a return of a part that is still there: number, quantity, amount and `at`.
pub type RemainingReturnColumns = (i64, i64, i64, i64);

/// Rows about deleted orders and shares that the ledger still has.
#[derive(Debug, Clone, Default)]
pub struct RemainingRows {
    /// Orders.
    pub orders: Vec<RemainingOrderColumns>,
    /// Shares of a packet.
    pub shares: Vec<RemainingShareColumns>,
    /// Payments.
    pub payments: Vec<RemainingPaymentColumns>,
    /// Returns of parts, without cancellations.
    pub returns: Vec<RemainingReturnColumns>,
    /// Postings of the kinds `grant`, `payment`, `refund_due` and `return`.
    pub postings: Vec<RemainingPostingColumns>,
}

impl RemainingRows {
    /// Numbers and amounts of the packet's deleted shares that have no row. The ledger enters them without a user
    /// before it writes the plan.
    #[must_use]
    pub fn missing_shares(
        &self,
        known: &KnownCampaign,
        deleted: &DeletedOrders,
    ) -> Vec<(i64, i64)> {
        if known.kind != CampaignKind::RedPacket {
            return Vec::new();
        }
        let has_row = |number: i64| self.shares.iter().any(|it| it.0 == number);
        let shares = deleted.orders.iter();
        let shares = shares.map(|it| (i64::from(it.number), it.row.amount_minor));
        shares.filter(|(number, _)| !has_row(*number)).collect()
    }
}

/// Postings of one order that are not matched with a payment or return yet.
struct RemainingPostings<'r>(Vec<&'r RemainingPostingColumns>);

impl RemainingPostings<'_> {
    /// Removes a posting of this kind and money, and of this time if that is known. Returns the time of the posting.
    fn take(&mut self, kind: &str, money: Money, at: Option<i64>) -> Option<i64> {
        let is_it = |it: &&RemainingPostingColumns| {
            let currency = it.3.as_deref().unwrap_or(money.currency.code());
            (it.1.as_str(), it.2, currency) == (kind, money.minor, money.currency.code())
                && at.is_none_or(|at| it.4 == at)
        };
        let place = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(place).4)
    }
}

/// A payment of an order that is restored.
struct RestoredPayment<'a> {
    payment: &'a PaymentRef,
    state: PaymentState,
    money: Money,
    /// Time of its row, if the row exists.
    known_at: Option<i64>,
    /// Time of its posting, if the posting exists.
    posted_at: Option<i64>,
}

impl RestoredPayment<'_> {
    fn pays(&self) -> bool {
        self.state.outcome != PaymentOutcome::RefundDue
    }

    /// Kind of its posting.
    fn kind(&self) -> &'static str {
        match self.pays() {
            true => "payment",
            false => "refund_due",
        }
    }
}

/// Sums of the returns of parts of one order.
struct PartReturns {
    units: i64,
    /// Minor units that are owed for them.
    owed: i64,
    /// Time of the last one, if together they return the whole order.
    returned_all_at: Option<i64>,
}

/// Source of log positions for restored postings.
struct LogPositions {
    place: i64,
}

impl<'a> SettlementPlan<'a> {
    /// Plans the restoration of orders or shares. Rows in `left` still exist. Those of orders, and those of shares with
    /// a user, stay as they are.
    ///
    /// # Errors
    /// If the postings exceed the range of money.
    pub fn restore_orders(
        known: &'a KnownCampaign,
        deleted: &'a DeletedOrders,
        left: &RemainingRows,
    ) -> Result<Self, Contradiction> {
        let campaigns = std::slice::from_ref(known);
        let mut planner = Planner::new(deleted.partition, campaigns, &[]);
        let mut journal = LogPositions {
            place: deleted.place as i64,
        };
        for order in &deleted.orders {
            match known.kind {
                CampaignKind::RedPacket => {
                    planner.restore_share(known, order, left, &mut journal)?;
                }
                CampaignKind::Sale => {
                    planner.put_back(known, order, deleted, left, &mut journal)?
                }
            }
        }
        Ok(planner.into_plan())
    }
}

impl<'a> Planner<'a> {
    /// Restores the user of a share. The money moves only if the journal lacks the posting of the grant.
    fn restore_share(
        &mut self,
        known: &'a KnownCampaign,
        share: &'a DeletedOrder,
        left: &RemainingRows,
        journal: &mut LogPositions,
    ) -> Result<(), Contradiction> {
        let (row, number) = (&share.row, i64::from(share.number));
        let at = row.granted_at.as_millis();
        let mut shares = left.shares.iter();
        if !shares.any(|it| it.0 == number && it.1.is_some()) {
            self.plan.shares.push(ShareGrant {
                campaign: known.campaign_ref,
                number,
                user: row.user.as_str(),
                amount: row.amount_minor,
                at,
            });
        }
        let mut postings = left.postings.iter();
        if postings.any(|it| (it.0, it.1.as_str()) == (number, "grant")) {
            return Ok(());
        }
        let escrow = self.account(known, &known.name, AccountPurpose::Escrow);
        let user = self.account(known, row.user.as_str(), AccountPurpose::User);
        let posting = ("grant", number, at);
        journal.post(self, known, posting, (escrow, user), row.amount_minor)
    }

    fn put_back(
        &mut self,
        known: &'a KnownCampaign,
        order: &'a DeletedOrder,
        deleted: &DeletedOrders,
        left: &RemainingRows,
        journal: &mut LogPositions,
    ) -> Result<(), Contradiction> {
        let (row, number) = (&order.row, i64::from(order.number));
        let own = left.postings.iter().filter(|it| it.0 == number);
        let mut postings = RemainingPostings(own.collect());
        let updated_at = left.orders.iter().find(|it| it.0 == number).map(|it| it.1);
        let now = deleted.now.max(row.granted_at).as_millis();
        let price = Money::new(row.amount_minor, known.currency);
        let known_at = |payment: &PaymentRef| {
            let mut payments = left.payments.iter();
            let found = payments.find(|it| it.0 == number && it.1 == payment.as_str());
            found.map(|it| it.2)
        };
        let mut payments: Vec<_> = order
            .payments
            .iter()
            .map(|(payment, state)| RestoredPayment {
                payment,
                state: *state,
                money: state.received.money(price),
                known_at: known_at(payment),
                posted_at: None,
            })
            .collect();
        // Existing payments match postings of the same time first. Then any other posting of the same money counts,
        // because money that has moved must not move again.
        for payment in payments.iter_mut().filter(|it| it.known_at.is_some()) {
            payment.posted_at = postings.take(payment.kind(), payment.money, payment.known_at);
        }
        payments.sort_by_key(|it| it.known_at.is_none());
        for payment in payments.iter_mut().filter(|it| it.posted_at.is_none()) {
            payment.posted_at = postings.take(payment.kind(), payment.money, None);
        }
        // A return refunds the amount that paid the order, which may differ from its price.
        let paying = payments.iter().find(|it| it.pays());
        let paid = paying.map_or(price, |it| it.money);
        let mut paid_at = None;
        for it in payments {
            let pays = it.pays();
            let of_order = updated_at.filter(|_| pays && row.state == OrderState::Paid);
            let said = order.paid_at(it.payment).map(|at| at.as_millis());
            let at = it.known_at.or(it.posted_at).or(of_order).or(said);
            let at = at.unwrap_or(now);
            if pays {
                paid_at = Some(at);
            }
            if it.known_at.is_none() {
                self.plan.payments.push(PaymentRow {
                    campaign: known.campaign_ref,
                    number,
                    payment: it.payment.as_str(),
                    outcome: it.state.outcome.name(),
                    amount: it.money.minor,
                    at,
                    currency: it.state.received.other().map(|it| it.currency.code()),
                });
            }
            if it.posted_at.is_none() && it.money.minor > 0 {
                let (owner, purpose) = match pays {
                    true => (known.owner.as_str(), AccountPurpose::User),
                    false => (row.user.as_str(), AccountPurpose::RefundsDue),
                };
                let debit = self.account_in(it.money.currency, OUTSIDE, AccountPurpose::Outside);
                let credit = self.account_in(it.money.currency, owner, purpose);
                let posting = (it.kind(), number, at);
                journal.post(self, known, posting, (debit, credit), it.money.minor)?;
            }
        }
        let parts = self.put_back_returns(known, (order, paid), left, &mut postings, now)?;
        let ended_at = order.ended_at(row.state).map(|at| at.as_millis());
        let length_ms = known.hold_ms.saturating_add(row.extension_ms);
        let hold_until = row.granted_at.plus_millis(length_ms).as_millis();
        let mut at = match row.state {
            OrderState::Held => row.granted_at.as_millis(),
            OrderState::Paid => paid_at.unwrap_or(now),
            OrderState::Expired => ended_at.unwrap_or(hold_until),
            OrderState::Cancelled => ended_at.unwrap_or(now),
            OrderState::Returned => ended_at.or(parts.returned_all_at).unwrap_or(now),
        };
        // The last return owes what the returns of parts have left.
        let rest = Money::new(paid.minor - parts.owed, paid.currency);
        if row.state == OrderState::Returned && rest.minor > 0 {
            let exact = updated_at.and_then(|_| postings.take("return", rest, updated_at));
            match exact.or_else(|| postings.take("return", rest, None)) {
                Some(posted_at) => at = posted_at,
                None => {
                    at = updated_at.unwrap_or(at);
                    let debit = self.account(known, &known.owner, AccountPurpose::User);
                    let credit = self.account(known, row.user.as_str(), AccountPurpose::RefundsDue);
                    let accounts = (debit, credit);
                    journal.post(self, known, ("return", number, at), accounts, rest.minor)?;
                }
            }
        }
        if updated_at.is_some() {
            return Ok(());
        }
        self.orders.add(NewOrder {
            campaign: known.campaign_ref,
            number,
            user: row.user.as_str(),
            quantity: i64::from(row.quantity),
            returned_in_parts: parts.units,
            cancelled_in_parts: i64::from(row.cancelled),
            amount: row.amount_minor,
            state: row.state,
            one_per_user: known.one_per_user,
            granted_at: row.granted_at.as_millis(),
            hold_until,
            extension_ms: row.extension_ms,
            updated_at: at,
            key: row.key.as_ref().map(IdempotencyKey::as_str),
        })
    }
}

impl<'a> Planner<'a> {
    /// Puts back rows of cancellations and returns of parts. Money of returns has moved: the order's row says that
    /// their units are returned.
    /// Returns the sums of all returns of parts, including the ones that the ledger still has.
    fn put_back_returns(
        &mut self,
        known: &'a KnownCampaign,
        (order, paid): (&'a DeletedOrder, Money),
        left: &RemainingRows,
        postings: &mut RemainingPostings<'_>,
        now: i64,
    ) -> Result<PartReturns, Contradiction> {
        let number = i64::from(order.number);
        let (mut units, mut owed, mut last) = (0, 0, None);
        for (_, quantity, amount, at) in left.returns.iter().filter(|it| it.0 == number) {
            (units, owed, last) = (units + quantity, owed + amount, last.max(Some(*at)));
            postings.take("return", Money::new(*amount, paid.currency), Some(*at));
        }
        for (key, quantity) in &order.returns {
            units += i64::from(*quantity);
            let count = u32::try_from(units).unwrap_or(u32::MAX);
            let amount = owed_for_returned(paid.minor, count, order.row.quantity) - owed;
            if amount < 0 {
                let why = format!("returns of order {number} owe {owed}, which is too much");
                return Err(Contradiction::new(why));
            }
            owed += amount;
            let said = order.part_at(key).map(|at| at.as_millis());
            let posted_at = postings.take("return", Money::new(amount, paid.currency), said);
            let at = said.or(posted_at).unwrap_or(now);
            last = last.max(Some(at));
            self.plan.returns.push(ReturnRow {
                campaign: known.campaign_ref,
                number,
                key: key.as_str(),
                quantity: i64::from(*quantity),
                amount,
                at,
                kind: PartKind::Return,
            });
        }
        // A cancellation moved no money.
        for (key, quantity) in &order.cancellations {
            let said = order.part_at(key).map(|at| at.as_millis());
            self.plan.returns.push(ReturnRow {
                campaign: known.campaign_ref,
                number,
                key: key.as_str(),
                quantity: i64::from(*quantity),
                amount: 0,
                at: said.unwrap_or(now),
                kind: PartKind::Cancellation,
            });
        }
        Ok(PartReturns {
            units,
            owed,
            returned_all_at: last.filter(|_| units == i64::from(order.row.quantity)),
        })
    }
}

impl LogPositions {
    fn post(
        &mut self,
        planner: &mut Planner<'_>,
        known: &KnownCampaign,
        (kind, number, at): (&'static str, i64, i64),
        accounts: (usize, usize),
        amount: i64,
    ) -> Result<(), Contradiction> {
        let place = (self.place, at);
        self.place += 1;
        planner.post_at(known, place, kind, accounts, amount, Some(number))
    }
}

#[cfg(test)]
mod tests;
