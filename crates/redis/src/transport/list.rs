//! `list`: a list beside the log, and a second one of what is being dealt with.

use std::time::Duration;

use qiang_core::event::Seq;
use redis::Value;

use super::{
    RECORDS_MAX,
    line::{Failed, Line, Stage},
};
use crate::record::Record;

/// Items that could not be read of which the last are kept.
const DEAD_MAX: usize = 1_000;

const MOVE: &str = include_str!("list_move.lua");
const BACK: &str = include_str!("list_back.lua");
const DONE: &str = include_str!("list_done.lua");
const DEAD: &str = include_str!("list_dead.lua");

impl Line {
    pub(super) async fn bring_list(&mut self, wait: Duration) -> Result<usize, Failed> {
        let keys = &self.shared.keys;
        let (queue, doing) = (keys.queue(self.partition), keys.doing(self.partition));
        let lease = keys.lease(self.partition);
        if self.stage != Stage::Reading {
            self.inbox.clear();
            let mut command = redis::cmd("EVAL");
            command.arg(BACK).arg(3).arg(&queue).arg(&doing).arg(&lease);
            command.arg(&self.token);
            let back: u64 = self.query(&command, Duration::ZERO).await?;
            self.shown.lock().recovered += back;
        }
        // If an answer does not reach us, the items have been moved all the same.
        self.stage = Stage::from_the_start();
        let mut command = redis::cmd("EVAL");
        command.arg(MOVE).arg(3).arg(&queue).arg(&doing).arg(&lease);
        command.arg(&self.token).arg(RECORDS_MAX);
        let mut items: Vec<Vec<u8>> = self.query(&command, Duration::ZERO).await?;
        if items.is_empty() && !wait.is_zero() {
            let mut command = redis::cmd("BLMOVE");
            command.arg(&queue).arg(&doing).arg("LEFT").arg("RIGHT");
            command.arg(wait.as_secs_f64());
            let item: Option<Vec<u8>> = self.query(&command, wait).await?;
            items.extend(item);
        }
        self.stage = Stage::Reading;
        let count = items.len();
        for item in items {
            match record(&item) {
                Some(record) => drop(self.receive(vec![record])?),
                None => self.bury(&item).await?,
            }
        }
        Ok(count)
    }

    /// Puts an item that cannot be read aside. What it stood for is read from the log.
    async fn bury(&mut self, item: &[u8]) -> Result<(), Failed> {
        let keys = &self.shared.keys;
        let (doing, dead) = (keys.doing(self.partition), keys.dead(self.partition));
        let mut command = redis::cmd("EVAL");
        command.arg(DEAD).arg(2).arg(doing).arg(dead);
        command.arg(item).arg(DEAD_MAX);
        let _: u64 = self.query(&command, Duration::ZERO).await?;
        self.shown.lock().unreadable += 1;
        let partition = self.partition.0;
        tracing::error!(partition, "an item of the list cannot be read");
        Ok(())
    }

    pub(super) async fn acknowledge_list(&mut self, settled: Seq) -> Result<(), Failed> {
        let doing = self.shared.keys.doing(self.partition);
        let mut command = redis::cmd("EVAL");
        command.arg(DONE).arg(1).arg(doing).arg(settled);
        let _: u64 = self.query(&command, Duration::ZERO).await?;
        Ok(())
    }
}

/// An item as the record of the log that it is a copy of.
fn record(item: &[u8]) -> Option<Record> {
    let (head, body) = std::str::from_utf8(item).ok()?.split_once('\n')?;
    let mut words = head.split(' ');
    let mut next = || words.next().filter(|word| !word.is_empty());
    let (last, campaign, at, field) = (next()?, next()?, next()?, next()?);
    let text = |name: &str, value: &str| {
        let value = Value::BulkString(value.as_bytes().to_vec());
        (name.to_owned(), value)
    };
    let fields = vec![text("c", campaign), text("t", at), text(field, body)];
    let record = (last.to_owned(), fields);
    crate::record::decode(&record.0, &record.1).map(|_| record)
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
        check(&format!("7 {id} 1800000000000 e\npaused\nresumed"), true);
        check(&format!("1 {id} 1800000000000 e\npaused\nresumed"), false);
        check(&format!("7 {id} 1800000000000 e\nsold"), false);
        check(&format!("7 {id} 1800000000000 x\npaused"), false);
        check(&format!("7 {id} 1800000000000\npaused"), false);
        check("rubbish", false);
        check("", false);
    }
}
