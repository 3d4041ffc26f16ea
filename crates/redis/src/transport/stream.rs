//! `stream` transport: a consumer group on the log.

use std::time::Duration;

use qiang_core::{event::Seq, ports::DeliveryTag};
use redis::RedisError;

use super::{GROUP, RECORDS_MAX, connection::PartitionConnection};
use crate::{connection::eval_at_maxmemory, protocol::log_record::Record};

/// First and last cursor of `XAUTOCLAIM`.
const ROUND: &str = "0-0";

const MAKE_GROUP: &str = include_str!("make_group.lua");

/// Reply of `XAUTOCLAIM`: the next cursor, the records, and ids of deleted records.
type Claimed = (String, Vec<Record>, Vec<String>);
/// Reply of `XREADGROUP`: the records of each stream.
type Read = Option<Vec<(String, Vec<Record>)>>;

/// Claims records that the group has delivered and no worker acknowledged, oldest first. This worker may have received
/// them before a restart or a lost connection. Other receivers are dead, because the lease is ours.
pub(super) async fn recover(
    connection: &mut PartitionConnection,
) -> Result<Vec<Record>, RedisError> {
    let mut records = Vec::new();
    let mut cursor = ROUND.to_owned();
    loop {
        let mut command = redis::cmd("XAUTOCLAIM");
        command
            .arg(connection.keys().log(connection.partition))
            .arg(GROUP)
            .arg(&connection.options().worker)
            .arg(0)
            .arg(cursor)
            .arg("COUNT")
            .arg(RECORDS_MAX);
        let (next, claimed, _gone): Claimed = connection.query(&command).await?;
        connection.shown.lock().recovered += claimed.len() as u64;
        records.extend(claimed);
        if next == ROUND {
            return Ok(records);
        }
        cursor = next;
    }
}

/// Reads new records, and waits for the first one.
pub(super) async fn read(
    connection: &mut PartitionConnection,
    wait: Duration,
) -> Result<Vec<Record>, RedisError> {
    let mut command = redis::cmd("XREADGROUP");
    let worker = &connection.options().worker;
    command.arg("GROUP").arg(GROUP).arg(worker);
    // 0 would wait without a limit.
    let millis = wait.as_millis() as u64;
    if millis > 0 {
        command.arg("BLOCK").arg(millis);
    }
    command
        .arg("COUNT")
        .arg(RECORDS_MAX)
        .arg("STREAMS")
        .arg(connection.keys().log(connection.partition))
        .arg(">");
    let read: Read = connection.query_blocking(&command, wait).await?;
    let streams = read.into_iter().flatten();
    Ok(streams.flat_map(|(_, records)| records).collect())
}

/// Creates the group, for example after Redis was emptied. It continues after the ledger's position.
pub(super) async fn make_group(
    connection: &mut PartitionConnection,
    settled: Seq,
) -> Result<(), RedisError> {
    let partition = connection.partition;
    let mut command = eval_at_maxmemory(MAKE_GROUP, &[connection.keys().log(partition)]);
    command.arg(GROUP).arg(format!("{settled}-0"));
    let made: Result<i64, RedisError> = connection.query(&command).await;
    match made {
        Err(error) if error.code() == Some("BUSYGROUP") => {} // another worker was faster
        made => drop(made?),
    }
    let partition = partition.0;
    tracing::info!(partition, settled, "consumer group created");
    connection.shown.lock().remade += 1;
    Ok(())
}

/// Acknowledges records, each by the position of its last entry.
pub(super) async fn ack(
    connection: &mut PartitionConnection,
    tags: &[DeliveryTag],
) -> Result<(), RedisError> {
    let ids: Vec<String> = tags.iter().map(|last| format!("{last}-0")).collect();
    let mut command = redis::cmd("XACK");
    command
        .arg(connection.keys().log(connection.partition))
        .arg(GROUP)
        .arg(ids);
    let _: u64 = connection.query(&command).await?;
    Ok(())
}
