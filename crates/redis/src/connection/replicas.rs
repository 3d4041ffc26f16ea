//! Waits for replicas, and counts of online replicas.

use std::sync::atomic::{AtomicU32, Ordering};

use redis::{Cmd, RedisError, aio::MultiplexedConnection};

use crate::connection::{options::RedisOptions, script::eval_at_maxmemory};

/// Writes the mark, even without free memory: settlement of entries that replicas have must continue.
const MARK: &str = "return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])";
/// Lifetime of a mark for `WAIT`, in milliseconds.
const MARK_MS: u64 = 60_000;

/// Stands for an unknown number; more than a primary can have.
const UNKNOWN: u32 = u32::MAX;

/// Number of online replicas of a partition's primary, as of the last presence call.
pub(crate) struct OnlineReplicas(AtomicU32);

impl OnlineReplicas {
    /// Value before the first presence call.
    pub(crate) fn unknown() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }

    pub(crate) fn note(&self, online: u32) {
        self.0.store(online, Ordering::Relaxed);
    }

    /// Number of missing required replicas; 0 while the number is unknown.
    pub(crate) fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.0.load(Ordering::Relaxed))
    }
}

/// Whether the required replicas have all that this server wrote so far, by one `WAIT`.
///
/// `WAIT` waits only for writes of its own connection, and a replay writes nothing. So the call writes a mark first.
///
/// # Errors
/// If the server does not answer.
pub(crate) async fn replicas_have(
    connection: &mut MultiplexedConnection,
    mark: String,
    options: &RedisOptions,
) -> Result<bool, RedisError> {
    let [mark, wait] = wait_commands(mark, options);
    let mut pipeline = redis::pipe();
    pipeline.add_command(mark).ignore().add_command(wait);
    let (have,): (u32,) = pipeline.query_async(connection).await?;
    Ok(have >= options.replicas)
}

/// The two commands of [`replicas_have`]; `mark` is the key of the mark.
pub(crate) fn wait_commands(mark: String, options: &RedisOptions) -> [Cmd; 2] {
    let mut set = eval_at_maxmemory(MARK, &[mark]);
    set.arg(MARK_MS);
    let mut wait = redis::cmd("WAIT");
    let timeout_ms = options.replica_timeout.as_millis() as u64;
    wait.arg(options.replicas).arg(timeout_ms);
    [set, wait]
}
