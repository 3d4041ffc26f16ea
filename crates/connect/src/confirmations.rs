//! One `WAIT` for all commands of a partition that wait for replicas at the same time.
//!
//! A `WAIT` covers everything that its server has written before. So a command is decided on the connection of its
//! lane, and then joins the next `WAIT` that begins: at most one is under way, and the next one covers all that came
//! since. With a replica that stalls, many commands are answered after two time-outs, and not one after the other.

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

use crate::{
    call_connection::{CallConnection, TERM_OVER},
    error::{is_transient, no_answer},
};

/// The pause before a `WAIT` that failed is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// Why a command was not confirmed, where others took all the time.
const BUSY: &str = "earlier commands of the partition are still waiting for replicas";

/// Confirmations of one partition's commands by its replicas.
pub(crate) struct Confirmations {
    /// Commands that were decided and are to be confirmed, so far.
    decided: AtomicU64,
    rounds: Mutex<Rounds>,
}

struct Rounds {
    connection: CallConnection,
    /// The last `WAIT` that was answered.
    last: Option<Round>,
}

/// A `WAIT`.
struct Round {
    /// The last command that was decided before it began.
    upto: u64,
    /// The term in which it was answered.
    term: Arc<str>,
    /// Whether enough replicas have what was written before.
    enough: bool,
}

impl Confirmations {
    /// Waits on this connection.
    pub(crate) fn new(connection: CallConnection) -> Self {
        let last = None;
        Self {
            decided: AtomicU64::new(0),
            rounds: Mutex::new(Rounds { connection, last }),
        }
    }

    /// Whether the replicas have a command that was decided in this term before the call.
    ///
    /// # Errors
    /// Why it is not known: the term is over, or the primary does not answer in time.
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
