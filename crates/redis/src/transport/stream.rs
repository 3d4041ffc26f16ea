//! `stream`: a consumer group on the log.

use std::time::Duration;

use qiang_core::event::Seq;
use redis::RedisError;

use super::{
    GROUP, RECORDS_MAX,
    line::{Failed, Line, Stage},
};
use crate::record::Record;

/// Where `XAUTOCLAIM` begins and ends.
const ROUND: &str = "0-0";

/// What `XAUTOCLAIM` replies: where to go on, the records, and ids of records that are gone.
type Claimed = (String, Vec<Record>, Vec<String>);
/// What `XREADGROUP` replies: the records of each stream.
type Read = Option<Vec<(String, Vec<Record>)>>;

impl Line {
    pub(super) async fn bring_stream(
        &mut self,
        after: Seq,
        wait: Duration,
    ) -> Result<usize, Failed> {
        match self.bring_from_group(wait).await {
            Err(Failed::Redis(error)) if error.code() == Some("NOGROUP") => {
                self.make_group(after).await?;
                self.bring_from_group(wait).await
            }
            brought => brought,
        }
    }

    async fn bring_from_group(&mut self, wait: Duration) -> Result<usize, Failed> {
        match self.stage.clone() {
            Stage::Recovering(cursor) => self.recover(cursor).await,
            Stage::Reading => self.read(wait).await,
        }
    }

    /// Takes over what was handed out and not acknowledged, oldest first: by this worker before it lost its memory or
    /// its connection, and by workers that are dead, because the lease is ours. The cursor is carried on.
    async fn recover(&mut self, cursor: String) -> Result<usize, Failed> {
        if cursor == ROUND {
            self.inbox.clear();
        }
        let mut command = redis::cmd("XAUTOCLAIM");
        command
            .arg(self.shared.keys.log(self.partition))
            .arg(GROUP)
            .arg(&self.shared.transport_options.worker)
            .arg(0)
            .arg(cursor)
            .arg("COUNT")
            .arg(RECORDS_MAX);
        let (next, records, _gone): Claimed = self.query(&command, Duration::ZERO).await?;
        self.stage = if next == ROUND {
            Stage::Reading
        } else {
            Stage::Recovering(next)
        };
        self.shown.lock().recovered += records.len() as u64;
        self.receive(records)
    }

    async fn read(&mut self, wait: Duration) -> Result<usize, Failed> {
        let mut command = redis::cmd("XREADGROUP");
        let worker = &self.shared.transport_options.worker;
        command.arg("GROUP").arg(GROUP).arg(worker);
        // 0 would be for ever.
        let millis = wait.as_millis() as u64;
        if millis > 0 {
            command.arg("BLOCK").arg(millis);
        }
        command
            .arg("COUNT")
            .arg(RECORDS_MAX)
            .arg("STREAMS")
            .arg(self.shared.keys.log(self.partition))
            .arg(">");
        // If the answer does not reach us, what it held was handed out to us all the same.
        self.stage = Stage::from_the_start();
        let read: Read = self.query(&command, wait).await?;
        self.stage = Stage::Reading;
        let records = read.into_iter().flatten().flat_map(|(_, records)| records);
        self.receive(records.collect())
    }

    /// Makes the group, as it is after a Redis that was emptied, to go on behind the ledger's position.
    async fn make_group(&mut self, after: Seq) -> Result<(), Failed> {
        let mut command = redis::cmd("XGROUP");
        command
            .arg("CREATE")
            .arg(self.shared.keys.log(self.partition))
            .arg(GROUP)
            .arg(format!("{after}-0"))
            .arg("MKSTREAM");
        let made: Result<String, RedisError> = self.query(&command, Duration::ZERO).await;
        match made {
            Err(error) if error.code() == Some("BUSYGROUP") => {} // another worker was faster
            made => drop(made?),
        }
        let partition = self.partition.0;
        tracing::info!(partition, after, "the consumer group was made");
        self.shown.lock().remade += 1;
        self.start_over();
        Ok(())
    }

    pub(super) async fn acknowledge_stream(&mut self, ids: &[String]) -> Result<(), Failed> {
        let mut command = redis::cmd("XACK");
        command
            .arg(self.shared.keys.log(self.partition))
            .arg(GROUP)
            .arg(ids);
        let _: u64 = self.query(&command, Duration::ZERO).await?;
        Ok(())
    }
}
