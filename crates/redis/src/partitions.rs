//! Partitions of an installation, and the campaigns on them, over the connections to Redis.

pub(crate) mod clock;
pub(crate) mod key_types;
pub(crate) mod log_gap;
mod start_clock;
pub(crate) mod ticking;

use std::{ops::Deref, sync::Arc, time::Duration};

use qiang_core::{
    admission::AdmissionBound,
    campaign::AckLevel,
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::EngineError,
    time::Timestamp,
};
use quick_cache::sync::Cache;
use redis::Cmd;

use crate::{
    connection::{
        CallConnection, PartitionHandle, PartitionHealth, RedisConnections, eval_at_maxmemory,
        home_of, part_of, unavailable,
    },
    partitions::clock::RedisClock,
    protocol::{
        campaign_meta::{CachedCampaign, FIELDS},
        scripts::HALT,
    },
};

/// Maximum campaigns that a node remembers. Past it, campaigns that were not requested recently are forgotten.
const CAMPAIGNS_MAX: usize = 65_536;
/// Acquires or renews a lease.
const LEAD: &str = "local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";

/// All partitions, as this node sees them, and their campaigns.
pub(crate) struct Partitions {
    connections: RedisConnections,
    /// Clocks by partition number, because each partition may be on another server.
    clocks: Vec<RedisClock>,
    metas: Cache<CampaignId, Arc<CachedCampaign>>,
}

impl Deref for Partitions {
    type Target = RedisConnections;

    fn deref(&self) -> &RedisConnections {
        &self.connections
    }
}

impl Partitions {
    /// Partitions of these connections.
    pub(crate) fn new(connections: RedisConnections) -> Self {
        let given = &connections.options().clock;
        let clock = |_: &Arc<PartitionHandle>| RedisClock::new(given.clone());
        Self {
            clocks: connections.list().iter().map(clock).collect(),
            connections,
            metas: Cache::new(CAMPAIGNS_MAX),
        }
    }

    /// Clock of a partition's server, as far as this node knows it.
    pub(crate) fn clock(&self, partition: PartitionId) -> &RedisClock {
        &self.clocks[usize::from(partition.0)]
    }

    /// Times of the partitions whose servers were asked recently.
    pub(crate) fn times(&self) -> impl Iterator<Item = (PartitionId, Timestamp)> {
        let clocks = (0..).map(PartitionId).zip(&self.clocks);
        clocks.filter_map(|(id, clock)| Some((id, clock.trusted_now()?)))
    }

    /// Home partition of a campaign: the partition of its first shard.
    pub(crate) fn home(&self, campaign: CampaignId) -> PartitionId {
        home_of(campaign, self.options().partitions)
    }

    /// Partition of a campaign's shard.
    pub(crate) fn for_part(&self, campaign: CampaignId, part: u16) -> PartitionId {
        let home = u32::from(self.home(campaign).0);
        let count = u32::from(self.options().partitions);
        PartitionId(((home + u32::from(part)) % count) as u16)
    }

    /// Partitions of the shards of a campaign, its home first.
    pub(crate) fn of_parts(
        &self,
        campaign: CampaignId,
        parts: u16,
    ) -> impl DoubleEndedIterator<Item = PartitionId> + use<'_> {
        (0..parts).map(move |index| self.for_part(campaign, index))
    }

    /// Partitions of a campaign, its home first.
    pub(crate) fn for_campaign(
        &self,
        meta: &CachedCampaign,
    ) -> impl Iterator<Item = PartitionId> + use<'_> {
        let id = meta.id;
        (0..meta.parts).map(move |part| self.for_part(id, part))
    }

    /// Partition that serves a user.
    pub(crate) fn for_user(&self, meta: &CachedCampaign, user: &UserId) -> PartitionId {
        if meta.parts == 1 {
            return self.home(meta.id);
        }
        self.for_part(meta.id, part_of(user, meta.parts))
    }

    /// Partition that issued an order.
    pub(crate) fn for_order(&self, meta: &CachedCampaign, number: u32) -> PartitionId {
        let part = number.saturating_sub(1) % u32::from(meta.parts.max(1));
        self.for_part(meta.id, part as u16)
    }

    /// Meta of a campaign that this node remembers.
    pub(crate) fn known_meta(&self, campaign: CampaignId) -> Option<Arc<CachedCampaign>> {
        self.metas.get(&campaign)
    }

    /// Meta of a campaign, from memory or from its home. `None` if the home does not have the campaign.
    pub(crate) async fn meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CachedCampaign>>, EngineError> {
        if let Some(meta) = self.known_meta(campaign) {
            return Ok(Some(meta));
        }
        let command = self.meta_command(campaign);
        let values: Vec<Option<String>> = self.query(self.home(campaign), &command).await?;
        self.learn(campaign, &values)
    }

    /// Metas of campaigns that this node does not remember, with one call to their common home.
    pub(crate) async fn unknown_metas(
        &self,
        connection: &mut CallConnection,
        campaigns: &[CampaignId],
    ) -> Result<Vec<Result<Option<Arc<CachedCampaign>>, EngineError>>, EngineError> {
        let commands = campaigns
            .iter()
            .map(|campaign| self.meta_command(*campaign));
        let commands: Vec<_> = commands.collect();
        let all = connection.query_all(&commands).await?;
        let learn = |(campaign, values): (&CampaignId, Result<Vec<_>, _>)| {
            values.and_then(|values| self.learn(*campaign, &values))
        };
        Ok(campaigns.iter().zip(all).map(learn).collect())
    }

    fn meta_command(&self, campaign: CampaignId) -> Cmd {
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.keys().campaign(self.home(campaign), campaign))
            .arg(&FIELDS);
        command
    }

    /// Reads a campaign's meta from its home's values, and remembers it.
    fn learn(
        &self,
        campaign: CampaignId,
        values: &[Option<String>],
    ) -> Result<Option<Arc<CachedCampaign>>, EngineError> {
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let meta = CachedCampaign::read(campaign, values);
        let unreadable = || format!("the state of campaign {campaign} in Redis cannot be read");
        let meta = Arc::new(meta.ok_or_else(|| unavailable(unreadable()))?);
        self.remember(Arc::clone(&meta));
        Ok(Some(meta))
    }

    /// Remembers a campaign's meta.
    pub(crate) fn remember(&self, meta: Arc<CachedCampaign>) {
        self.metas.insert(meta.id, meta);
    }

    /// Remembers the admission of a sale, as read from a reply to claims.
    pub(crate) fn note_admission(&self, meta: &CachedCampaign, admission: Option<AdmissionBound>) {
        if let Some(bound) = admission
            && bound.ratio() != meta.admission
        {
            self.remember(Arc::new(CachedCampaign {
                admission: bound.ratio(),
                ..meta.clone()
            }));
        }
    }

    /// Acquires or renews a partition's lease of this length. False if another process has it.
    pub(crate) async fn leads(
        &self,
        partition: PartitionId,
        key: String,
        lease: Duration,
    ) -> Result<bool, EngineError> {
        let mut lead = eval_at_maxmemory(LEAD, &[key]);
        lead.arg(&self.context.node)
            .arg(lease.as_millis().max(1) as u64);
        let leads: i64 = self.query_unfenced(partition, &lead).await?;
        Ok(leads == 1)
    }

    /// Whether a partition has a campaign or one of its shards.
    pub(crate) async fn has_part(
        &self,
        campaign: CampaignId,
        partition: PartitionId,
    ) -> Result<bool, EngineError> {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(self.keys().campaign(partition, campaign));
        let exists: i64 = self.query_unfenced(partition, &exists).await?;
        Ok(exists > 0)
    }

    /// Number of shards, and index of this partition's shard. `None` if it has no shard.
    pub(crate) fn index_of(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        parts: u16,
    ) -> Option<(u16, u16)> {
        let (home, count) = (self.home(campaign).0, self.options().partitions);
        let index = (partition.0 + count - home) % count;
        (index < parts).then_some((parts, index))
    }

    /// Whether a partition is halted, after a loss or by an operator.
    pub(crate) fn is_halted(&self, id: PartitionId) -> bool {
        matches!(self.state(id), PartitionHealth::Halted { .. })
    }

    /// Halts a partition for an operator, on all nodes.
    ///
    /// # Errors
    /// If Redis does not answer, or the partition is halted already.
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
}

/// Campaign id of calls that concern no campaign.
pub(crate) fn nobody() -> CampaignId {
    let nobody = uuid::Builder::from_unix_timestamp_millis(0, &[0; 10]).into_uuid();
    CampaignId::new(nobody).expect("an id of the year 1970 is one")
}
