//! Writes of a repair: rows, counters and entries. Each script refuses them once another process repairs.

mod lines;
mod numbers;
mod skipped;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use qiang_core::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Event, PartitionId, Seq},
    id::{CampaignId, UserId},
    order::{OrderState, PartKind},
    ports::{EngineError, RepairReport},
    reconcile::{GrantRow, PartFacts, PartRows, Repair, UserUnits},
    time::Timestamp,
};
use redis::ToRedisArgs;

pub(crate) use self::{
    lines::{ShardRows, records},
    numbers::Numbers,
    skipped::{missing_ordinals, skipped_ordinals, without},
};
use crate::{
    connection::{eval_at_maxmemory, unavailable},
    partitions::Partitions,
    protocol::{
        campaign_meta::CachedCampaign,
        reply::{part_text, payment_text, share_text},
        scripts::AGENDA,
    },
    repair_offer::Loss,
    shards::snapshot::PartSnapshot,
    shards::sums::sums_of,
};

const BEGIN: &str = include_str!("../lua/repair_begin.lua");
const PUT: &str = include_str!("../lua/repair_put.lua");
static PART: LazyLock<String> =
    LazyLock::new(|| [AGENDA, include_str!("../lua/repair_part.lua")].concat());
static SUSPEND: LazyLock<String> =
    LazyLock::new(|| [AGENDA, include_str!("../lua/repair_suspend.lua")].concat());
const APPEND: &str = include_str!("../lua/repair_append.lua");
/// The repairer's part of the end, and then the end of the halt.
static END: LazyLock<String> = LazyLock::new(|| {
    [
        include_str!("../lua/repair_end.lua"),
        crate::connection::RESUME,
    ]
    .concat()
});

/// Time after which a silent repairer loses its repair.
pub(crate) const REPAIRER_MS: u64 = 5_000;
/// Fields, or shares, that one call writes.
const CHUNK: usize = 1_000;
/// Maximum bytes of keys in a buyer's row; further keys are in a hash. As in `claim_sale.lua`.
const KEYS_BYTES_MAX: usize = 1_024;

/// Fields of a campaign that hold the rows of buyers and orders that were written last.
const NEWEST_ROWS: [&str; 2] = ["newest_buyer", "newest_order"];

/// Keys of a campaign, besides its hash, that are removed when it is taken out of service.
const SUSPENDED_KEYS: [&str; 10] = [
    "shares",
    "sums",
    "users",
    "orders",
    "payments",
    "transfers",
    "keys",
    "admissions",
    "shares:repair",
    "sums:repair",
];

/// Record of the log: number of entries, milliseconds, kind, body.
pub(crate) type NewRecord = (usize, i64, &'static str, String);

/// State of a repair, recorded when it begins.
pub(crate) struct NotedChange {
    /// Number of entries that no node and no row can name.
    pub(crate) unnamed: u64,
    /// The epoch that the repair begins.
    pub(crate) epoch: String,
    /// Whether the ledger has entries after the end of the log.
    pub(crate) ledger_is_ahead: bool,
    /// No node lacks an entry of the previous epoch up to this one.
    pub(crate) accounted: Seq,
    /// End of the log and position of the ledger, before the repair moved either.
    pub(crate) head: Seq,
    pub(crate) settled: Seq,
    /// Epochs of earlier attempts to end the same halt.
    pub(crate) tried: Vec<String>,
}

impl NotedChange {
    /// Whether an attempt to end this halt would begin this epoch.
    pub(crate) fn has_begun(&self, epoch: &str) -> bool {
        self.epoch == epoch || self.tried.iter().any(|tried| tried == epoch)
    }

    /// Reads the recorded state, and the name of its loss.
    fn read(text: &str) -> Option<(&str, Self)> {
        let mut words = text.split(' ');
        let loss = words.next()?;
        let noted = Self {
            unnamed: words.next()?.parse().ok()?,
            epoch: words.next()?.to_owned(),
            ledger_is_ahead: words.next()? == "1",
            accounted: words.next()?.parse().ok()?,
            head: words.next()?.parse().ok()?,
            settled: words.next()?.parse().ok()?,
            tried: words.map(str::to_owned).collect(),
        };
        Some((loss, noted))
    }

    fn text(&self, loss: &Loss) -> String {
        let (name, ahead) = (loss.name(), u8::from(self.ledger_is_ahead));
        let Self {
            unnamed,
            epoch,
            accounted,
            head,
            settled,
            tried,
            ..
        } = self;
        let mut text = format!("{name} {unnamed} {epoch} {ahead} {accounted} {head} {settled}");
        for epoch in tried {
            text.push(' ');
            text.push_str(epoch);
        }
        text
    }
}

/// A repair of one partition by one repairer.
pub(crate) struct Rebuild<'a> {
    partitions: &'a Partitions,
    pub(crate) partition: PartitionId,
    token: String,
    /// The token with the server on which it is valid: another server refuses the step.
    held: OnceLock<String>,
}

impl<'a> Rebuild<'a> {
    pub(crate) fn new(partitions: &'a Partitions, partition: PartitionId) -> Self {
        let token = format!("{:016x}", rand::random::<u64>());
        Self {
            partitions,
            partition,
            token,
            held: OnceLock::new(),
        }
    }

    /// The random name of this attempt.
    pub(crate) fn name(&self) -> &str {
        &self.token
    }

    /// The repairer's token, with the server on which the repair began.
    pub(crate) fn token(&self) -> &str {
        self.held.get().unwrap_or(&self.token)
    }

    /// Starts or extends the repair. Returns the time since the loss was found. `None` if another process repairs, or
    /// nothing is lost.
    pub(crate) async fn begin(&self) -> Result<Option<Duration>, EngineError> {
        let key = self.partitions.keys().partition(self.partition);
        let args = (self.token(), REPAIRER_MS);
        let (status, text) = self.run(BEGIN, &[key], &args).await?;
        let Some((waited, token)) = text.split_once(' ').filter(|_| status == "ok") else {
            return Ok(None);
        };
        self.held.get_or_init(|| token.to_owned());
        Ok(Some(Duration::from_millis(waited.parse().unwrap_or(0))))
    }

    /// State that an earlier attempt recorded, and whether it is about this loss, which may have grown since.
    pub(crate) async fn noted(
        &self,
        loss: &Loss,
    ) -> Result<Option<(NotedChange, bool)>, EngineError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.partitions.keys().partition(self.partition));
        get.arg("repair_unnamed");
        let noted: Option<String> = self.partitions.query_unfenced(self.partition, &get).await?;
        let noted = noted.as_deref().and_then(NotedChange::read);
        Ok(noted.map(|(name, noted)| (noted, name == loss.name())))
    }

    /// Records what a later attempt can no longer see.
    pub(crate) async fn note(&self, loss: &Loss, found: &NotedChange) -> Result<(), EngineError> {
        let key = self.partitions.keys().partition(self.partition);
        let fields = ["repair_unnamed".to_owned(), found.text(loss)];
        self.put(&key, "set", 0, &fields).await
    }

    /// Refuses a step outside Redis once another process repairs the partition. Redis checks its own steps.
    pub(crate) async fn check(&self) -> Result<(), EngineError> {
        match self.begin().await? {
            Some(_) => Ok(()),
            None => Err(unavailable(format!(
                "another process repairs partition {} now",
                self.partition.0
            ))),
        }
    }

    /// Removes a key.
    pub(crate) async fn clear(&self, key: &str) -> Result<(), EngineError> {
        let none: [&str; 0] = [];
        self.put(key, "clear", 0, &none).await
    }

    /// Makes the log continue after this entry, which is the ledger's position.
    pub(crate) async fn move_end(&self, end: Seq) -> Result<(), EngineError> {
        let key = self.partitions.keys().partition(self.partition);
        let fields = ["seq", "ledger_position"].map(|field| [field.to_owned(), end.to_string()]);
        self.put(&key, "set", 0, fields.as_flattened()).await
    }

    /// Sets or deletes fields of the partition.
    pub(crate) async fn put_fields(
        &self,
        what: &str,
        fields: &[String],
    ) -> Result<(), EngineError> {
        let key = self.partitions.keys().partition(self.partition);
        self.put(&key, what, 0, fields).await
    }

    /// Takes a campaign out of service: removes its keys. No entry after `end` is about it.
    pub(crate) async fn suspend(
        &self,
        campaign: CampaignId,
        end: Seq,
        epoch: &str,
    ) -> Result<(), EngineError> {
        let (keys, partition) = (self.partitions.keys(), self.partition);
        let mut script_keys = vec![keys.partition(partition), keys.agenda(partition)];
        script_keys.push(keys.campaign(partition, campaign));
        let rest = SUSPENDED_KEYS.iter();
        script_keys.extend(rest.map(|rest| keys.for_campaign(partition, campaign, rest)));
        let args = (self.token(), campaign.to_string(), end, epoch);
        self.expect_ok(&SUSPEND, &script_keys, &args).await
    }

    /// Releases the repair, so that another process can take it at once.
    pub(crate) async fn give_up(&self) -> Result<(), EngineError> {
        let key = self.partitions.keys().partition(self.partition);
        self.put(&key, "del", 0, &["repairer", "repair_until"])
            .await
    }

    /// Writes the repaired state of a shard. `fields` are those of its hash, if Redis has lost it.
    pub(crate) async fn part(
        &self,
        meta: &CachedCampaign,
        facts: &PartFacts,
        before: Option<&PartSnapshot>,
        fields: &[(String, String)],
        repair: &Repair,
    ) -> Result<(), EngineError> {
        let keys = self.partitions.keys();
        let of = |rest: &str| keys.for_campaign(self.partition, meta.id, rest);
        if facts.kind == CampaignKind::Sale {
            let wrong_users = before.map_or(&[][..], |before| &before.wrong_users);
            let skipped = skipped_ordinals(facts, before, repair);
            self.sale(meta, facts, repair, (wrong_users, &skipped))
                .await?;
        } else {
            let removed: Vec<&str> = repair
                .removed
                .iter()
                .map(|(user, _)| user.as_str())
                .collect();
            self.put_all(&of("users"), "del", &removed).await?;
            let rows = ShardRows::from_packet(meta, repair).users;
            self.put_all(&of("users"), "set", &rows).await?;
        }
        let ready = before.is_none_or(|before| before.part.shares != repair.shares);
        let ready = facts.fixed_shares && ready && repair.rows.phase != Phase::Closed;
        if ready {
            self.shares(meta, repair).await?;
        }
        self.numbers(meta, facts, before, fields, repair, ready)
            .await
    }

    /// Writes the orders and buyers of a sale.
    async fn sale(
        &self,
        meta: &CachedCampaign,
        facts: &PartFacts,
        repair: &Repair,
        (wrong_users, skipped): (&[UserUnits], &[(u32, u32)]),
    ) -> Result<(), EngineError> {
        let keys = self.partitions.keys();
        let of = |rest: &str| keys.for_campaign(self.partition, meta.id, rest);
        let rows = ShardRows::from_sale(meta, facts, repair, (wrong_users, skipped));
        // If this attempt stops half-way, the next one must not take its rows for older ones.
        let hash = keys.campaign(self.partition, meta.id);
        self.put(&hash, "del", 0, &NEWEST_ROWS).await?;
        self.put_all(&of("orders"), "set", &rows.orders).await?;
        self.put_all(&of("payments"), "set", &rows.payments).await?;
        self.put_all(&of("payments"), "del", &rows.refused_parts)
            .await?;
        self.put_all(&of("keys"), "set", &rows.keys).await?;
        self.put_all(&of("users"), "set", &rows.users).await?;
        self.put_all(&of("users"), "del", &rows.gone).await
    }

    /// Writes the shares, and the sums of the last 1000, 2000, … of them, beside the present ones.
    async fn shares(&self, meta: &CachedCampaign, repair: &Repair) -> Result<(), EngineError> {
        let keys = self.partitions.keys();
        let of = |rest: &str| keys.for_campaign(self.partition, meta.id, rest);
        let none: [&str; 0] = [];
        self.put(&of("shares:repair"), "clear", 0, &none).await?;
        self.put(&of("sums:repair"), "clear", 0, &none).await?;
        for (chunk, shares) in repair.shares.chunks(CHUNK).enumerate() {
            let texts: Vec<String> = shares
                .iter()
                .map(|(number, amount)| share_text(*number, *amount))
                .collect();
            self.put(&of("shares:repair"), "push", chunk * CHUNK, &texts)
                .await?;
        }
        let sums = sums_of(&repair.shares);
        let sums = sums
            .iter()
            .flat_map(|(_, place, sum)| [place.to_string(), sum.to_string()]);
        let sums: Vec<String> = sums.collect();
        self.put_all(&of("sums:repair"), "set", &sums).await
    }

    async fn numbers(
        &self,
        meta: &CachedCampaign,
        facts: &PartFacts,
        before: Option<&PartSnapshot>,
        fields: &[(String, String)],
        repair: &Repair,
        ready: bool,
    ) -> Result<(), EngineError> {
        let keys = self.partitions.keys();
        let of = |rest: &str| keys.for_campaign(self.partition, meta.id, rest);
        let numbers = Numbers::from_meta(meta, facts, before, fields, repair);
        let mut script_keys = vec![
            keys.partition(self.partition),
            keys.agenda(self.partition),
            keys.campaign(self.partition, meta.id),
            of("shares"),
            of("sums"),
            of("shares:repair"),
            of("sums:repair"),
            keys.closed(self.partition),
            of("users"),
            of("payments"),
            of("keys"),
        ];
        if facts.parts > 1 {
            script_keys.push(keys.transfers(self.partition, meta.id));
        }
        let now = self.partitions.time(self.partition).await?;
        let mut args = vec![
            self.token().to_owned(),
            meta.id.to_string(),
            numbers.due_ms(),
            u8::from(ready).to_string(),
            now.as_millis().to_string(),
        ];
        args.extend(numbers.fields.into_iter().flatten());
        self.expect_ok(&PART, &script_keys, &args).await
    }

    /// Appends records after this entry.
    pub(crate) async fn append(
        &self,
        campaign: &str,
        after: Seq,
        records: &[NewRecord],
    ) -> Result<Seq, EngineError> {
        let keys = self.partitions.keys();
        let script_keys = [
            keys.partition(self.partition),
            keys.log(self.partition),
            keys.queue(self.partition),
        ];
        let count: usize = records.iter().map(|(count, ..)| count).sum();
        let end = after + count as Seq;
        let mut args = vec![self.token().to_owned(), after.to_string(), end.to_string()];
        for (count, at, field, body) in records {
            let (count, at) = (count.to_string(), at.to_string());
            args.extend([
                count,
                campaign.to_owned(),
                at,
                (*field).to_owned(),
                body.clone(),
            ]);
        }
        self.expect_ok(APPEND, &script_keys, &args).await?;
        Ok(end)
    }

    /// Ends the halt, under a new epoch.
    ///
    /// No node lacks an entry of the present epoch up to `accounted`.
    pub(crate) async fn end(
        &self,
        loss: &Loss,
        (new, accounted): (&str, Seq),
        report: &RepairReport,
    ) -> Result<(), EngineError> {
        let epoch = &loss.epoch;
        let keys = self.partitions.keys();
        let script_keys = [
            keys.partition(self.partition),
            keys.answers(self.partition),
            keys.repairs(self.partition),
        ];
        let RepairReport {
            campaigns,
            restored,
            appended,
            withheld,
            unnamed,
            out_of_service,
            conflicts,
        } = report;
        let note = format!(
            "epoch {new} follows {epoch}: {campaigns} campaigns, {restored} rows restored, {appended} entries \
             appended, {unnamed} entries unknown, {withheld} units withheld, {} answers not kept, \
             {out_of_service} campaigns out of service",
            conflicts.len()
        );
        let count = self.partitions.options().partitions;
        let token = self.token();
        let args = (epoch, new, 0, count, token, note, loss.name(), accounted);
        self.expect_ok(&END, &script_keys, &args).await
    }

    async fn put_all<T: ToRedisArgs + Send + Sync>(
        &self,
        key: &str,
        what: &str,
        values: &[T],
    ) -> Result<(), EngineError> {
        for chunk in values.chunks(CHUNK) {
            self.put(key, what, 0, chunk).await?;
        }
        Ok(())
    }

    async fn put<T: ToRedisArgs + Send + Sync>(
        &self,
        key: &str,
        what: &str,
        before: usize,
        values: &[T],
    ) -> Result<(), EngineError> {
        let keys = [
            self.partitions.keys().partition(self.partition),
            key.to_owned(),
        ];
        let args = (self.token(), what, before, values);
        self.expect_ok(PUT, &keys, &args).await
    }

    async fn expect_ok(
        &self,
        script: &str,
        keys: &[String],
        args: &(impl ToRedisArgs + Sync),
    ) -> Result<(), EngineError> {
        let (status, text) = self.run(script, keys, args).await?;
        match status.as_str() {
            "ok" => Ok(()),
            _ => Err(unavailable(format!(
                "a step of the repair failed: Redis replied {status} {text}"
            ))),
        }
    }

    async fn run(
        &self,
        script: &str,
        keys: &[String],
        args: &(impl ToRedisArgs + Sync),
    ) -> Result<(String, String), EngineError> {
        // A halted partition frees no memory, so its repair must not wait for memory.
        let mut command = eval_at_maxmemory(script, keys);
        command.arg(args);
        self.partitions
            .query_unfenced(self.partition, &command)
            .await
    }
}
