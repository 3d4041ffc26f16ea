//! The suite for a ledger alone, whatever database it is on.
//!
//! A ledger's tests implement [`LedgerSubject`] and call [`ledger_conformance!`](crate::ledger_conformance). That
//! makes three groups of tests: all cases of the engines' suite on an engine in memory whose ledger it is, once with
//! one partition and once with every campaign spread over three; and the cases in [`parts`], where the logs of several
//! partitions are settled in any order, cut anywhere, twice, and with restarts between.

mod bench;
mod histories;
pub mod parts;
pub mod quarantine;

use std::{future::Future, sync::Arc};

use qiang_core::{
    event::PartitionId,
    ports::{Engine, EventLog, Ledger},
};

pub use self::{
    bench::Bench,
    histories::{any_history_settles_in_any_order, any_history_survives_refusals},
};
use super::{Subject, to_its_end};
use crate::{ManualClock, campaign::OPENS, engine::BookEngine};

/// A ledger that is put to the test.
pub trait LedgerSubject: Sized + Send + Sync + 'static {
    /// How many random histories are tried; each has a ledger of its own.
    const HISTORIES: u32 = 32;

    /// Starts one in which nothing has happened, by this clock.
    fn start(clock: Arc<ManualClock>) -> impl Future<Output = Self> + Send;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// Goes down without a farewell, and comes up again on what was kept. Everything that was answered must still be
    /// there.
    fn restart(self) -> impl Future<Output = Self> + Send;

    /// Goes down for good.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// A ledger behind an engine in memory that spreads every campaign over so many parts.
pub struct OnBooks<L, const PARTS: u16> {
    engine: BookEngine,
    ledger: L,
}

/// Partitions whose numbers tell nothing.
fn partitions(parts: u16) -> Vec<PartitionId> {
    (0..parts).map(|n| PartitionId(9 * n % 13)).collect()
}

impl<L: LedgerSubject, const PARTS: u16> Subject for OnBooks<L, PARTS> {
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

/// Runs one case on a ledger of its own.
///
/// # Panics
/// When the case fails.
pub fn run<L: LedgerSubject>(case: impl AsyncFnOnce(&mut Bench<L>)) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let mut bench = Bench::start(clock).await;
        case(&mut bench).await;
        bench.stop().await;
    });
}

/// Makes a test of every case for ledgers, for one [`LedgerSubject`](crate::conformance::alone::LedgerSubject).
#[macro_export]
macro_rules! ledger_conformance {
    ($subject:ty) => {
        /// The engines' suite, on an engine in memory.
        mod whole {
            use super::*;
            $crate::engine_conformance!($crate::conformance::alone::OnBooks<$subject, 1>);
        }

        /// The same, with every campaign in three parts.
        mod spread {
            use super::*;
            $crate::engine_conformance!($crate::conformance::alone::OnBooks<$subject, 3>);
        }

        $crate::ledger_conformance! { $subject:
            the_phase_follows_the_parts,
            units_given_back_count_where_their_part_stands,
            residue_goes_home_with_the_last_close,
            units_that_are_missing_keep_the_residue,
            units_sold_again_elsewhere_may_be_settled_first,
            numbers_may_have_gaps,
            positions_are_kept_for_each_partition,
            a_gap_is_refused_in_its_partition_alone,
            settling_again_changes_nothing_in_any_part,
            partitions_are_settled_at_once,
        }

        #[test]
        fn any_history_settles_in_any_order() {
            $crate::conformance::alone::any_history_settles_in_any_order::<$subject>();
        }
    };
    ($subject:ty: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::alone::run($crate::conformance::alone::parts::$case::<$subject>);
            }
        )*
    };
}

/// Makes a test of every case about entries that are set aside, for one
/// [`LedgerSubject`](crate::conformance::alone::LedgerSubject).
#[macro_export]
macro_rules! aside_conformance {
    ($subject:ty) => {
        $crate::aside_conformance! { $subject:
            money_waits_for_the_share_that_is_set_aside,
            an_order_waits_for_itself_alone,
            a_part_waits_for_its_opening,
            what_is_sold_again_waits_for_its_coming_back,
            what_is_set_aside_is_kept,
            a_refused_entry_stays_aside,
            an_unknown_campaign_holds_up_no_other,
        }

        #[test]
        fn any_history_survives_refusals() {
            $crate::conformance::alone::any_history_survives_refusals::<$subject>();
        }
    };
    ($subject:ty: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::alone::run($crate::conformance::alone::quarantine::$case::<$subject>);
            }
        )*
    };
}
