//! `list` transport: a list besides the log, and a second list of the items that a worker has received.

use std::time::Duration;

use qiang_core::event::Seq;
use redis::{RedisError, Value};

use super::{RECORDS_MAX, connection::PartitionConnection};
use crate::{
    connection::{eval_at_maxmemory, is_out_of_memory},
    protocol::log_record::{Record, decode},
};

/// Maximum unreadable items kept.
const DEAD_MAX: usize = 1_000;
/// Interval of reads while Redis has reached its `maxmemory`.
const FULL_POLL: Duration = Duration::from_millis(50);

const READ: &str = include_str!("list_read.lua");
const RECOVER: &str = include_str!("list_recover.lua");
const ACK: &str = include_str!("list_ack.lua");
const BURY: &str = include_str!("list_bury.lua");

/// Moves received and unacknowledged items to the list again, to be read again.
pub(super) async fn recover(
    connection: &mut PartitionConnection,
    token: &str,
) -> Result<(), RedisError> {
    let mut command = eval_at_maxmemory(RECOVER, &keys(connection));
    let back: u64 = connection.query(command.arg(token)).await?;
    connection.shown.lock().recovered += back;
    Ok(())
}

/// Reads new items as log records, and waits for the first one. Unreadable items are buried, and items of another epoch
/// are dropped. If a dropped item belongs to this history, it is read from the log. Also returns the number of items.
pub(super) async fn read(
    connection: &mut PartitionConnection,
    token: &str,
    wait: Duration,
) -> Result<(usize, Vec<Record>), RedisError> {
    let keys = keys(connection);
    let partition = connection.keys().partition(connection.partition);
    let mut command = eval_at_maxmemory(READ, &[&keys[..], &[partition]].concat());
    command.arg(token).arg(RECORDS_MAX);
    let (mut epoch, mut items): (String, Vec<Vec<u8>>) = connection.query(&command).await?;
    if items.is_empty() && !wait.is_zero() {
        let mut moving = redis::cmd("BLMOVE");
        moving.arg(&keys[..2]).arg("LEFT").arg("RIGHT");
        moving.arg(wait.as_secs_f64());
        let item: Result<Option<Vec<u8>>, _> = connection.query_blocking(&moving, wait).await;
        match item {
            // BLMOVE fails at `maxmemory`, but the script above still moves items.
            Err(error) if is_out_of_memory(&error) => tokio::time::sleep(wait.min(FULL_POLL)).await,
            item => {
                if let Some(item) = item? {
                    // Reads the epoch and further items.
                    let more: Vec<Vec<u8>>;
                    (epoch, more) = connection.query(&command).await?;
                    items.push(item);
                    items.extend(more);
                }
            }
        }
    }
    let mut records = Vec::with_capacity(items.len());
    for item in &items {
        match record(item) {
            Some((of, record)) if of == epoch => records.push(record),
            Some(_) => drop_item(connection, item).await?,
            None => bury(connection, item).await?,
        }
    }
    Ok((items.len(), records))
}

/// Drops an item of another epoch.
async fn drop_item(connection: &mut PartitionConnection, item: &[u8]) -> Result<(), RedisError> {
    let partition = connection.partition;
    let mut command = redis::cmd("LREM");
    let doing = connection.keys().doing(partition);
    let _: u64 = connection
        .query(command.arg(doing).arg(1).arg(item))
        .await?;
    let partition = partition.0;
    tracing::info!(partition, "list item of another epoch dropped");
    Ok(())
}

/// Moves an unreadable item to the dead list. Its entries are read from the log.
async fn bury(connection: &mut PartitionConnection, item: &[u8]) -> Result<(), RedisError> {
    let (keys, partition) = (connection.keys(), connection.partition);
    let mut command = eval_at_maxmemory(BURY, &[keys.doing(partition), keys.dead(partition)]);
    let _: u64 = connection.query(command.arg(item).arg(DEAD_MAX)).await?;
    connection.shown.lock().unreadable += 1;
    let partition = partition.0;
    tracing::error!(partition, "cannot read a list item");
    Ok(())
}

/// Acknowledges the items up to the one that ends with this entry.
pub(super) async fn ack(connection: &mut PartitionConnection, last: Seq) -> Result<(), RedisError> {
    let doing = connection.keys().doing(connection.partition);
    let _: u64 = connection
        .query(eval_at_maxmemory(ACK, &[doing]).arg(last))
        .await?;
    Ok(())
}

/// Keys of the scripts that move items.
fn keys(connection: &PartitionConnection) -> [String; 3] {
    let (keys, partition) = (connection.keys(), connection.partition);
    [
        keys.queue(partition),
        keys.doing(partition),
        keys.lease(partition),
    ]
}

/// Epoch of an item, and the log record that it copies.
fn record(item: &[u8]) -> Option<(&str, Record)> {
    let (head, body) = std::str::from_utf8(item).ok()?.split_once('\n')?;
    let mut words = head.split(' ');
    let mut next = || words.next().filter(|word| !word.is_empty());
    let (last, campaign, at) = (next()?, next()?, next()?);
    let (field, epoch) = (next()?, next()?);
    let text = |name: &str, value: &str| {
        let value = Value::BulkString(value.as_bytes().to_vec());
        (name.to_owned(), value)
    };
    let fields = vec![text("c", campaign), text("t", at), text(field, body)];
    let record = (last.to_owned(), fields);
    decode(&record.0, &record.1).map(|_| (epoch, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_the_scripts_write_them() {
        let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        let check = |item: &str, good: bool| {
            assert_eq!(record(item.as_bytes()).is_some(), good, "{item:?}");
        };
        check(&format!("7 {id} 1800000000000 e 0a\npaused\nresumed"), true);
        check(&format!("7 {id} 1800000000000 e\npaused\nresumed"), false);
        check(
            &format!("1 {id} 1800000000000 e 0a\npaused\nresumed"),
            false,
        );
        check(&format!("7 {id} 1800000000000 e 0a\nsold"), false);
        check(&format!("7 {id} 1800000000000 x 0a\npaused"), false);
        check(&format!("7 {id} 1800000000000\npaused"), false);
        check("rubbish", false);
        check("", false);
    }
}
