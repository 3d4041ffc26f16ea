//! Faults. Each is injected, lasts for a while, and is undone.

mod full;
mod loss;
mod network;
pub(crate) mod process;
mod slots;
mod storage;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;

use crate::{
    campaigns::Campaigns,
    client::{Nodes, Request},
    history::{Level, Micros, OperationId},
    installation::Installation,
    plan::{Fault, Kind, Target},
};

/// Time before a fault in which acknowledged data may not have reached the replicas.
pub(crate) const BEFORE: Micros = 2_000_000;

/// Targets and tools of faults.
pub(crate) struct Scene {
    pub(crate) installation: Installation,
    pub(crate) campaigns: Arc<Campaigns>,
    pub(crate) nodes: Nodes,
    pub(crate) unfinished: Unfinished,
}

/// Claims of bursts, each sent once. They must be repeated later until they are answered.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    claims: Mutex<Vec<(OperationId, Request)>>,
}

impl Unfinished {
    fn add(&self, operation: OperationId, request: Request) {
        self.claims.lock().push((operation, request));
    }

    pub(crate) fn take(&self) -> Vec<(OperationId, Request)> {
        std::mem::take(&mut *self.claims.lock())
    }
}

/// Injects a fault, waits for its duration, and undoes it.
///
/// # Errors
/// If it could not be injected or undone. The run cannot continue with this installation.
pub(crate) async fn inflict(scene: &Scene, fault: &Fault) -> Result<()> {
    let site = &scene.installation;
    let done = match (fault.kind, fault.target) {
        (Kind::Kill, target) => process::kill(site, target, fault.hold).await,
        (Kind::Stop, target) => process::stop(site, target, fault.hold).await,
        (Kind::Cut, target) => network::cut(site, target, fault.hold).await,
        (Kind::HalfCut, target) => network::drop_answers(site, target, fault.hold).await,
        (Kind::Lose, _) => loss::lose(scene, fault).await,
        (Kind::Isolate, _) => loss::isolate(site, fault.hold).await,
        (Kind::Older, Target::Primary(partition)) => {
            storage::older(site, partition, fault.hold).await
        }
        (Kind::Full, Target::Primary(partition)) => {
            full::older_and_full(site, partition, fault).await
        }
        (Kind::Empty, target) => storage::empty(scene, target, fault).await,
        (Kind::Restore, _) => storage::restore(scene, fault.hold).await,
        (Kind::Memory, Target::Primary(partition)) => {
            storage::fill_memory(site, partition, fault.hold).await
        }
        (Kind::Slots, Target::Primary(partition)) => {
            slots::migrate(site, partition, fault.hold).await
        }
        (Kind::Scripts, _) => storage::flush_scripts(site),
        (Kind::Clock, _) => step_clock(site, fault.amount, fault.hold).await,
        (Kind::Older | Kind::Full | Kind::Memory | Kind::Slots, _) => Ok(()),
    };
    done.with_context(|| format!("the fault `{fault}`"))
}

/// Highest level of grants that a fault may lose; weaker levels may be lost too. `None` if it may lose none.
pub(crate) fn may_lose(fault: &Fault) -> Option<Level> {
    let is_primary = matches!(fault.target, Target::Primary(_));
    match fault.kind {
        // Either the primary continues without its replicas' data, or a replica continues without the primary's.
        Kind::Kill | Kind::Stop | Kind::Cut | Kind::HalfCut if is_primary => Some(Level::Memory),
        Kind::Lose | Kind::Isolate => Some(Level::Memory),
        // Primary and replicas are set back together.
        Kind::Older | Kind::Full | Kind::Empty => Some(Level::Replica),
        _ => None,
    }
}

async fn step_clock(site: &Installation, seconds: i64, hold: Duration) -> Result<()> {
    let clock = site.clock.as_ref().context("the clock is not loaded")?;
    clock.set_s(seconds)?;
    tokio::time::sleep(hold).await;
    clock.set_s(0)?;
    Ok(())
}
