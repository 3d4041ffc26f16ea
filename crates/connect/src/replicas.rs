//! Waiting for replicas.

use redis::{Cmd, RedisError, aio::MultiplexedConnection};

use crate::{options::Options, script::eval_at_maxmemory};

/// Writes the mark, also when there is no memory left for more: what replicas have is settled all the same.
const MARK: &str = "return redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])";
/// How long a mark for `WAIT` stays, in milliseconds.
const MARK_MS: u64 = 60_000;

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
