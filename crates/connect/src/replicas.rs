//! Waiting for replicas, and how many of them there are.

use std::sync::atomic::{AtomicU32, Ordering};

use redis::{Cmd, RedisError, aio::MultiplexedConnection};

use crate::{options::Options, script::eval_at_maxmemory};

/// Writes the mark, also when there is no memory left for more: what replicas have is settled all the same.
const MARK: &str = "return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])";
/// How long a mark for `WAIT` stays, in milliseconds.
const MARK_MS: u64 = 60_000;

/// More than a primary can have.
const UNKNOWN: u32 = u32::MAX;

/// Replicas of a partition's primary that are online, as of the last presence call.
pub(crate) struct OnlineReplicas(AtomicU32);

impl OnlineReplicas {
    /// Before the first presence call.
    pub(crate) fn unknown() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }

    pub(crate) fn note(&self, online: u32) {
        self.0.store(online, Ordering::Relaxed);
    }

    /// Replicas that grants wait for and that are missing; 0 while it is not known.
    pub(crate) fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.0.load(Ordering::Relaxed))
    }
}

/// One `WAIT` for all that this server has written so far: whether the replicas that grants wait for have it. It waits
/// only for what its own connection wrote, and a replay writes nothing: hence the mark.
///
/// # Errors
/// When the server does not answer.
pub async fn replicas_have(
    connection: &mut MultiplexedConnection,
    mark: String,
    options: &Options,
) -> Result<bool, RedisError> {
    let [mark, wait] = wait_commands(mark, options);
    let mut pipeline = redis::pipe();
    pipeline.add_command(mark).ignore().add_command(wait);
    let (have,): (u32,) = pipeline.query_async(connection).await?;
    Ok(have >= options.replicas)
}

/// The same as two commands: the mark is written to this key.
pub(crate) fn wait_commands(mark: String, options: &Options) -> [Cmd; 2] {
    let mut set = eval_at_maxmemory(MARK, &[mark]);
    set.arg(MARK_MS);
    let mut wait = redis::cmd("WAIT");
    let timeout_ms = options.replica_timeout.as_millis() as u64;
    wait.arg(options.replicas).arg(timeout_ms);
    [set, wait]
}
