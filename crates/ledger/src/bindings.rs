//! The engine that the ledger belongs to.

use std::sync::Arc;

use parking_lot::RwLock;
use qiang_core::ports::{EngineBinding, LedgerError};

use crate::{
    dialect::{Dialect, Statement, fetch_one, sql},
    error::WorkError,
};

const FIND: Statement =
    sql!(both "SELECT installation, engine, location, beats FROM engine WHERE id = 1");
const ENTER: Statement = sql!("enter_engine");
const CHANGE: Statement =
    sql!(both "UPDATE engine SET engine = $1, location = $2, beats = beats + 1 WHERE engine = $3");
const BEAT: Statement = sql!(both "UPDATE engine SET beats = beats + 1 WHERE engine = $1");

/// Fence: the engine whose entries this handle settles; `None` if the handle is not fenced.
#[derive(Debug, Default)]
pub(crate) struct Fence(RwLock<Option<Arc<str>>>);

impl Fence {
    pub(crate) fn set(&self, engine: &str) {
        *self.0.write() = Some(engine.into());
    }

    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.read().clone()
    }
}

/// Refuses entries of an engine to which the ledger does not belong. Runs in the transaction that settles the entries.
///
/// A takeover may commit between this check and the lock of the position. The takeover moves positions far past all
/// entries of the old engine. If these entries are settled before it, it counts them. Otherwise they are before the new
/// position and change nothing.
pub(crate) async fn check<D: Dialect>(
    conn: &mut D::Connection,
    engine: Option<&str>,
) -> Result<(), WorkError> {
    let Some(engine) = engine else { return Ok(()) };
    match find::<D>(conn).await? {
        Some(bound) if bound.engine == engine => Ok(()),
        bound => {
            let location = bound.map_or_else(String::new, |bound| bound.location);
            let reason = format!(
                "the ledger belongs to another engine, at `{location}`: this one's entries are not settled"
            );
            Err(WorkError::Refused(LedgerError::unavailable(reason)))
        }
    }
}

/// The engine that the ledger belongs to; `None` if it has no engine yet.
pub(crate) async fn find<D: Dialect>(
    conn: &mut D::Connection,
) -> Result<Option<EngineBinding>, WorkError> {
    type Columns = (String, String, String, i64);
    let found = fetch_one::<D, Columns>(conn, &FIND, &[]).await?;
    Ok(
        found.map(|(installation, engine, location, beats)| EngineBinding {
            installation,
            engine,
            location,
            beats: beats.unsigned_abs(),
        }),
    )
}

/// Binds the ledger to another engine, unless another process was faster. Returns the engine after that.
pub(crate) async fn bind<D: Dialect>(
    conn: &mut D::Connection,
    from: &str,
    to: &EngineBinding,
) -> Result<EngineBinding, WorkError> {
    let (engine, location) = (to.engine.as_str(), to.location.as_str());
    if from.is_empty() {
        let row = [
            to.installation.as_str().into(),
            engine.into(),
            location.into(),
        ];
        D::execute(conn, &ENTER, &row).await?;
    } else {
        let change = [engine.into(), location.into(), from.into()];
        D::execute(conn, &CHANGE, &change).await?;
    }
    let bound = find::<D>(conn).await?;
    bound.ok_or_else(|| WorkError::damaged("the row of the engine is gone"))
}

/// Increments the heartbeat of an engine. Returns false if the ledger belongs to another engine.
pub(crate) async fn beat<D: Dialect>(
    conn: &mut D::Connection,
    engine: &str,
) -> Result<bool, WorkError> {
    Ok(D::execute(conn, &BEAT, &[engine.into()]).await? > 0)
}
