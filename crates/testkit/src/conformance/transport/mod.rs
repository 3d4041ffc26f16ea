//! The suite for transports: whatever carries entries from a log to a ledger, between which servers, on what ledger.
//!
//! A transport's tests implement [`TransportSubject`] and call
//! [`transport_conformance!`](crate::transport_conformance). Whatever workers take is held against the contract (it
//! follows the ledger's position, without a gap, and is the same entry every time) and kept; at a case's end the
//! auditor goes over it, and the ledger is compared with it.

mod bench;
pub mod cases;

use std::{future::Future, sync::Arc, time::Duration};

use qiang_core::ports::{Engine, EventLog, Ledger, Transport};

pub use self::bench::Bench;
use super::to_its_end;
use crate::{ManualClock, campaign::OPENS};

/// A transport that is put to the test, with what it carries from and to.
pub trait TransportSubject: Sized + Send + Sync + 'static {
    /// How long it may take until another worker has what a dead one had.
    const TAKEOVER_MAX: Duration;

    /// Starts one in which nothing has happened. The engine has two partitions and spreads every campaign over both.
    /// `own` is said by cases that will kill the servers; others share them, and harm only what is their own.
    fn start(clock: Arc<ManualClock>, own: bool) -> impl Future<Output = Self> + Send;

    /// The engine.
    fn engine(&self) -> &dyn Engine;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// The engine's log.
    fn log(&self) -> &dyn EventLog;

    /// A worker as in a process of its own. Dropped without [`Transport::leave`], it dies without a farewell.
    fn worker(&self, name: &str) -> impl Future<Output = Arc<dyn Transport>> + Send;

    /// Kills every server that the transport needs. They keep what they have acknowledged.
    fn kill_servers(&self) -> impl Future<Output = ()> + Send;

    /// Starts them again.
    fn start_servers(&self) -> impl Future<Output = ()> + Send;

    /// Takes away what carries, with all that is in it: the group, the list, the queue. The log stays.
    fn lose_carrier(&self) -> impl Future<Output = ()> + Send;

    /// Puts something among what is carried that nobody can read. False where there is no such place: what carries is
    /// the log itself.
    fn spoil(&self) -> impl Future<Output = bool> + Send;

    /// Goes down for good.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// Runs one case on a subject of its own, then audits what happened.
///
/// # Panics
/// When the case fails.
pub fn run<S: TransportSubject>(own: bool, case: impl AsyncFnOnce(&mut Bench<S>)) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let mut bench = Bench::<S>::start(clock, own).await;
        case(&mut bench).await;
        bench.finish().await;
    });
}

/// Makes a test of every case for transports, for one
/// [`TransportSubject`](crate::conformance::transport::TransportSubject).
#[macro_export]
macro_rules! transport_conformance {
    ($subject:ty) => {
        $crate::transport_conformance! { $subject: false:
            nothing_comes_of_an_empty_log,
            entries_come_in_order_and_settled_ones_never_again,
            what_is_not_done_comes_again,
            what_a_dead_worker_took_comes_to_another,
            a_worker_that_leaves_is_followed_at_once,
            workers_at_once_settle_everything_once,
            entries_settled_by_somebody_else_are_passed_over,
            a_position_may_grow_old_while_a_worker_waits,
            a_take_may_be_dropped_at_any_time,
            small_records_come_in_large_runs,
            settled_entries_are_forgotten_and_no_others,
            a_carrier_that_is_lost_is_made_anew,
            what_cannot_be_read_holds_up_nothing,
        }
        $crate::transport_conformance! { $subject: true:
            servers_may_die_and_come_back,
            a_worker_outlives_its_servers_while_claims_go_on,
        }
    };
    ($subject:ty: $own:literal: $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::transport::run($own, $crate::conformance::transport::cases::$case::<$subject>);
            }
        )*
    };
}
