//! Plan that restores deleted orders and shares: rows that the ledger lacks, and postings that its journal lacks.
//! Counts do not change.

use super::{
    plan::{Plan, Planner},
    rows::{KnownCampaign, NewOrder, PaymentRow, ReturnRow, ShareGrant},
};
use crate::{
    campaign::CampaignKind,
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    order::{OrderState, owed_for_returned},
    payment::{PaymentOutcome, PaymentState},
    reconcile::{DeletedOrder, DeletedOrders},
    rows::{Contradiction, OUTSIDE, Purpose},
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
    /// Returns of parts.
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
struct Payment<'a> {
    payment: &'a PaymentRef,
    state: PaymentState,
    money: Money,
    /// Time of its row, if the row exists.
    known_at: Option<i64>,
    /// Time of its posting, if the posting exists.
    posted_at: Option<i64>,
}

impl Payment<'_> {
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

/// Source of log positions for restored postings.
struct Journal {
    place: i64,
}

impl<'a> Plan<'a> {
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
        let mut journal = Journal {
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
        journal: &mut Journal,
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
        let escrow = self.account(known, &known.name, Purpose::Escrow);
        let user = self.account(known, row.user.as_str(), Purpose::User);
        let posting = ("grant", number, at);
        journal.post(self, known, posting, (escrow, user), row.amount_minor)
    }

    fn put_back(
        &mut self,
        known: &'a KnownCampaign,
        order: &'a DeletedOrder,
        deleted: &DeletedOrders,
        left: &RemainingRows,
        journal: &mut Journal,
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
            .map(|(payment, state)| Payment {
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
                    true => (known.owner.as_str(), Purpose::User),
                    false => (row.user.as_str(), Purpose::RefundsDue),
                };
                let debit = self.account_in(it.money.currency, OUTSIDE, Purpose::Outside);
                let credit = self.account_in(it.money.currency, owner, purpose);
                let posting = (it.kind(), number, at);
                journal.post(self, known, posting, (debit, credit), it.money.minor)?;
            }
        }
        self.put_back_returns(known, (order, paid), left, &mut postings, now)?;
        let ended_at = order.ended_at(row.state).map(|at| at.as_millis());
        let hold_until = row.granted_at.plus_millis(known.hold_ms).as_millis();
        let mut at = match row.state {
            OrderState::Held => row.granted_at.as_millis(),
            OrderState::Paid => paid_at.unwrap_or(now),
            OrderState::Expired => ended_at.unwrap_or(hold_until),
            OrderState::Cancelled | OrderState::Returned => ended_at.unwrap_or(now),
        };
        if row.state == OrderState::Returned && paid.minor > 0 {
            let exact = updated_at.and_then(|_| postings.take("return", paid, updated_at));
            match exact.or_else(|| postings.take("return", paid, None)) {
                Some(posted_at) => at = posted_at,
                None => {
                    at = updated_at.unwrap_or(at);
                    let debit = self.account(known, &known.owner, Purpose::User);
                    let credit = self.account(known, row.user.as_str(), Purpose::RefundsDue);
                    let accounts = (debit, credit);
                    journal.post(self, known, ("return", number, at), accounts, paid.minor)?;
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
            returned_in_parts: 0,
            amount: row.amount_minor,
            state: row.state,
            one_per_user: known.one_per_user,
            granted_at: row.granted_at.as_millis(),
            hold_until,
            updated_at: at,
            key: row.key.as_ref().map(IdempotencyKey::as_str),
        })
    }
}

impl<'a> Planner<'a> {
    /// Puts back rows of returns of parts. Their money has moved: the order's row says that their units are returned.
    fn put_back_returns(
        &mut self,
        known: &'a KnownCampaign,
        (order, paid): (&'a DeletedOrder, Money),
        left: &RemainingRows,
        postings: &mut RemainingPostings<'_>,
        now: i64,
    ) -> Result<(), Contradiction> {
        let number = i64::from(order.number);
        let (mut units, mut owed) = (0, 0);
        for (_, quantity, amount, at) in left.returns.iter().filter(|it| it.0 == number) {
            (units, owed) = (units + quantity, owed + amount);
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
            let said = order.returned_at(key).map(|at| at.as_millis());
            let posted_at = postings.take("return", Money::new(amount, paid.currency), said);
            self.plan.returns.push(ReturnRow {
                campaign: known.campaign_ref,
                number,
                key: key.as_str(),
                quantity: i64::from(*quantity),
                amount,
                at: said.or(posted_at).unwrap_or(now),
            });
        }
        Ok(())
    }
}

impl Journal {
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        campaign::{CampaignKind, Phase},
        event::{Entry, PartitionId},
        id::UserId,
        reconcile::GrantRow,
        time::Timestamp,
    };

    const SALE: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81";
    const PRICE: i64 = 50;

    fn packet() -> KnownCampaign {
        KnownCampaign {
            kind: CampaignKind::RedPacket,
            ..known()
        }
    }

    fn known() -> KnownCampaign {
        KnownCampaign {
            campaign_ref: 3,
            id: SALE.parse().expect("an id"),
            name: SALE.to_owned(),
            kind: CampaignKind::Sale,
            owner: "owner".to_owned(),
            currency: "CNY".parse().expect("a currency"),
            one_per_user: true,
            hold_ms: 1_000,
            parts: 1,
            phase: Phase::Scheduled,
            part: None,
            watched: false,
        }
    }

    /// Deleted order 1 of ann, granted at 100. The current time is 900.
    fn deleted(state: OrderState, payments: &[(&str, PaymentOutcome)]) -> DeletedOrders {
        let payment = |(payment, outcome): &(&str, PaymentOutcome)| {
            (
                PaymentRef::new(payment).expect("a reference"),
                (*outcome).into(),
            )
        };
        let order = DeletedOrder {
            number: 1,
            row: GrantRow {
                user: UserId::new("ann").expect("a user"),
                quantity: 1,
                amount_minor: PRICE,
                granted_at: Timestamp::from_millis(100),
                key: None,
                state,
                returned: 0,
            },
            payments: BTreeMap::from_iter(payments.iter().map(payment)),
            returns: BTreeMap::new(),
            entries: Vec::new(),
        };
        DeletedOrders {
            partition: PartitionId(2),
            campaign: SALE.parse().expect("an id"),
            orders: vec![order],
            place: 7,
            now: Timestamp::from_millis(900),
        }
    }

    fn posted(kind: &str, at: i64) -> RemainingPostingColumns {
        (1, kind.to_owned(), PRICE, Some("CNY".to_owned()), at)
    }

    /// Text of the plan: orders, payments and postings with their times, and the changes of accounts.
    fn plan(deleted: &DeletedOrders, left: &RemainingRows) -> String {
        plan_of(&known(), deleted, left)
    }

    fn plan_of(known: &KnownCampaign, deleted: &DeletedOrders, left: &RemainingRows) -> String {
        let plan = Plan::restore_orders(known, deleted, left).expect("a plan");
        assert!(plan.campaigns.is_empty() && plan.told.is_empty());
        let shares = plan.shares.iter();
        let shares = shares.map(|it| format!("{} {} {}", it.user, it.amount, it.at));
        let orders = plan.new_orders.iter();
        let orders = orders.map(|it| format!("{} {}", it.state, it.updated_at));
        let orders = shares.chain(orders);
        let payments = plan.payments.iter();
        let payments = payments.map(|it| format!("{} {} {}", it.payment, it.outcome, it.at));
        let postings = plan.postings.iter();
        let postings = postings.map(|it| format!("{}/{} {} {}", it.source, it.seq, it.kind, it.at));
        let accounts = plan.accounts.iter().filter(|(_, amount)| *amount != 0);
        let accounts = accounts.map(|(key, amount)| format!("{} {amount}", key.owner));
        let all: Vec<String> = orders
            .chain(payments)
            .chain(postings)
            .chain(accounts)
            .collect();
        all.join(", ")
    }

    use PaymentOutcome::{Paid, RefundDue};

    #[test]
    fn money_that_has_moved_does_not_move_again() {
        let paid = deleted(OrderState::Paid, &[("p", Paid)]);
        let payments = vec![(1, "p".to_owned(), 300)];
        let postings = vec![posted("payment", 300)];
        let mut left = RemainingRows {
            payments,
            postings,
            ..RemainingRows::default()
        };
        assert_eq!(plan(&paid, &left), "paid 300");
        // The time is found in the journal.
        left.payments.clear();
        assert_eq!(plan(&paid, &left), "paid 300, p paid 300");
        left.orders = vec![(1, 300)];
        assert_eq!(plan(&paid, &left), "p paid 300");
        // No row of the order is left.
        let all = "paid 900, p paid 900, 2/7 payment 900, owner 50, outside -50";
        assert_eq!(plan(&paid, &RemainingRows::default()), all);
        // The payment exists, and its posting is missing.
        left = RemainingRows {
            payments: vec![(1, "p".to_owned(), 300)],
            ..RemainingRows::default()
        };
        let again = "paid 300, 2/7 payment 300, owner 50, outside -50";
        assert_eq!(plan(&paid, &left), again);
        // A posting with another time counts as the same money.
        left.postings = vec![posted("payment", 299)];
        assert_eq!(plan(&paid, &left), "paid 300");
        // Postings of another order do not count.
        left.postings[0].0 = 2;
        assert_eq!(plan(&paid, &left), again);
    }

    #[test]
    fn a_share_is_restored_and_its_money_moves_once() {
        let (packet, share) = (packet(), deleted(OrderState::Held, &[]));
        let granted = "ann 50 100";
        let mut left = RemainingRows {
            postings: vec![posted("grant", 100)],
            ..RemainingRows::default()
        };
        assert_eq!(left.missing_shares(&packet, &share), [(1, 50)]);
        assert_eq!(plan_of(&packet, &share, &left), granted);
        left.shares = vec![(1, None)];
        assert!(left.missing_shares(&packet, &share).is_empty());
        assert_eq!(plan_of(&packet, &share, &left), granted);
        left.postings.clear();
        let all = format!("ann 50 100, 2/7 grant 100, ann 50, {SALE} -50");
        assert_eq!(plan_of(&packet, &share, &left), all);
        // The posting of another share does not count.
        left.postings = vec![posted("grant", 100)];
        left.postings[0].0 = 2;
        assert_eq!(plan_of(&packet, &share, &left), all);
        // A second attempt changes nothing.
        left.shares = vec![(1, Some("ann".to_owned()))];
        left.postings[0].0 = 1;
        assert_eq!(plan_of(&packet, &share, &left), "");
        assert!(left.missing_shares(&known(), &share).is_empty());
    }

    #[test]
    fn the_log_says_when_steps_were_made() {
        let mut orders = deleted(OrderState::Returned, &[("p", Paid), ("q", RefundDue)]);
        let all = "returned 900, p paid 900, q refund_due 900, 2/7 payment 900, 2/8 refund_due 900, 2/9 return 900, \
                   ann 100, outside -100";
        assert_eq!(plan(&orders, &RemainingRows::default()), all);
        let events = ["paid 1 p", "refund_due 1 q", "returned 1"];
        let entry = |(seq, event): (i64, &str)| {
            Entry::from_text(&format!("{seq} {} {SALE} {event}", seq * 100)).expect("an entry")
        };
        orders.orders[0].entries = (2..).zip(events).map(entry).collect();
        let all = "returned 400, p paid 200, q refund_due 300, 2/7 payment 200, 2/8 refund_due 300, 2/9 return 400, \
                   ann 100, outside -100";
        assert_eq!(plan(&orders, &RemainingRows::default()), all);
        let left = RemainingRows {
            postings: vec![posted("refund_due", 301), posted("return", 401)],
            ..RemainingRows::default()
        };
        let some =
            "returned 401, p paid 200, q refund_due 301, 2/7 payment 200, owner 50, outside -50";
        assert_eq!(plan(&orders, &left), some);
    }

    /// Two of three units were returned, for 16 and 17. The rows that are missing owe what the others leave.
    #[test]
    fn returns_of_parts_are_put_back_with_their_money() {
        let check = |keys: &[&str], left: &RemainingRows, expected: &[(&str, i64, i64)]| {
            let mut deleted = deleted(OrderState::Paid, &[("p", Paid)]);
            let order = &mut deleted.orders[0];
            (order.row.quantity, order.row.returned) = (3, 2);
            let key = |key: &&str| (crate::id::IdempotencyKey::new(key).expect("a key"), 1);
            order.returns = keys.iter().map(key).collect();
            let text = format!("5 500 {SALE} returned 1 1 k");
            order.entries = vec![Entry::from_text(&text).expect("an entry")];
            let known = known();
            let plan = Plan::restore_orders(&known, &deleted, left).expect("a plan");
            assert!(plan.new_orders.is_empty() && plan.payments.is_empty());
            assert!(plan.postings.is_empty() && plan.accounts.is_empty());
            let rows = plan.returns.iter().map(|it| (it.key, it.amount, it.at));
            assert_eq!(rows.collect::<Vec<_>>(), expected);
        };
        let returned = |amount, at| (1, "return".to_owned(), amount, Some("CNY".to_owned()), at);
        let mut left = RemainingRows {
            orders: vec![(1, 300)],
            payments: vec![(1, "p".to_owned(), 300)],
            postings: vec![posted("payment", 300), returned(16, 500), returned(17, 600)],
            ..RemainingRows::default()
        };
        check(&["k", "l"], &left, &[("k", 16, 500), ("l", 17, 600)]);
        left.returns = vec![(1, 1, 16, 500)];
        check(&["l"], &left, &[("l", 17, 600)]);
        left.returns = vec![(1, 1, 17, 600)];
        check(&["k"], &left, &[("k", 16, 500)]);
    }

    #[test]
    fn orders_without_payments_have_the_times_of_their_states() {
        let check = |state, expected| {
            assert_eq!(
                plan(&deleted(state, &[]), &RemainingRows::default()),
                expected
            );
        };
        check(OrderState::Held, "held 100");
        check(OrderState::Cancelled, "cancelled 900");
        check(OrderState::Expired, "expired 1100");
    }
}
