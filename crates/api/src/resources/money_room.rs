//! Room for money. The ledger cannot refuse what an engine has decided, so whatever would bring an account out of its
//! range is refused before.
//!
//! An account's range is half of 64 bits. The other half is for what is decided and not settled yet. Small amounts
//! never come to that much in a log; large ones come one by one, each once all before it are settled.

use std::time::Duration;

use qiang_core::{
    campaign::STOCK_PRICE_MINOR_MAX,
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, MONEY_MINOR_MAX, Money},
    payment::{PaymentOutcome, PaymentPolicy, Received},
    ports::LedgerError,
};
use tokio::{sync::MutexGuard, time::timeout};

use crate::{
    app::App,
    http::problem::{Problem, ProblemKind},
};

/// From here on amounts are large. Forty million smaller ones fit into the half of the range that is not the ledger's.
const LARGE_MINOR: i64 = 100_000_000_000;
/// How long a large amount waits for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Between whom the price of an order moves.
pub(crate) struct Parties {
    pub(crate) currency: Currency,
    pub(crate) seller: UserId,
    pub(crate) buyer: UserId,
}

/// Held until an amount is decided: large ones come one by one.
pub(crate) type Room<'a> = Option<MutexGuard<'a, ()>>;

impl App {
    /// Refuses a payment for which accounts have no room, to whomever it may go. One that the ledger has is not
    /// refused: it is answered as before.
    pub(crate) async fn room_for_payment(
        &self,
        parties: &Parties,
        (order, payment): (OrderId, &PaymentRef),
        paid: (Money, Received),
    ) -> Result<Room<'_>, Problem> {
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
        (Money { minor, currency }, received): (Money, Received),
    ) -> Result<Room<'_>, Problem> {
        let turn = self.turn_of(minor).await?;
        // The outside owes what all others have together.
        fits(self.ports.ledger.money_in(currency).await?, minor)?;
        if turn.is_some() {
            match received {
                // What a return owes back is what was paid, whether it is the price or not.
                Received::Price | Received::Accepted(_) => {
                    self.fit(parties, (minor, minor)).await?
                }
                Received::Other(_) => {
                    let (_, is_owed) = self.balance(&parties.buyer, currency).await?;
                    fits(is_owed, minor)?;
                }
            }
        }
        Ok(turn)
    }

    /// Largest amount that may have paid an order of this price, and that its return owes back.
    pub(crate) async fn paid_minor_max(
        &self,
        order: OrderId,
        policy: PaymentPolicy,
        price: Money,
    ) -> Result<i64, Problem> {
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
        // A payment that the ledger does not have yet may be of any amount.
        Ok(paid.map_or(STOCK_PRICE_MINOR_MAX, |paid| {
            paid.received.money(price).minor
        }))
    }

    /// Refuses the return of an order for which accounts have no room: the seller pays for it, with money or without.
    pub(crate) async fn room_for_return(
        &self,
        parties: &Parties,
        minor: i64,
    ) -> Result<Room<'_>, Problem> {
        let turn = self.turn_of(minor).await?;
        if turn.is_some() {
            self.fit(parties, (-minor, minor)).await?;
        }
        Ok(turn)
    }

    /// Whether the seller has room for one amount, and what the buyer is owed for another.
    async fn fit(&self, parties: &Parties, (sold, due): (i64, i64)) -> Result<(), Problem> {
        let (has, _) = self.balance(&parties.seller, parties.currency).await?;
        fits(has, sold)?;
        let (_, is_owed) = self.balance(&parties.buyer, parties.currency).await?;
        fits(is_owed, due)
    }

    /// What a user has, and is owed.
    async fn balance(&self, user: &UserId, currency: Currency) -> Result<(i64, i64), Problem> {
        let balances = self.ports.ledger.balances(user).await?;
        let mut balances = balances.iter();
        let own = balances.find(|balance| balance.available.currency == currency);
        Ok(own.map_or((0, 0), |it| (it.available.minor, it.refunds_due_minor)))
    }

    /// Waits until it is the turn of a large amount, and everything before it is settled.
    async fn turn_of(&self, minor: i64) -> Result<Room<'_>, Problem> {
        if minor < LARGE_MINOR {
            return Ok(None);
        }
        let late = || {
            let why = "the ledger does not have yet what was paid and returned before, and this is a large amount: \
                       nothing was decided, come again";
            Problem::new(ProblemKind::Unavailable, why)
        };
        let turn = timeout(TURN_WAIT_MAX, self.large_amounts.lock()).await;
        let turn = turn.map_err(|_| late())?;
        match self.settled().await? {
            true => Ok(Some(turn)),
            false => Err(late()),
        }
    }
}

/// Whether an account that has so much has room for an amount.
fn fits(held: i64, minor: i64) -> Result<(), Problem> {
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
