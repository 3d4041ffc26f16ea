//! Writes the rows of a reloaded shard, its shares and, last, its hash.

use std::collections::BTreeSet;

use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::EngineError,
    reconcile::{Repair, Survey},
};

use super::ReloadAttempt;
use crate::{
    connection::{Arguments, Script, ScriptReply, memory_full, unavailable},
    intake::reload_queue::ReloadNeed,
    node::Node,
    protocol::{
        reply::share_text,
        scripts::{RELOAD_END, RELOAD_END_IN_ROOM, RELOAD_ROOM, RELOAD_ROWS, RELOAD_ROWS_IN_ROOM},
    },
    repair::{
        rebuild::{Numbers, ShardRows, skipped_ordinals},
        sides::BothSides,
    },
    shards::sums::sums_of,
};

/// Number of the shares' key in the scripts' KEYS.
const SHARES: u8 = 6;
/// Fields, or shares, that one call writes.
const CHUNK: usize = 1_000;
/// Milliseconds that a reloaded closed campaign stays, if closed campaigns are kept for longer.
const RECALLED_MS: i64 = 600_000;
/// Bytes that reloaded campaigns may use per partition within [`RECALLED_MS`]. The last one may exceed it, so that a
/// campaign of any size can be reloaded.
const RELOAD_BYTES_MAX: u64 = 128 << 20;
/// Bytes beyond `maxmemory` that reloaded campaigns may use per partition within [`RECALLED_MS`].
const OVER_BYTES_MAX: u64 = 32 << 20;
/// Maximum bytes that a field, a value or a share uses in Redis besides its text.
const TEXT_BYTES: u64 = 56;
/// Milliseconds that rows of an unfinished reload stay, in addition to the retention of closed campaigns.
const BEGUN_MS: i64 = 60_000;

/// Budget of bytes for reloaded campaigns, per partition within [`RECALLED_MS`].
struct Budget {
    /// Field of the partition's hash that counts them.
    field: &'static str,
    bytes_max: u64,
    /// Whether the last campaign must fit as a whole.
    is_strict: bool,
}

const IN_ALL: Budget = Budget {
    field: "reloaded",
    bytes_max: RELOAD_BYTES_MAX,
    is_strict: false,
};
const OVER_MAXMEMORY: Budget = Budget {
    field: "recalled",
    bytes_max: OVER_BYTES_MAX,
    is_strict: true,
};

/// Scripts that write rows and the hash.
type Steps = [&'static Script; 2];

/// Data that is written for one shard.
struct WrittenRows {
    campaign: CampaignId,
    /// Entry up to which the ledger was settled before it was read.
    upto: Seq,
    now_ms: i64,
    /// Fields and values, with the number of their key in the scripts' KEYS.
    rows: [(u8, Vec<String>); 5],
    shares: Vec<String>,
    /// Milliseconds from which the retention of a closed campaign counts; empty if it is open.
    from_ms: String,
    due_ms: String,
    /// Fields of the hash.
    fields: Vec<String>,
}

impl WrittenRows {
    fn from_sides(part: &BothSides, repair: &Repair, upto: Seq, kept_ms: i64) -> Self {
        let (meta, facts) = (&part.meta, &part.facts);
        let is_closed = repair.rows.phase == Phase::Closed;
        let shares = match is_closed {
            true => &[],
            false => &repair.shares[..],
        };
        let rows = match facts.kind {
            CampaignKind::RedPacket => ShardRows::from_packet(meta, repair),
            CampaignKind::Sale => {
                let skipped = skipped_ordinals(facts, None, repair);
                ShardRows::from_sale(meta, facts, repair, (&[], &skipped))
            }
        };
        let now_ms = part.now.as_millis();
        let sums = sums_of(shares);
        let sums = sums
            .iter()
            .flat_map(|(_, place, sum)| [place.to_string(), sum.to_string()]);
        let own = part.fields.iter();
        let own = own.map(|(field, value)| ((*field).to_owned(), value.clone()));
        let fields: Vec<_> = own.chain(terms_of(part)).collect();
        let numbers = Numbers::from_meta(meta, facts, None, &fields, repair);
        let due_ms = numbers.due_ms();
        let fields = numbers.fields.into_iter();
        let fields = fields.filter(|[field, _]| !(is_closed && field.starts_with("withheld")));
        let from_ms = now_ms - (kept_ms - kept_ms.min(RECALLED_MS));
        let from_ms = is_closed.then_some(from_ms);
        Self {
            campaign: meta.id,
            upto,
            now_ms,
            rows: [
                (8, rows.users),
                (9, rows.orders),
                (10, rows.payments),
                (13, rows.keys),
                (7, sums.collect()),
            ],
            shares: shares
                .iter()
                .map(|(number, amount)| share_text(*number, *amount))
                .collect(),
            from_ms: from_ms.map_or_else(String::new, |millis| millis.to_string()),
            due_ms,
            fields: fields.flatten().collect(),
        }
    }

    /// Approximate bytes that it uses in Redis.
    fn bytes(&self) -> u64 {
        let rows = self.rows.iter().flat_map(|(_, values)| values);
        let all = rows.chain(&self.shares).chain(&self.fields);
        all.map(|text| text.len() as u64 + TEXT_BYTES).sum()
    }
}

impl Node {
    pub(super) async fn put_back(
        &self,
        partition: PartitionId,
        (part, repair): (&BothSides, Repair),
        (upto, need): (Seq, ReloadNeed),
    ) -> Result<ReloadAttempt, EngineError> {
        let kept_ms = self.partitions.options().closed_campaign_ttl.as_millis() as i64;
        let written = WrittenRows::from_sides(part, &repair, upto, kept_ms);
        let at_maxmemory: Steps = [&RELOAD_ROWS, &RELOAD_END];
        if need == ReloadNeed::Repair {
            return self.write_part(partition, &written, at_maxmemory).await;
        }
        // An open campaign was in memory before its keys were damaged.
        let is_counted = repair.rows.phase == Phase::Closed;
        if is_counted && !self.has_room(partition, &written, &IN_ALL).await? {
            return Err(EngineError::ReloadBudgetUsed);
        }
        let in_room: Steps = [&RELOAD_ROWS_IN_ROOM, &RELOAD_END_IN_ROOM];
        let put = self.write_part(partition, &written, in_room).await;
        if !put
            .as_ref()
            .is_err_and(|error| memory_full(error).is_some())
        {
            return put;
        }
        let is_owed = need == ReloadNeed::Owed;
        if !is_owed || !self.has_room(partition, &written, &OVER_MAXMEMORY).await? {
            return Err(EngineError::Overloaded);
        }
        self.write_part(partition, &written, at_maxmemory).await
    }

    /// Takes the bytes of a campaign from a budget. False if less is left.
    async fn has_room(
        &self,
        partition: PartitionId,
        written: &WrittenRows,
        budget: &Budget,
    ) -> Result<bool, EngineError> {
        let bytes = written.bytes();
        let must_fit = if budget.is_strict { bytes } else { 1 };
        let reply = self
            .step_back(partition, &RELOAD_ROOM, written.campaign, &|command| {
                command.arg(bytes).arg(budget.bytes_max).arg(RECALLED_MS);
                command.arg(budget.field).arg(must_fit)
            })
            .await?;
        Ok(reply.is_ok())
    }

    async fn write_part(
        &self,
        partition: PartitionId,
        written: &WrittenRows,
        [put_rows, end]: Steps,
    ) -> Result<ReloadAttempt, EngineError> {
        let (campaign, upto) = (written.campaign, written.upto);
        let begun_ms = written.now_ms + BEGUN_MS;
        for (key, values) in &written.rows {
            for chunk in values.chunks(CHUNK) {
                let reply = self
                    .step_back(partition, put_rows, campaign, &|command| {
                        command.arg(upto).arg(begun_ms).arg(key).arg(chunk)
                    })
                    .await?;
                if let Some(attempt) = attempt_of(&reply)? {
                    return Ok(attempt);
                }
            }
        }
        for (chunk, texts) in written.shares.chunks(CHUNK).enumerate() {
            let reply = self
                .step_back(partition, put_rows, campaign, &|command| {
                    let place = (upto, begun_ms, SHARES, chunk * CHUNK);
                    command.arg(place).arg(texts)
                })
                .await?;
            if let Some(attempt) = attempt_of(&reply)? {
                return Ok(attempt);
            }
        }
        let reply = self
            .step_back(partition, end, campaign, &|command| {
                command.arg(upto).arg(&written.from_ms).arg(&written.due_ms);
                for (_, values) in &written.rows {
                    command.arg(values.len() / 2);
                }
                command.arg(written.shares.len()).arg(&written.fields)
            })
            .await?;
        Ok(attempt_of(&reply)?.unwrap_or(ReloadAttempt::There))
    }

    async fn step_back(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let asks = Some(AckLevel::Memory);
        self.partitions
            .call(partition, script, campaign, asks, arguments)
            .await
    }
}

/// Shard to write, from the ledger's rows.
pub(super) fn united(part: &BothSides, accounted: BTreeSet<u32>) -> Repair {
    Survey {
        facts: part.facts,
        engine: part.engine.clone(),
        ledger: part.ledger.clone(),
        closed: part.closed,
        ledger_is_ahead: false,
        in_flight: &[],
        kept: &[],
        unnamed: 0,
        accounted,
        skips: None,
        withheld: 0,
        withheld_shares: BTreeSet::new(),
        now: part.now,
    }
    .repair()
}

/// Fields of the hash for changed terms.
fn terms_of(part: &BothSides) -> Vec<(String, String)> {
    if part.settled_revision == 0 {
        return Vec::new();
    }
    let opens = part.campaign.window.starts_at().as_millis();
    let revision = part.settled_revision.to_string();
    vec![
        ("opens".to_owned(), opens.to_string()),
        ("terms".to_owned(), revision),
    ]
}

/// Result of an attempt, if this reply ends it.
fn attempt_of(reply: &ScriptReply) -> Result<Option<ReloadAttempt>, EngineError> {
    match (reply.status.as_str(), reply.text().as_str()) {
        ("ok", "here") => Ok(Some(ReloadAttempt::There)),
        ("ok", _) => Ok(None),
        ("stale" | "gap", _) => Ok(Some(ReloadAttempt::Again)),
        (status, text) => Err(unavailable(format!("Redis answered {status} {text}"))),
    }
}
