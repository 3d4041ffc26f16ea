//! What the engine's handles and tasks share on one node.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
};

use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    id::{CampaignId, UserId},
    outcome::Outcome,
    ports::{Claimed, EngineError},
    time::Timestamp,
};
use redis::{Cmd, RedisError};
use tokio::sync::Mutex;

use crate::{
    batcher::PendingClaim,
    call_connection::{Call, CallConnection, ConnectionContext, ScriptReply, is_transient},
    error::CallError,
    gate::Gate,
    keys::{home_of, part_of},
    meta::{self, CampaignMeta, MetaCache},
    partition::Partition,
    scripts::Script,
};

/// How often a plain read is tried over lost connections; no longer than a call is.
const READS_MAX: usize = 20;

/// Keys looked at by one step of a scan.
const SCAN_COUNT: usize = 1_000;

/// The engine on one node.
pub(crate) struct Node {
    pub(crate) context: Arc<ConnectionContext>,
    pub(crate) partitions: Vec<Partition>,
    /// One connection a partition for everything that is not a claim.
    pub(crate) command_connections: Vec<Mutex<CallConnection>>,
    /// One connection a partition for reading the log.
    pub(crate) readers: Vec<Mutex<CallConnection>>,
    pub(crate) meta: MetaCache,
    pub(crate) gate: Gate,
    pub(crate) queued: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    /// Redis' clock less this node's, in milliseconds.
    pub(crate) ahead: AtomicI64,
    pub(crate) started: std::time::Instant,
    pub(crate) turns: AtomicUsize,
    pub(crate) pulls: crate::spread::Pulls,
}

impl Node {
    pub(crate) fn partition(&self, id: PartitionId) -> &Partition {
        &self.partitions[usize::from(id.0)]
    }

    pub(crate) fn count(&self) -> u16 {
        self.context.options.partitions
    }

    pub(crate) fn home(&self, campaign: CampaignId) -> PartitionId {
        home_of(campaign, self.count())
    }

    /// The partition of a campaign's part.
    pub(crate) fn of_part(&self, campaign: CampaignId, part: u16) -> PartitionId {
        let home = u32::from(self.home(campaign).0);
        PartitionId(((home + u32::from(part)) % u32::from(self.count())) as u16)
    }

    /// The partition that serves a user.
    pub(crate) fn of_user(&self, meta: &CampaignMeta, user: &UserId) -> PartitionId {
        if meta.parts == 1 {
            return self.home(meta.id);
        }
        self.of_part(meta.id, part_of(user, meta.parts))
    }

    /// The partition that issued an order.
    pub(crate) fn of_order(&self, meta: &CampaignMeta, number: u32) -> PartitionId {
        let part = (number.saturating_sub(1)) % u32::from(meta.parts.max(1));
        self.of_part(meta.id, part as u16)
    }

    /// Redis' time as this node reckons it; exact where a clock is given.
    pub(crate) fn now(&self) -> Timestamp {
        match &self.context.options.clock {
            Some(clock) => clock.now(),
            None => Timestamp::from_millis(self.own_ms() + self.ahead.load(Ordering::Relaxed)),
        }
    }

    /// Learns what time it is at Redis.
    pub(crate) fn heard(&self, now: Timestamp) {
        let ahead = now.as_millis() - self.own_ms();
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    fn own_ms(&self) -> i64 {
        self.started.elapsed().as_millis() as i64
    }

    /// Puts a claim in line for its partition.
    pub(crate) fn enqueue(&self, asked: PendingClaim) {
        let partition = match self.meta.get(asked.claim.campaign) {
            Some(meta) => self.of_user(&meta, &asked.claim.user),
            None => self.home(asked.claim.campaign),
        };
        self.queued.fetch_add(1, Ordering::Relaxed);
        if let Err(asked) = self.partition(partition).batcher.push(asked) {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            asked.answer.send(Err(EngineError::Stopping));
        }
    }

    /// A campaign's meta, from memory or from its home; none if no engine has taken it up.
    pub(crate) async fn meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CampaignMeta>>, EngineError> {
        if let Some(meta) = self.meta.get(campaign) {
            return Ok(Some(meta));
        }
        let home = self.home(campaign);
        let key = self.context.keys.campaign(home, campaign);
        let command = redis::cmd("HMGET").arg(key).arg(&meta::FIELDS[..]).clone();
        let values: Vec<Option<String>> = self.read(home, &command).await?;
        if values.iter().all(Option::is_none) {
            // A partition that has lost its state knows nothing: that is no answer.
            self.check(home).await?;
            return Ok(None);
        }
        let meta =
            CampaignMeta::read(campaign, &values).ok_or_else(|| EngineError::Unavailable {
                reason: format!("the state of campaign {campaign} in Redis cannot be read"),
            })?;
        Ok(Some(self.meta.insert(meta)))
    }

    /// Whether the partition is what it was.
    async fn check(&self, partition: PartitionId) -> Result<(), EngineError> {
        let key = self.context.keys.partition(partition);
        let command = redis::cmd("HMGET")
            .arg(key)
            .arg("epoch")
            .arg("halted")
            .clone();
        let (epoch, halted): (Option<String>, Option<String>) =
            self.read(partition, &command).await?;
        let known = self.partition(partition);
        let reason = match halted {
            Some(reason) => reason,
            None if epoch.as_ref() == Some(&known.epoch) => return Ok(()),
            None => "Redis has lost the state of this partition".to_owned(),
        };
        known.halt(&reason);
        Err(EngineError::Unavailable { reason })
    }

    /// A plain read from a partition's primary, over lost connections.
    pub(crate) async fn read<T: redis::FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let mut connection = self.command_connections[usize::from(partition.0)]
            .lock()
            .await;
        let read = self.read_by(&mut connection, command).await;
        read.map_err(|error| EngineError::Unavailable {
            reason: format!("Redis does not answer: {error}"),
        })
    }

    pub(crate) async fn read_by<T: redis::FromRedisValue>(
        &self,
        connection: &mut CallConnection,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let until = std::time::Instant::now() + self.context.options.try_for;
        let mut tried = 0;
        loop {
            tried += 1;
            let result = match connection.connection().await {
                Ok(connection) => command.query_async(connection).await,
                Err(error) => Err(error),
            };
            let over = tried >= READS_MAX || std::time::Instant::now() >= until;
            match result {
                Err(error) if is_transient(&error) && !over => {
                    connection.disconnect();
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                result => return result,
            }
        }
    }

    /// Calls a script on a partition's connection.
    pub(crate) async fn call(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        wait: bool,
        arguments: &(dyn Fn(&mut Cmd) + Send + Sync),
    ) -> Result<ScriptReply, CallError> {
        let call = Call {
            script,
            campaign,
            arguments,
            wait,
        };
        let mut connection = self.command_connections[usize::from(partition.0)]
            .lock()
            .await;
        connection.call(self.partition(partition), &call).await
    }

    /// Removes a partition's keys.
    pub(crate) async fn erase(&self, partition: PartitionId) -> Result<(), EngineError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor)
                .arg("MATCH")
                .arg(self.context.keys.all(partition))
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (String, Vec<String>) = self.read(partition, &scan).await?;
            if !keys.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(keys).clone();
                let _: i64 = self.read(partition, &unlink).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Whether decisions of this campaign wait for replicas.
    pub(crate) fn waits(&self, ack: AckLevel) -> bool {
        let options = &self.context.options;
        let always = options.wait_for == crate::options::WaitFor::Always;
        options.replicas > 0 && (always || ack == AckLevel::Replica)
    }

    /// The level that a grant is answered with, or the error that stands for one that does not suffice: a retry
    /// replays the grant.
    pub(crate) fn level(
        &self,
        asked: AckLevel,
        reached: AckLevel,
    ) -> Result<AckLevel, EngineError> {
        if asked == AckLevel::Replica && reached < AckLevel::Replica {
            return Err(EngineError::Uncertain {
                reason: "the replicas did not confirm in time".to_owned(),
            });
        }
        Ok(reached)
    }

    /// Answers claims of a campaign that is not there, or not of their kind.
    pub(crate) fn unknown(asked: Vec<PendingClaim>) {
        for asked in asked {
            let claimed = Claimed {
                outcome: Outcome::UnknownCampaign,
                ack: AckLevel::Memory,
            };
            asked.answer.send(Ok(claimed));
        }
    }
}
