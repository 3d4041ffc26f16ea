//! Suite for transports with their consumers, on any servers and any ledger.
//!
//! A transport's tests implement [`TransportSubject`] and call
//! [`transport_conformance!`](crate::transport_conformance). The suite checks and records all entries that workers
//! take. They must follow the ledger's position without a gap, and each entry must be the same every time. At the end
//! of a case the auditor checks the record, and the ledger is compared with it.

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

/// A worker as in a process of its own: consumes a transport for all partitions.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Takes up to `limit` entries right after `after`, the ledger's position. The result is empty if nothing arrives
    /// in time, or if another worker owns the partition.
    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Acknowledges that all entries up to and including `settled` are committed in the ledger.
    async fn ack(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError>;

    /// Status of a partition.
    fn status(&self, partition: PartitionId) -> TransportStatus;

    /// Releases all partitions.
    async fn release_ownership(&self);
}

/// Transport under test, with a log and a ledger.
pub trait TransportSubject: Sized + Send + Sync + 'static {
    /// Maximum time until another worker takes over from a dead one.
    const TAKEOVER_MAX: Duration;

    /// Starts an empty subject. The engine has two partitions and spreads every campaign over both.
    /// With `own`, the subject starts its own servers, because the case kills them. Otherwise cases share the servers
    /// and break only their own data. Settled entries stay in the log only with own servers.
    fn start(clock: Arc<ManualClock>, own: bool) -> impl Future<Output = Self> + Send;

    /// The engine.
    fn engine(&self) -> &dyn Engine;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// The engine's log.
    fn log(&self) -> &dyn EventLog;

    /// Creates a worker. A worker that is dropped without [`Worker::release_ownership`] dies with the entries that it
    /// took.
    fn worker(&self, name: &str) -> impl Future<Output = Arc<dyn Worker>> + Send;

    /// Kills every server that the transport needs. The servers keep acknowledged data.
    fn kill_servers(&self) -> impl Future<Output = ()> + Send;

    /// Starts the killed servers again.
    fn start_servers(&self) -> impl Future<Output = ()> + Send;

    /// Removes the group, list or queue with all its records. The log stays.
    fn lose_transport(&self) -> impl Future<Output = ()> + Send;

    /// Saves a copy of the ledger under this name.
    fn dump_ledger(&mut self, name: &str) -> impl Future<Output = ()> + Send;

    /// Restores the ledger from the copy of this name.
    fn restore_ledger(&mut self, name: &str) -> impl Future<Output = ()> + Send;

    /// Makes the log drop all settled entries.
    fn forget_settled(&self) -> impl Future<Output = ()> + Send;

    /// Adds a record of an earlier epoch of the partitions as the next one. Returns false if that is impossible because
    /// the transport reads the log itself.
    fn bring_stale(&self, campaign: CampaignId) -> impl Future<Output = bool> + Send;

    /// Adds an unreadable record. Returns false if that is impossible because the transport reads the log itself.
    fn spoil(&self) -> impl Future<Output = bool> + Send;

    /// Stops finally.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// Runs one case on a new subject, then audits its history.
///
/// # Panics
/// If the case fails.
pub fn run<S: TransportSubject>(own: bool, case: impl AsyncFnOnce(&mut Fixture<S>)) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let mut fixture = Fixture::<S>::start(clock, own).await;
        case(&mut fixture).await;
        fixture.finish().await;
    });
}

/// Makes one test per case for transports, for one
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
