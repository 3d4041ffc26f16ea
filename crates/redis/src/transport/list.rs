//! `list`: a list beside the log, and a second one of the items that a worker has received.

use std::time::Duration;

use crate::connection::{eval_at_maxmemory, is_out_of_memory};
use qiang_core::event::Seq;
use redis::{RedisError, Value};

use super::{RECORDS_MAX, connection::PartitionConnection};
use crate::protocol::log_record::{Record, decode};

/// Items that could not be read of which the last are kept.
const DEAD_MAX: usize = 1_000;
/// How often items are looked for while Redis has reached its `maxmemory`.
const FULL_POLL: Duration = Duration::from_millis(50);

const READ: &str = include_str!("list_read.lua");
const RECOVER: &str = include_str!("list_recover.lua");
const ACK: &str = include_str!("list_ack.lua");
const BURY: &str = include_str!("list_bury.lua");

/// Puts back what was received and not acknowledged, to be read again.
pub(super) async fn recover(
    connection: &mut PartitionConnection,
    token: &str,
) -> Result<(), RedisError> {
    let mut command = eval_at_maxmemory(RECOVER, &keys(connection));
    let back: u64 = connection.query(command.arg(token)).await?;
    connection.shown.lock().recovered += back;
    Ok(())
}

/// Reads new items as the records that they are copies of, and waits for the first one. What cannot be read is put
/// aside, and what is of another epoch is dropped: if it is of this history after all, it is read from the log. Tells
/// how many items there were as well.
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
            // It cannot wait at `maxmemory`, where the script above still moves items.
            Err(error) if is_out_of_memory(&error) => tokio::time::sleep(wait.min(FULL_POLL)).await,
            item => {
                if let Some(item) = item? {
                    // What is there besides comes with the epoch.
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

/// Forgets an item of another epoch.
async fn drop_item(connection: &mut PartitionConnection, item: &[u8]) -> Result<(), RedisError> {
    let partition = connection.partition;
    let mut command = redis::cmd("LREM");
    let doing = connection.keys().doing(partition);
    let _: u64 = connection
        .query(command.arg(doing).arg(1).arg(item))
        .await?;
    let partition = partition.0;
    tracing::info!(
        partition,
        "an item of the list is of another epoch: dropped"
    );
    Ok(())
}

/// Puts an item that cannot be read aside. What it stood for is read from the log.
async fn bury(connection: &mut PartitionConnection, item: &[u8]) -> Result<(), RedisError> {
    let (keys, partition) = (connection.keys(), connection.partition);
    let mut command = eval_at_maxmemory(BURY, &[keys.doing(partition), keys.dead(partition)]);
    let _: u64 = connection.query(command.arg(item).arg(DEAD_MAX)).await?;
    connection.shown.lock().unreadable += 1;
    let partition = partition.0;
    tracing::error!(partition, "an item of the list cannot be read");
    Ok(())
}

/// Acknowledges the items up to and with the one that ends with this entry.
pub(super) async fn ack(connection: &mut PartitionConnection, last: Seq) -> Result<(), RedisError> {
    let doing = connection.keys().doing(connection.partition);
    let _: u64 = connection
        .query(eval_at_maxmemory(ACK, &[doing]).arg(last))
        .await?;
    Ok(())
}

/// The keys of the scripts that move items.
fn keys(connection: &PartitionConnection) -> [String; 3] {
    let (keys, partition) = (connection.keys(), connection.partition);
    [
        keys.queue(partition),
        keys.doing(partition),
        keys.lease(partition),
    ]
}

/// An item as the record of the log that it is a copy of, and the epoch that it is of.
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
