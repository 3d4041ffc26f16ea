//! Range checks of accounts. The ledger cannot refuse what an engine has decided, so a change that would exceed an
//! account's range is refused before.
//!
//! An account's range is half of 64 bits. The other half is for decisions that are not settled yet. Small amounts in
//! a log never sum up to that; large ones are decided one at a time, each after all before it are settled.

use std::time::Duration;

use qiang_core::{
    campaign::STOCK_PRICE_MINOR_MAX,
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, MONEY_MINOR_MAX, Money},
    payment::{PaymentOutcome, PaymentPolicy, ReceivedMoney},
    ports::LedgerError,
};
use qiang_wire::problem::ProblemKind;
use tokio::{sync::MutexGuard, time::timeout};

use crate::{app::App, http::problem::ApiProblem};

/// Minimum of large amounts. Forty million smaller ones fit into the half of the range that the ledger does not use.
const LARGE_MINOR: i64 = 100_000_000_000;
/// Longest wait of a large amount for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Seller and buyer of an order, between whom its price moves.
pub(crate) struct Parties {
    pub(crate) currency: Currency,
    pub(crate) seller: UserId,
    pub(crate) buyer: UserId,
}

/// Lock that is held until an amount is decided; `None` for small amounts.
pub(crate) type Room<'a> = Option<MutexGuard<'a, ()>>;

impl App {
    /// Refuses a payment that would exceed an account's range, whether it pays the order or is refunded. A payment
    /// that the ledger already has is not refused, so that its report is answered as before.
    pub(crate) async fn room_for_payment(
        &self,
        parties: &Parties,
        (order, payment): (OrderId, &PaymentRef),
        paid: (Money, ReceivedMoney),
    ) -> Result<Room<'_>, ApiProblem> {
        let refused = match self.room_for_new_payment(parties, paid).await {
            Ok(room) => return Ok(room),
            Err(refused) => refused,
        };
        match self.ports.ledger.payment_of(payment).await? {
            Some(known) if known.order == order => Ok(None),
            _ => Err(refused),
        }
    }

    async fn room_for_new_payment(
        &self,
        parties: &Parties,
        (Money { minor, currency }, received): (Money, ReceivedMoney),
    ) -> Result<Room<'_>, ApiProblem> {
        let turn = self.turn_of(minor).await?;
        // The outside account owes the sum of all others.
        fits(self.ports.ledger.money_in(currency).await?, minor)?;
        if turn.is_some() {
            match received {
                // A return refunds what was paid, whether it was the price or another amount.
                ReceivedMoney::Price | ReceivedMoney::Accepted(_) => {
                    self.fit(parties, (minor, minor)).await?
                }
                ReceivedMoney::Other(_) => {
                    let (_, is_owed) = self.balance(&parties.buyer, currency).await?;
                    fits(is_owed, minor)?;
                }
            }
        }
        Ok(turn)
    }

    /// Largest amount that may have paid an order of this price, and that its return refunds.
    pub(crate) async fn paid_minor_max(
        &self,
        order: OrderId,
        policy: PaymentPolicy,
        price: Money,
    ) -> Result<i64, ApiProblem> {
        match policy {
            PaymentPolicy::Owed => return Ok(price.minor),
            PaymentPolicy::AcceptWithTolerance(minor) => {
                return Ok(price.minor.saturating_add(minor));
            }
            PaymentPolicy::AcceptOver => {}
        }
        let before = order.number.saturating_sub(1);
        let ledger = &self.ports.ledger;
        let payments = ledger.settled_payments(order.campaign, before, order.number);
        let payments = payments.await?;
        let mut payments = payments.into_iter();
        let paid = payments.find(|payment| payment.outcome != PaymentOutcome::RefundDue);
        // A payment that the ledger does not have yet may have any amount.
        Ok(paid.map_or(STOCK_PRICE_MINOR_MAX, |paid| {
            paid.received.money(price).minor
        }))
    }

    /// Refuses the return of an order that would exceed an account's range. The seller pays for it, even with a
    /// negative balance.
    pub(crate) async fn room_for_return(
        &self,
        parties: &Parties,
        minor: i64,
    ) -> Result<Room<'_>, ApiProblem> {
        let turn = self.turn_of(minor).await?;
        if turn.is_some() {
            self.fit(parties, (-minor, minor)).await?;
        }
        Ok(turn)
    }

    /// Checks the range of the seller's balance for one amount, and of the buyer's refunds due for another.
    async fn fit(&self, parties: &Parties, (sold, due): (i64, i64)) -> Result<(), ApiProblem> {
        let (has, _) = self.balance(&parties.seller, parties.currency).await?;
        fits(has, sold)?;
        let (_, is_owed) = self.balance(&parties.buyer, parties.currency).await?;
        fits(is_owed, due)
    }

    /// Available balance of a user, and refunds due.
    async fn balance(&self, user: &UserId, currency: Currency) -> Result<(i64, i64), ApiProblem> {
        let balances = self.ports.ledger.balances(user).await?;
        let mut balances = balances.iter();
        let own = balances.find(|balance| balance.available.currency == currency);
        Ok(own.map_or((0, 0), |it| (it.available.minor, it.refunds_due_minor)))
    }

    /// Waits for the turn of a large amount, and until everything before it is settled.
    async fn turn_of(&self, minor: i64) -> Result<Room<'_>, ApiProblem> {
        if minor < LARGE_MINOR {
            return Ok(None);
        }
        let late = || {
            let why = "the amount is large, and earlier payments and returns are not in the ledger yet: nothing was \
             decided, retry";
            ApiProblem::new(ProblemKind::Unavailable, why)
        };
        let turn = timeout(TURN_WAIT_MAX, self.large_amounts.lock()).await;
        let turn = turn.map_err(|_| late())?;
        match self.settled().await? {
            true => Ok(Some(turn)),
            false => Err(late()),
        }
    }
}

/// Whether an account with this balance has room for an amount.
fn fits(held: i64, minor: i64) -> Result<(), ApiProblem> {
    let room = -MONEY_MINOR_MAX..=MONEY_MINOR_MAX;
    match held
        .checked_add(minor)
        .is_some_and(|sum| room.contains(&sum))
    {
        true => Ok(()),
        false => Err(LedgerError::Overflow.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_half_of_the_range() {
        for (held, minor, expected) in [
            (MONEY_MINOR_MAX - 1, 1, true),
            (MONEY_MINOR_MAX, 1, false),
            (1 - MONEY_MINOR_MAX, -1, true),
            (-MONEY_MINOR_MAX, -1, false),
            (i64::MAX, 1, false),
            (i64::MIN, -1, false),
        ] {
            assert_eq!(fits(held, minor).is_ok(), expected, "{held} and {minor}");
        }
    }
}
