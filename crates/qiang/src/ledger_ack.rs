//! Confirmation by the ledger: of grants and commands with the acknowledgement level `ledger`, and of changes of a
//! sale.

mod effects;

use std::time::Duration;

use qiang_core::{
    book::{Claim, Command, Reply},
    event::{PartitionId, Seq},
    order::OrderState,
    outcome::Grant,
    ports::{EngineError, GrantRecord, Ledger, LedgerError},
    quarantine::GRANT_QUARANTINED,
};
use tokio::time::Instant;

use self::effects::has_effect;

fn failed(error: LedgerError) -> EngineError {
    EngineError::uncertain(error.to_string())
}

/// Waits until the ledger has a partition up to `seq`.
pub(crate) async fn reach(
    ledger: &dyn Ledger,
    (partition, seq): (PartitionId, Seq),
    wait_max: Duration,
) -> Result<(), EngineError> {
    let settled = ledger.await_settled(partition, seq, wait_max).await;
    match settled.map_err(failed)? {
        true => Ok(()),
        false => Err(EngineError::uncertain(
            "the ledger has not confirmed it in time",
        )),
    }
}

/// Whether the ledger has a grant.
pub(crate) async fn has_grant(
    ledger: &dyn Ledger,
    claim: &Claim,
    grant: &Grant,
) -> Result<bool, EngineError> {
    let (campaign, number) = (grant.campaign, grant.number);
    let rows = ledger.grants(campaign, number.saturating_sub(1), 1).await;
    // A free order is paid by an entry of its own. It is confirmed once that entry is settled.
    let is_paid = grant.amount_minor == 0
        && grant
            .order
            .is_some_and(|order| order.state == OrderState::Paid);
    Ok(rows.map_err(failed)?.into_iter().any(|row| {
        row.user == claim.user
            && !(is_paid && row.state == OrderState::Held)
            && row.number == number
            && has_units_of(&row, grant)
    }))
}

/// Whether a row has the units and the amount of a grant. Units may have been cancelled since, on either side.
fn has_units_of(row: &GrantRecord, grant: &Grant) -> bool {
    let cancelled = grant.order.map_or(0, |order| order.cancelled_quantity);
    let claimed = |quantity: u32, cancelled: u32| u64::from(quantity) + u64::from(cancelled);
    let price_of = |minor: i64, units: u32| i128::from(minor) * i128::from(units);
    claimed(row.quantity, row.cancelled) == claimed(grant.quantity, cancelled)
        && price_of(row.amount_minor, grant.quantity) == price_of(grant.amount_minor, row.quantity)
}

/// Checks that the ledger has a grant. Call it after the ledger's position has reached the grant's entry. The position
/// alone is no proof: a repair moves it past lost entries, and another user may get the same number then.
pub(crate) async fn confirm(
    ledger: &dyn Ledger,
    claim: &Claim,
    grant: &Grant,
    partition: PartitionId,
) -> Result<(), EngineError> {
    if has_grant(ledger, claim, grant).await? {
        return Ok(());
    }
    let (campaign, number) = (grant.campaign, grant.number);
    let quarantined = ledger.is_grant_quarantined(partition, campaign, number);
    Err(EngineError::uncertain(
        match quarantined.await.map_err(failed)? {
            true => GRANT_QUARANTINED,
            false => "the ledger does not have the grant: its entry may be lost",
        },
    ))
}

/// Waits until the ledger reaches these positions, then checks that it has the effect that the reply states. A repair
/// does not undo entries that the ledger has.
///
/// # Errors
/// [`EngineError::Uncertain`] if the ledger does not have the effect, or does not answer.
pub(crate) async fn confirm_command(
    ledger: &dyn Ledger,
    (command, reply): (&Command, &Reply),
    places: &[(PartitionId, Seq)],
    wait_max: Duration,
) -> Result<(), EngineError> {
    let until = Instant::now() + wait_max;
    for place in places {
        let left = until.saturating_duration_since(Instant::now());
        reach(ledger, *place, left).await?;
    }
    match has_effect(ledger, command, reply).await.map_err(failed)? {
        true => Ok(()),
        false => Err(EngineError::uncertain(
            "the ledger does not have this change: it was changed since, its entry is in quarantine, or it is lost",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use qiang_core::{
        book::{OrderView, PaymentOutcome},
        event::{Entry, Event},
        id::PaymentRef,
        money::Money,
        outcome::OrderTerms,
        payment::ReceivedMoney,
        ports::{
            CampaignStore as _, QuarantineStore as _, RepairAttempt, RepairStore as _,
            SettlementStore as _,
        },
    };
    use qiang_embedded::SqliteLedger;
    use qiang_testkit::{
        ManualClock,
        campaign::{Builder, OPENS, Target, currency, sale, user},
    };

    use super::*;

    const PARTITION: PartitionId = PartitionId(3);

    struct Case {
        ledger: SqliteLedger,
        target: Target,
        _folder: tempfile::TempDir,
    }

    impl Case {
        async fn new() -> Self {
            Self::from_sale(&sale(5)).await
        }

        async fn from_sale(sale: &Builder) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger.db");
            let clock: Arc<ManualClock> = ManualClock::new(OPENS);
            let ledger = SqliteLedger::open(&path, clock).unwrap();
            let setup = sale.setup(1);
            ledger.create(&setup).await.unwrap();
            let case = Self {
                ledger,
                target: Target::of(&setup),
                _folder: folder,
            };
            case.settle(1, Event::Opened { parts: 1 }).await;
            case
        }

        fn entry(&self, seq: Seq, event: Event) -> Entry {
            let (at, campaign) = (OPENS, self.target.id);
            Entry {
                seq,
                at,
                campaign,
                event,
            }
        }

        async fn settle(&self, seq: Seq, event: Event) {
            let entry = self.entry(seq, event);
            let settled = self.ledger.settle(PARTITION, &[entry]).await;
            assert_eq!(settled, Ok(seq));
        }

        /// Moves the ledger's position past lost entries, as a repair does.
        async fn skip(&self, position: Seq, upto: Seq) -> Result<Seq, LedgerError> {
            let attempt = RepairAttempt {
                partition: PARTITION,
                number: 1,
                repairer: "r".to_owned(),
            };
            self.ledger.claim_repair(&attempt).await?;
            let past = self.ledger.settle_past(&attempt, position, &[], upto);
            past.await
        }

        /// The answer to a user with grant number 1 in this entry.
        async fn confirmed(&self, name: &str, seq: Seq) -> Result<(), String> {
            let grant = Grant {
                campaign: self.target.id,
                number: 1,
                quantity: 1,
                amount_minor: 100,
                granted_at: OPENS,
                order: None,
            };
            let (claim, place) = (self.target.one(name), (PARTITION, seq));
            let confirmed = match reach(&self.ledger, place, Duration::ZERO).await {
                Ok(()) => confirm(&self.ledger, &claim, &grant, PARTITION).await,
                Err(error) => Err(error),
            };
            confirmed.map_err(|error| match error {
                EngineError::Uncertain { reason } => reason,
                other => panic!("{other:?}"),
            })
        }
    }

    fn granted(name: &str) -> Event {
        Event::Granted {
            number: 1,
            user: user(name),
            quantity: 1,
            amount_minor: 100,
            key: None,
        }
    }

    /// A repair moves the ledger's position past a lost grant. The grant is not confirmed then, not even after another
    /// user gets its number.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lost_grant_is_not_confirmed() {
        let case = Case::new().await;
        let late = case.confirmed("ann", 2).await.unwrap_err();
        assert!(late.contains("in time"), "{late}");
        let past = case.skip(1, 2).await;
        assert_eq!(past, Ok(2));
        let lost = case.confirmed("ann", 2).await.unwrap_err();
        assert!(lost.contains("may be lost"), "{lost}");
        case.settle(3, granted("bob")).await;
        let lost = case.confirmed("ann", 2).await.unwrap_err();
        assert!(lost.contains("may be lost"), "{lost}");
        assert_eq!(case.confirmed("bob", 3).await, Ok(()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_quarantined_grant_is_not_confirmed() {
        let case = Case::new().await;
        let entry = case.entry(2, granted("ann"));
        let aside = case.ledger.quarantine(PARTITION, &entry, "asked for").await;
        assert_eq!(aside, Ok(2));
        let refused = case.confirmed("ann", 2).await;
        assert_eq!(refused, Err(GRANT_QUARANTINED.to_owned()));
    }

    /// A change of the stock is not confirmed before the ledger has it, after a repair moved the position past it, or
    /// from quarantine.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lost_change_of_the_stock_is_not_confirmed() {
        let case = Case::new().await;
        let confirmed = async |stock, seq| {
            let campaign = case.target.id;
            let command = Command::SetStock { campaign, stock };
            let (made, places) = ((&command, &Reply::Opened), [(PARTITION, seq)]);
            let confirmed = confirm_command(&case.ledger, made, &places, Duration::ZERO).await;
            confirmed.map_err(|error| error.to_string())
        };
        assert_eq!(confirmed(5, 1).await, Ok(()));
        let late = confirmed(4, 2).await.unwrap_err();
        assert!(late.contains("in time"), "{late}");
        assert_eq!(case.skip(1, 2).await, Ok(2));
        let lost = confirmed(4, 2).await.unwrap_err();
        assert!(lost.contains("does not have this change"), "{lost}");
        case.settle(3, Event::StockChanged { units: -1 }).await;
        assert_eq!(confirmed(4, 3).await, Ok(()));
        let entry = case.entry(4, Event::StockChanged { units: -1 });
        let aside = case.ledger.quarantine(PARTITION, &entry, "asked for").await;
        assert_eq!(aside, Ok(4));
        let refused = confirmed(3, 4).await.unwrap_err();
        assert!(refused.contains("quarantine"), "{refused}");
    }

    /// A refund is due for money that a free order received. Its own row confirms it, not the payment of the grant.
    #[tokio::test(flavor = "multi_thread")]
    async fn lost_money_for_a_free_order_is_not_confirmed() {
        let case = Case::from_sale(&sale(5).price(0)).await;
        let (order, number) = (case.target.order(1), 1);
        let grant = Event::Granted {
            number,
            user: user("ann"),
            quantity: 1,
            amount_minor: 0,
            key: None,
        };
        case.settle(2, grant).await;
        let payment = PaymentRef::for_free_order(order);
        let paid = Event::payment_recorded(number, payment, PaymentOutcome::Paid.into());
        case.settle(3, paid).await;
        let named = |name| PaymentRef::new(name).unwrap();
        let confirmed = async |name, received, outcome, seq| {
            let command = Command::Pay {
                order,
                payment: named(name),
                paid_at: None,
                received,
                cancelled: 0,
            };
            let order = OrderTerms {
                state: OrderState::Paid,
                hold_until: OPENS,
                refunds_due: 0,
                returned_quantity: 0,
                cancelled_quantity: 0,
                extension_ms: 0,
            };
            let grant = Grant {
                campaign: case.target.id,
                number,
                quantity: 1,
                amount_minor: 0,
                granted_at: OPENS,
                order: Some(order),
            };
            let user = user("ann");
            let reply = Reply::Payment(outcome, OrderView { user, grant });
            let (made, places) = ((&command, &reply), [(PARTITION, seq)]);
            let confirmed = confirm_command(&case.ledger, made, &places, Duration::ZERO).await;
            confirmed.map_err(|error| error.to_string())
        };
        let nothing = confirmed("nothing", ReceivedMoney::Price, PaymentOutcome::Paid, 3).await;
        assert_eq!(nothing, Ok(()));

        let received = ReceivedMoney::Other(Money::new(1, currency()));
        let due = PaymentOutcome::RefundDue;
        assert_eq!(case.skip(3, 4).await, Ok(4));
        let lost = confirmed("one", received, due, 4).await.unwrap_err();
        assert!(lost.contains("does not have this change"), "{lost}");
        let event = Event::RefundDue {
            number,
            payment: named("one"),
            received,
        };
        case.settle(5, event).await;
        assert_eq!(confirmed("one", received, due, 5).await, Ok(()));
    }
}
