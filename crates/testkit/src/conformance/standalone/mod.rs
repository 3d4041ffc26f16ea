//! Suite for a ledger alone, on any database.
//!
//! A ledger's tests implement [`LedgerSubject`] and call [`ledger_conformance!`](crate::ledger_conformance). It makes
//! three groups of tests. Two are the engines' suite with an engine in memory, once with one partition and once with
//! every campaign spread over three. The third contains the cases in [`parts`]. They settle the logs of several
//! partitions in any order, cut anywhere, twice, and with restarts between.

mod any_ledger;
pub mod campaign_events;
pub mod deliveries;
mod fixture;
mod histories;
pub mod parts;
pub mod quarantine;
pub mod repairs;
pub mod restatements;
pub mod webhooks;

use std::{future::Future, sync::Arc};

use qiang_core::{
    event::PartitionId,
    ports::{Engine, EventLog, Ledger},
};

use self::any_ledger::{AnyLedger, start_ledger};
pub use self::{
    fixture::Fixture,
    histories::{any_history_settles_in_any_order, any_history_survives_refusals},
};
use super::{Boxed, Start, Subject, to_its_end};
use crate::{ManualClock, campaign::OPENS, engine::BookEngine};

/// Ledger under test.
pub trait LedgerSubject: Sized + Send + Sync + 'static {
    /// Number of random histories. Each has its own ledger.
    const HISTORIES: u32 = 32;

    /// Starts an empty ledger that uses this clock.
    fn start(clock: Arc<ManualClock>) -> impl Future<Output = Self> + Send;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// Stops without a clean shutdown, and starts again on the stored data. All answered changes must still be there.
    fn restart(self) -> impl Future<Output = Self> + Send;

    /// Stops finally.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// A ledger and an engine in memory that spreads every campaign over `PARTS` shards.
pub struct OnBookEngine<L, const PARTS: u16> {
    engine: BookEngine,
    ledger: L,
}

/// Partitions with numbers that are unordered and have gaps.
fn partitions(parts: u16) -> Vec<PartitionId> {
    (0..parts).map(|n| PartitionId(9 * n % 13)).collect()
}

impl<L: LedgerSubject, const PARTS: u16> Subject for OnBookEngine<L, PARTS> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        Self {
            engine: BookEngine::new(Arc::clone(&clock), partitions(PARTS)),
            ledger: L::start(clock).await,
        }
    }

    fn engine(&self) -> &dyn Engine {
        &self.engine
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ledger.ledger()
    }

    fn log(&self) -> &dyn EventLog {
        &self.engine
    }

    async fn restart(self) -> Self {
        Self {
            ledger: self.ledger.restart().await,
            ..self
        }
    }

    async fn stop(self) {
        self.ledger.stop().await;
    }
}

/// One case for ledgers.
pub type Case = for<'a> fn(&'a mut Fixture) -> Boxed<'a, ()>;

/// Runs one case on a new ledger.
///
/// # Panics
/// If the case fails.
pub fn run<L: LedgerSubject>(case: Case) {
    run_any(start_ledger::<L>, case);
}

fn run_any(start: Start<dyn AnyLedger>, case: Case) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let mut fixture = Fixture::start(start, clock).await;
        case(&mut fixture).await;
        fixture.stop().await;
    });
}

/// Makes one test per case for ledgers, for one [`LedgerSubject`](crate::conformance::standalone::LedgerSubject).
#[macro_export]
macro_rules! ledger_conformance {
    ($subject:ty) => {
        /// The engines' suite, on an engine in memory.
        mod whole {
            use super::*;
            $crate::engine_conformance!($crate::conformance::standalone::OnBookEngine<$subject, 1>);
        }

        /// The same, with every campaign spread over three shards.
        mod spread {
            use super::*;
            $crate::engine_conformance!($crate::conformance::standalone::OnBookEngine<$subject, 3>);
        }

        $crate::ledger_conformance! { $subject:
            the_phase_follows_the_parts,
            units_given_back_count_where_their_part_stands,
            residue_goes_home_with_the_last_close,
            units_that_are_missing_keep_the_residue,
            units_sold_again_elsewhere_may_be_settled_first,
            stand_ins_count_for_what_is_gone,
            numbers_may_have_gaps,
            positions_are_kept_for_each_partition,
            what_is_closed_and_settled_is_not_live,
            a_gap_is_refused_in_its_partition_alone,
            settling_again_changes_nothing_in_any_part,
            partitions_are_settled_at_once,
            keys_of_orders_are_kept,
            rows_of_a_user_are_found,
        }

        $crate::ledger_conformance! { $subject, repairs:
            repairs_are_written_down,
        }

        $crate::ledger_conformance! { $subject, restatements:
            a_row_is_restated_if_it_is_as_it_was_seen,
            restated_terms_are_those_of_the_same_revision,
        }

        $crate::ledger_conformance! { $subject, campaign_events:
            campaign_events_are_recorded_once,
        }

        $crate::ledger_conformance! { $subject, deliveries:
            waiting_events_are_recorded_with_the_position,
            waiting_events_are_not_forgotten,
            attempts_are_listed_and_forgotten,
            events_are_redelivered,
            an_endpoint_is_changed,
        }

        $crate::ledger_conformance! { $subject, webhooks:
            what_is_settled_is_told_once_and_in_order,
            what_no_webhook_wants_is_not_kept,
            refunds_are_told_once,
            one_holder_moves_the_place,
            events_are_forgotten_once_they_are_told,
            webhooks_are_bounded,
            changes_name_their_actor,
        }

        #[test]
        fn any_history_settles_in_any_order() {
            $crate::conformance::standalone::any_history_settles_in_any_order::<$subject>();
        }
    };
    ($subject:ty: $($case:ident,)*) => {
        $crate::ledger_conformance! { $subject, parts: $($case,)* }
    };
    ($subject:ty, $cases:ident: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::standalone::run::<$subject>(|case| {
                    Box::pin($crate::conformance::standalone::$cases::$case(case))
                });
            }
        )*
    };
}

/// Makes one test per case about quarantined entries, for one
/// [`LedgerSubject`](crate::conformance::standalone::LedgerSubject).
#[macro_export]
macro_rules! quarantine_conformance {
    ($subject:ty) => {
        $crate::quarantine_conformance! { $subject:
            money_waits_for_the_quarantined_share,
            an_order_waits_only_for_itself,
            a_part_waits_for_its_opening,
            units_sold_again_wait_for_their_return,
            quarantined_entries_are_kept,
            a_discarded_grant_gives_its_units_back,
            a_discarded_payment_is_owed,
            only_refused_orders_are_discarded,
            a_refused_entry_stays_quarantined,
            an_unknown_campaign_holds_up_no_other,
        }

        #[test]
        fn any_history_survives_refusals() {
            $crate::conformance::standalone::any_history_survives_refusals::<$subject>();
        }
    };
    ($subject:ty: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::standalone::run::<$subject>(|case| {
                    Box::pin($crate::conformance::standalone::quarantine::$case(case))
                });
            }
        )*
    };
}
