//! Shared `WAIT` calls: one for all commands of a partition that wait for replicas at the same time.
//!
//! A `WAIT` covers everything that its server wrote before. A command is decided on the connection of its lane, and
//! then joins the next `WAIT` that begins. At most one `WAIT` runs at a time; the next one covers all commands decided
//! by then. So if a replica stalls, many commands wait for two time-outs in total instead of one each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use crate::connection::{
    call_connection::{CallConnection, TERM_OVER},
    error::{is_transient, no_answer},
};

/// Pause before a failed `WAIT` is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// Reason of a command without confirmation: earlier commands took all the time.
const BUSY: &str = "earlier commands of the partition still wait for replicas";

/// Confirms one partition's commands by its replicas.
pub(crate) struct ReplicaConfirmations {
    /// Number of decided commands that need a confirmation, so far.
    decided: AtomicU64,
    rounds: Mutex<Rounds>,
}

struct Rounds {
    connection: CallConnection,
    /// The last `WAIT` that was answered.
    last: Option<Round>,
}

/// Result of a `WAIT`.
struct Round {
    /// The last command decided before this `WAIT` began.
    upto: u64,
    /// The term in which it was answered.
    term: Arc<str>,
    /// Whether enough replicas have everything written before it.
    enough: bool,
}

impl ReplicaConfirmations {
    /// Confirmations that wait on this connection.
    pub(crate) fn new(connection: CallConnection) -> Self {
        let last = None;
        Self {
            decided: AtomicU64::new(0),
            rounds: Mutex::new(Rounds { connection, last }),
        }
    }

    /// Whether the replicas have a command that was decided in this term before this call. Waits `within` at most.
    ///
    /// # Errors
    /// The reason if the result is unknown: the term is over, or the primary does not answer in time.
    pub(crate) async fn confirm(&self, term: &Arc<str>, within: Duration) -> Result<bool, String> {
        let mine = self.decided.fetch_add(1, Ordering::SeqCst) + 1;
        let until = Instant::now() + within;
        let mut rounds = timeout_at(until, self.rounds.lock())
            .await
            .map_err(|_| BUSY.to_owned())?;
        if let Some(round) = &rounds.last
            && round.upto >= mine
            && round.term == *term
        {
            return Ok(round.enough);
        }
        loop {
            let upto = self.decided.load(Ordering::SeqCst);
            let reason = match rounds.connection.replicas_have(term).await {
                Ok(Some(enough)) => {
                    let term = Arc::clone(term);
                    rounds.last = Some(Round { upto, term, enough });
                    return Ok(enough);
                }
                Ok(None) => return Err(TERM_OVER.to_owned()),
                Err(error) if !is_transient(&error) => return Err(no_answer(&error)),
                Err(error) => no_answer(&error),
            };
            if Instant::now() + PAUSE >= until {
                return Err(reason);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
