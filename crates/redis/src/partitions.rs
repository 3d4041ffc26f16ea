//! All partitions of an installation: where campaigns are, and commands and script calls to them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use parking_lot::RwLock;
use qiang_core::{
    campaign::AckLevel,
    event::{PartitionId, Seq},
    id::{CampaignId, UserId},
    ports::EngineError,
};
use redis::{Cmd, FromRedisValue};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use crate::{
    call_connection::{Arguments, Call, CallConnection, ConnectionContext},
    clock::RedisClock,
    error::{ConnectError, is_transient, no_answer, unavailable},
    keys::{KeySpace, home_of, part_of},
    meta::{CampaignMeta, FIELDS},
    options::Options,
    partition::{Partition, PartitionState},
    reply::ScriptReply,
    scripts::{HALT, Script},
};

/// Campaigns that a node remembers; past that many, all are forgotten and read again as they are asked for.
const CAMPAIGNS_MAX: usize = 65_536;
/// Keys looked at by one step of a scan.
const SCAN_COUNT: usize = 1_000;
/// The pause between two attempts of a command that is sent in whatever term.
const UNFENCED_PAUSE: Duration = Duration::from_millis(50);

/// All partitions, as this node sees them.
pub(crate) struct Partitions {
    pub(crate) context: Arc<ConnectionContext>,
    pub(crate) clock: RedisClock,
    metas: RwLock<HashMap<CampaignId, Arc<CampaignMeta>>>,
    list: Vec<Arc<Partition>>,
    /// One connection a partition, for everything that is not a claim.
    command_connections: Vec<Mutex<CallConnection>>,
    /// One connection a partition, for saying that this node is there.
    pub(crate) presence_connections: Vec<Mutex<CallConnection>>,
    /// One connection a partition, for looking after it while it is not open.
    repair_connections: Vec<Mutex<CallConnection>>,
}

impl Partitions {
    /// Tells every partition in Redis that this node is there, and where all is `fresh` sets it up if nothing was ever
    /// in it. What does not answer is unreachable for now. `settled` is how far the ledger has each partition.
    ///
    /// # Errors
    /// When Redis was set up with another number of partitions.
    pub(crate) async fn connect(
        context: ConnectionContext,
        settled: &[(PartitionId, Seq)],
        fresh: bool,
    ) -> Result<Self, ConnectError> {
        let grace = context.options.term_grace;
        let partition = |id: PartitionId| {
            let known = settled.iter().find(|(partition, _)| *partition == id);
            let settled = known.map_or(0, |(_, seq)| *seq);
            Arc::new(Partition::new(id, settled, fresh, grace))
        };
        let ids = (0..context.options.partitions).map(PartitionId);
        let mut partitions = Self {
            clock: RedisClock::new(context.options.clock.clone()),
            list: ids.map(partition).collect(),
            context: Arc::new(context),
            metas: RwLock::default(),
            command_connections: Vec::new(),
            presence_connections: Vec::new(),
            repair_connections: Vec::new(),
        };
        // Part of keys: it stays.
        partitions.command_connections = partitions.connections("desk");
        partitions.presence_connections = partitions.connections("presence");
        partitions.repair_connections = partitions.connections("repair");
        let ids = partitions.list.iter().map(|partition| partition.id);
        let presences = join_all(ids.map(|id| partitions.present(id))).await;
        presences.into_iter().collect::<Result<(), _>>()?;
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

    /// Whether a partition decides anything, as this node sees it.
    pub(crate) fn state(&self, id: PartitionId) -> PartitionState {
        self.get(id).state()
    }

    /// Whether a partition decides something, or will in a moment.
    pub(crate) fn is_serving(&self, id: PartitionId) -> bool {
        let state = self.state(id);
        matches!(state, PartitionState::Open | PartitionState::Gathering)
    }

    /// Sends a plain command that may be repeated to a partition's primary, over lost connections and terms.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        self.command_connection(partition)
            .await?
            .query(command)
            .await
    }

    /// Sends a plain command that may be repeated to a partition's server, in whatever term: for those who look after a
    /// partition that is not open.
    pub(crate) async fn query_unfenced<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let mut connection = self.repair_connections[usize::from(partition.0)]
            .lock()
            .await;
        let until = Instant::now() + self.options().call_timeout;
        loop {
            let error = match connection.once(command).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            connection.disconnect();
            if !is_transient(&error) || Instant::now() >= until {
                return Err(unavailable(no_answer(&error)));
            }
            tokio::time::sleep(UNFENCED_PAUSE).await;
        }
    }

    /// Calls a script of a campaign's part; `asks` is the level that it is to reach, none for one that only reads.
    pub(crate) async fn call(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        asks: Option<AckLevel>,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let call = Call {
            script,
            campaign,
            arguments,
            asks,
        };
        self.command_connection(partition).await?.call(&call).await
    }

    /// Why nobody waits for a partition, if it has not answered for as long as a call is tried. Claims and commands are
    /// refused at once then, so that they hold up neither their clients nor other partitions.
    pub(crate) fn given_up(&self, partition: PartitionId) -> Option<String> {
        // A call gives up a little before its time, if there is none left for one more attempt.
        self.get(partition)
            .given_up(self.options().try_for * 9 / 10)
    }

    /// The connection for commands.
    async fn command_connection(
        &self,
        partition: PartitionId,
    ) -> Result<MutexGuard<'_, CallConnection>, EngineError> {
        let check = || {
            self.given_up(partition)
                .map_or(Ok(()), |reason| Err(unavailable(reason)))
        };
        check()?;
        let connection = self.command_connections[usize::from(partition.0)]
            .lock()
            .await;
        // Those before it may have taken all the time that there was.
        check()?;
        Ok(connection)
    }

    /// Calls a script that changes something, and sees to the level that the campaign asks for.
    pub(crate) async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        (campaign, asked): (CampaignId, AckLevel),
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let reply = self
            .call(partition, script, campaign, Some(asked), arguments)
            .await?;
        if self.options().waits(asked) && reply.is_ok() {
            reply.level(asked)?;
        }
        Ok(reply)
    }

    /// Stops granting on a partition by hand, on all nodes.
    ///
    /// # Errors
    /// When Redis does not answer, or the partition has stopped already.
    pub(crate) async fn halt(
        &self,
        id: PartitionId,
        reason: &str,
        to_repair: bool,
    ) -> Result<(), EngineError> {
        let asks = Some(AckLevel::Memory);
        let to_repair = u8::from(to_repair);
        self.call(id, &HALT, nobody(), asks, &|command| {
            command.arg(reason).arg(to_repair)
        })
        .await?;
        self.get(id).suspect();
        Ok(())
    }

    /// Removes a partition's keys.
    pub(crate) async fn erase(&self, partition: PartitionId) -> Result<(), EngineError> {
        let mut connection = self.command_connections[usize::from(partition.0)]
            .lock()
            .await;
        let failed = |error| unavailable(no_answer(&error));
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor)
                .arg("MATCH")
                .arg(self.keys().all(partition))
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (String, Vec<String>) =
                connection.once(&scan).await.map_err(failed)?;
            if !keys.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                let _: i64 = connection.once(unlink.arg(keys)).await.map_err(failed)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

/// The campaign of calls that are about none.
pub(crate) fn nobody() -> CampaignId {
    let nobody = uuid::Builder::from_unix_timestamp_millis(0, &[0; 10]).into_uuid();
    CampaignId::new(nobody).expect("an id of the year 1970 is one")
}
