//! All partitions of an installation: where campaigns are, and commands and script calls to them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use qiang_core::{
    campaign::AckLevel,
    event::{PartitionId, Seq},
    id::{CampaignId, UserId},
    ports::EngineError,
};
use redis::{Cmd, FromRedisValue, RedisError};
use tokio::sync::Mutex;

use crate::{
    call_connection::{Arguments, Call, CallConnection, ConnectionContext},
    clock::RedisClock,
    error::{ConnectError, STATE_LOST, no_answer, unavailable},
    keys::{KeySpace, home_of, part_of},
    meta::{CampaignMeta, FIELDS},
    options::Options,
    partition::Partition,
    reply::ScriptReply,
    scripts::Script,
};

/// Campaigns that a node remembers; past that many, all are forgotten and read again as they are asked for.
const CAMPAIGNS_MAX: usize = 65_536;
/// Keys looked at by one step of a scan.
const SCAN_COUNT: usize = 1_000;

/// All partitions, as this node sees them.
pub(crate) struct Partitions {
    pub(crate) context: Arc<ConnectionContext>,
    pub(crate) clock: RedisClock,
    metas: RwLock<HashMap<CampaignId, Arc<CampaignMeta>>>,
    list: Vec<Arc<Partition>>,
    /// One connection a partition, for everything that is not a claim.
    command_connections: Vec<Mutex<CallConnection>>,
}

impl Partitions {
    /// Finds every partition's state in Redis, or makes it. `settled` is how far the ledger has each partition.
    pub(crate) async fn attach(
        context: ConnectionContext,
        settled: &[(PartitionId, Seq)],
    ) -> Result<Self, ConnectError> {
        let fresh = settled.iter().all(|(_, seq)| *seq == 0);
        let mut list = Vec::new();
        for id in (0..context.options.partitions).map(PartitionId) {
            let known = settled.iter().find(|(partition, _)| *partition == id);
            let min_head = known.map_or(0, |(_, seq)| *seq);
            list.push(Arc::new(attach(&context, id, min_head, fresh).await?));
        }
        let mut partitions = Self {
            clock: RedisClock::new(context.options.clock.clone()),
            context: Arc::new(context),
            metas: RwLock::default(),
            list,
            command_connections: Vec::new(),
        };
        // Part of keys: it stays.
        partitions.command_connections = partitions.connections("desk");
        Ok(partitions)
    }

    pub(crate) fn list(&self) -> &[Arc<Partition>] {
        &self.list
    }

    pub(crate) fn get(&self, id: PartitionId) -> &Partition {
        &self.list[usize::from(id.0)]
    }

    pub(crate) fn keys(&self) -> &KeySpace {
        &self.context.keys
    }

    pub(crate) fn options(&self) -> &Options {
        &self.context.options
    }

    /// A connection of this name to a partition. It connects when it is used.
    pub(crate) fn connection(&self, id: PartitionId, name: &str) -> CallConnection {
        let partition = Arc::clone(&self.list[usize::from(id.0)]);
        CallConnection::new(Arc::clone(&self.context), partition, name)
    }

    /// A connection of this name to each partition.
    pub(crate) fn connections(&self, name: &str) -> Vec<Mutex<CallConnection>> {
        let ids = self.list.iter().map(|partition| partition.id);
        ids.map(|id| Mutex::new(self.connection(id, name)))
            .collect()
    }

    /// Where a campaign is, or the first part of one that is spread.
    pub(crate) fn home(&self, campaign: CampaignId) -> PartitionId {
        home_of(campaign, self.options().partitions)
    }

    /// The partition of a campaign's part.
    pub(crate) fn of_part(&self, campaign: CampaignId, part: u16) -> PartitionId {
        let home = u32::from(self.home(campaign).0);
        let count = u32::from(self.options().partitions);
        PartitionId(((home + u32::from(part)) % count) as u16)
    }

    /// The partitions that a campaign is on, its home first.
    pub(crate) fn of_campaign(
        &self,
        meta: &CampaignMeta,
    ) -> impl Iterator<Item = PartitionId> + use<'_> {
        let id = meta.id;
        (0..meta.parts).map(move |part| self.of_part(id, part))
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
        let part = number.saturating_sub(1) % u32::from(meta.parts.max(1));
        self.of_part(meta.id, part as u16)
    }

    /// What this node remembers of a campaign.
    pub(crate) fn known_meta(&self, campaign: CampaignId) -> Option<Arc<CampaignMeta>> {
        self.metas.read().get(&campaign).cloned()
    }

    /// A campaign's meta, from memory or from its home; none if no engine has taken the campaign up.
    pub(crate) async fn meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CampaignMeta>>, EngineError> {
        if let Some(meta) = self.known_meta(campaign) {
            return Ok(Some(meta));
        }
        let home = self.home(campaign);
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.keys().campaign(home, campaign))
            .arg(&FIELDS);
        let values: Vec<Option<String>> = self.query(home, &command).await?;
        if values.iter().all(Option::is_none) {
            // A partition that has lost its state knows no campaign: that is no answer.
            self.check(home).await?;
            return Ok(None);
        }
        let meta = CampaignMeta::read(campaign, &values);
        let unreadable = || format!("the state of campaign {campaign} in Redis cannot be read");
        let meta = Arc::new(meta.ok_or_else(|| unavailable(unreadable()))?);
        let mut known = self.metas.write();
        if known.len() >= CAMPAIGNS_MAX {
            known.clear();
        }
        known.insert(campaign, Arc::clone(&meta));
        Ok(Some(meta))
    }

    /// Sends a plain command that may be repeated to a partition's primary, over lost connections.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let connection = &self.command_connections[usize::from(partition.0)];
        let answer = connection.lock().await.query(command).await;
        answer.map_err(|error| unavailable(no_answer(&error)))
    }

    /// Calls a script of a campaign's part.
    pub(crate) async fn call(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        wait: bool,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let call = Call {
            script,
            campaign,
            arguments,
            wait,
        };
        let connection = &self.command_connections[usize::from(partition.0)];
        connection.lock().await.call(&call).await
    }

    /// Calls a script that changes something, and sees to the level that the campaign asks for.
    pub(crate) async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        (campaign, asked): (CampaignId, AckLevel),
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let wait = self.options().waits(asked);
        let reply = self
            .call(partition, script, campaign, wait, arguments)
            .await?;
        if wait && reply.is_ok() {
            reply.level(asked)?;
        }
        Ok(reply)
    }

    /// Stops granting on a partition, on all nodes.
    pub(crate) async fn halt(&self, partition: PartitionId, reason: &str) {
        self.get(partition).halt(reason);
        let mut command = redis::cmd("HSET");
        command
            .arg(self.keys().partition(partition))
            .arg("halted")
            .arg(reason);
        let written: Result<i64, _> = self.query(partition, &command).await;
        if let Err(error) = written {
            tracing::warn!(
                partition = partition.0,
                %error,
                "other nodes could not be stopped from granting"
            );
        }
    }

    /// Removes a partition's keys.
    pub(crate) async fn erase(&self, partition: PartitionId) -> Result<(), EngineError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor)
                .arg("MATCH")
                .arg(self.keys().all(partition))
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (String, Vec<String>) = self.query(partition, &scan).await?;
            if !keys.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                let _: i64 = self.query(partition, unlink.arg(keys)).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Checks that the partition has its state and grants.
    async fn check(&self, id: PartitionId) -> Result<(), EngineError> {
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.keys().partition(id))
            .arg("epoch")
            .arg("halted");
        let (epoch, halted): (Option<String>, Option<String>) = self.query(id, &command).await?;
        let partition = self.get(id);
        let reason = match halted {
            Some(reason) => reason,
            None if epoch.as_ref() == Some(&partition.epoch) => return Ok(()),
            None => STATE_LOST.to_owned(),
        };
        partition.halt(&reason);
        Err(unavailable(reason))
    }
}

/// Finds a partition's state, or makes it where there may be a new one.
async fn attach(
    context: &ConnectionContext,
    id: PartitionId,
    min_head: Seq,
    fresh: bool,
) -> Result<Partition, ConnectError> {
    const ATTACH: &str = include_str!("lua/attach.lua");
    let epoch = format!("{:016x}", rand::random::<u64>());
    let mut command = redis::cmd("EVAL");
    command
        .arg(ATTACH)
        .arg(1)
        .arg(context.keys.partition(id))
        .arg(context.options.partitions)
        .arg(epoch)
        .arg(u8::from(fresh))
        .arg(min_head);
    let attached: Result<(String, String), RedisError> = async {
        let mut connection = context.directory.connect(id).await?;
        command.query_async(&mut connection).await
    }
    .await;
    let (status, text) = attached.map_err(ConnectError::Redis)?;
    match status.as_str() {
        "ok" => Ok(Partition::new(id, text, min_head)),
        "count" => Err(ConnectError::Partitions {
            found: text.parse().unwrap_or(0),
            configured: context.options.partitions,
        }),
        _ => {
            let partition = Partition::new(id, String::new(), min_head);
            partition.halt(&text);
            Ok(partition)
        }
    }
}
