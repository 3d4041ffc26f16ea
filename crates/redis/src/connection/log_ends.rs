//! Ends of the logs of an engine that no process uses.

use qiang_core::{
    event::{PartitionId, Seq},
    ports::EngineError,
};

use crate::connection::{
    call_connection::ConnectionContext,
    error::{no_answer, unavailable},
    options::RedisOptions,
};

/// Last entry of each partition's log. The number of partitions is the engine's, not that of the options. `None`
/// for a partition whose state is lost. Reads only.
///
/// # Errors
/// If a server does not answer, or the engine has no state at all.
pub async fn log_ends(
    mut options: RedisOptions,
) -> Result<Vec<(PartitionId, Option<Seq>)>, EngineError> {
    let fields = read(&options, PartitionId(0)).await?;
    let count = fields.0.ok_or_else(|| {
        unavailable(format!(
            "no engine has a state under the prefix {}",
            options.prefix
        ))
    })?;
    options.partitions = count;
    let mut ends = Vec::new();
    for partition in (0..count).map(PartitionId) {
        ends.push((partition, read(&options, partition).await?.1));
    }
    Ok(ends)
}

/// The number of partitions, and the last entry of this one.
async fn read(
    options: &RedisOptions,
    partition: PartitionId,
) -> Result<(Option<u16>, Option<Seq>), EngineError> {
    let context = ConnectionContext::new(options.clone());
    let context = context.map_err(|error| unavailable(error.to_string()))?;
    let mut get = redis::cmd("HMGET");
    get.arg(context.keys.partition(partition));
    get.arg("count").arg("seq");
    let failed = |error| unavailable(no_answer(&error));
    let mut connection = context.directory.connect(partition).await.map_err(failed)?;
    get.query_async(&mut connection).await.map_err(failed)
}
