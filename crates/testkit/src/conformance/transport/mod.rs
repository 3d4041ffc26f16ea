//! The suite for transports together with what consumes them: whatever the servers, and whatever the ledger.
//!
//! A transport's tests implement [`TransportSubject`] and call
//! [`transport_conformance!`](crate::transport_conformance). Everything that workers take is checked (it follows the
//! ledger's position, without a gap, and is the same entry every time) and recorded; at a case's end the auditor checks
//! the record, and the ledger is compared with it.

pub mod cases;
mod fixture;

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{Engine, EventLog, Ledger, LedgerError, TransportStatus},
};

pub use self::fixture::Fixture;
use super::to_its_end;
use crate::{ManualClock, campaign::OPENS};

/// A worker as in a process of its own: consumes what a transport brings of all partitions.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Up to `limit` entries right after `after`, which is the ledger's position; none if nothing came in the time, or
    /// if another worker has the partition.
    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Entries up to and with `settled` are in the ledger for good.
    async fn ack(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError>;

    /// How a partition is doing.
    fn status(&self, partition: PartitionId) -> TransportStatus;

    /// Gives all partitions up.
    async fn release_ownership(&self);
}

/// A transport that is tested, with a log and a ledger.
pub trait TransportSubject: Sized + Send + Sync + 'static {
    /// How long it may take until another worker has what a dead one had.
    const TAKEOVER_MAX: Duration;

    /// Starts one in which nothing has happened. The engine has two partitions and spreads every campaign over both.
    /// `own` is true for cases that kill the servers; others share them, and harm only what is their own. The log keeps
    /// what is settled in cases with servers of their own, and in no others.
    fn start(clock: Arc<ManualClock>, own: bool) -> impl Future<Output = Self> + Send;

    /// The engine.
    fn engine(&self) -> &dyn Engine;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// The engine's log.
    fn log(&self) -> &dyn EventLog;

    /// A worker. Dropped without [`Worker::release_ownership`], it dies with what it has.
    fn worker(&self, name: &str) -> impl Future<Output = Arc<dyn Worker>> + Send;

    /// Kills every server that the transport needs. They keep what they have acknowledged.
    fn kill_servers(&self) -> impl Future<Output = ()> + Send;

    /// Starts them again.
    fn start_servers(&self) -> impl Future<Output = ()> + Send;

    /// Removes the group, the list or the queue, with all that is in it. The log stays.
    fn lose_transport(&self) -> impl Future<Output = ()> + Send;

    /// Keeps a copy of the ledger as it is now, by this name.
    fn dump_ledger(&mut self, name: &str) -> impl Future<Output = ()> + Send;

    /// Takes the ledger back to the copy of this name.
    fn restore_ledger(&mut self, name: &str) -> impl Future<Output = ()> + Send;

    /// Has the log forget all that is settled.
    fn forget_settled(&self) -> impl Future<Output = ()> + Send;

    /// Adds something that was made before the partitions got their present epoch, and would be next. False where there
    /// is no place for it, because the log itself is read.
    fn bring_stale(&self, campaign: CampaignId) -> impl Future<Output = bool> + Send;

    /// Adds something that nobody can read. False where there is no place for it, because the log itself is read.
    fn spoil(&self) -> impl Future<Output = bool> + Send;

    /// Stops for good.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// Runs one case on a subject of its own, then audits what happened.
///
/// # Panics
/// When the case fails.
pub fn run<S: TransportSubject>(own: bool, case: impl AsyncFnOnce(&mut Fixture<S>)) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let mut fixture = Fixture::<S>::start(clock, own).await;
        case(&mut fixture).await;
        fixture.finish().await;
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
            what_is_not_acknowledged_comes_again,
            what_a_dead_worker_took_comes_to_another,
            a_worker_that_releases_its_partitions_is_followed_at_once,
            workers_at_once_settle_everything_once,
            entries_settled_by_another_worker_are_passed_over,
            a_position_may_grow_old_while_a_worker_waits,
            a_take_may_be_dropped_at_any_time,
            small_records_come_in_large_runs,
            settled_entries_are_forgotten_and_no_others,
            a_transport_that_is_lost_is_made_anew,
            what_cannot_be_read_holds_up_nothing,
            what_is_of_another_epoch_is_dropped,
        }
        $crate::transport_conformance! { $subject: true:
            a_ledger_that_is_set_back_is_filled_up_again,
            a_ledger_that_is_set_back_too_far_is_said,
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
