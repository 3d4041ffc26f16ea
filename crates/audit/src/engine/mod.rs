//! Reads the state of an engine on Redis, to compare a ledger with it.
//!
//! Architecture invariant: nothing is written, and nothing here comes from the crate of the engine. Plain commands read
//! the keys that `keys.rs` of `qiang_connect` describes.
//!
//! The ledger is read as of one moment, and Redis directly after it. Entries that are settled in between may be trimmed
//! from the log. In that case both are read again.

mod record;
mod servers;
mod spread;
mod users;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use qiang_core::{
    event::PartitionId,
    hash_tags::{cluster_tags, plain_tag},
};
use redis::aio::MultiplexedConnection;
use rusqlite::Connection;

use self::{record::InFlight, servers::Servers, spread::SpreadTotals, users::PartUsers};
use crate::place::{EnginePlace, ServerKind};

const TABLES: &str = include_str!("tables.sql");
/// Quarantined entries count as in flight.
const QUARANTINE: &str = include_str!("quarantine.sql");
/// Default number of partitions, for an engine without state.
const PARTITIONS_DEFAULT: u16 = 8;
/// Time limit for connecting to Redis, and for each answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum campaigns whose numbers are read in one atomic step.
const CAMPAIGNS_MAX: usize = 256;
/// Fields of a campaign's hash.
const NUMBERS: [&str; 15] = [
    "granted",
    "returned",
    "withheld",
    "supply",
    "remaining",
    "stock",
    "parts",
    "index",
    "terms",
    "starts",
    "opens",
    "ends",
    "limit",
    "price",
    "admit",
];
/// Maximum log records per call.
const RECORDS_MAX: usize = 256;
/// Maximum attempts to read ledger and engine without settlement in between.
const ATTEMPTS_MAX: usize = 10;

/// Ledger data that is read before Redis.
#[derive(Debug)]
pub(super) struct LedgerFacts {
    pub(super) settled: BTreeMap<i64, i64>,
    pub(super) campaigns: Vec<String>,
}

impl LedgerFacts {
    fn settled_of(&self, partition: u16) -> i64 {
        self.settled.get(&partition.into()).copied().unwrap_or(0)
    }
}

/// Log ends of one partition.
struct LogBounds {
    partition: u16,
    settled: i64,
    head: Option<i64>,
    missing: i64,
}

/// Campaign, or one part of it.
struct AuditedPart {
    partition: u16,
    campaign: Arc<str>,
    granted: i64,
    returned: i64,
    withheld: i64,
    /// Units without withheld ones, and remaining units.
    supply: i64,
    remaining: i64,
    upto: i64,
    /// Total units, if this part knows them.
    stock: Option<i64>,
    /// Whether it is the first part.
    is_first: bool,
    /// Revision of a sale's terms, followed by start, end, limit, price and admission.
    revision: i64,
    terms: [Option<i64>; 5],
}

#[derive(Default)]
pub(super) struct EngineState {
    heads: Vec<LogBounds>,
    parts: Vec<AuditedPart>,
    wholes: Vec<SpreadTotals>,
    flight: Vec<(u16, InFlight)>,
    users: Vec<PartUsers>,
}

impl AuditedPart {
    /// Only a sale has a price.
    fn is_sale(&self) -> bool {
        let [.., price, _admission] = self.terms;
        price.is_some_and(|price| price >= 0)
    }
}

impl EngineState {
    /// Whether the state can be compared. Every entry must be settled or in the log. Alternatively, no entry of the
    /// partition was settled since the last attempt, so missing entries are really missing.
    fn is_complete(&self, before: Option<&LedgerFacts>) -> bool {
        let mut missing = self.heads.iter().filter(|head| head.missing != 0);
        missing.all(|head| {
            before.is_some_and(|before| before.settled_of(head.partition) == head.settled)
        })
    }

    /// Entries that are in the log and not settled.
    pub(super) fn in_flight(&self) -> u64 {
        self.flight.len() as u64
    }

    /// Inserts the state into temporary tables.
    pub(super) fn insert_into(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.execute_batch(TABLES)?;
        let mut insert = conn.prepare("INSERT INTO temp.heads VALUES (?, ?, ?, ?)")?;
        for head in &self.heads {
            insert.execute((head.partition, head.settled, head.head, head.missing))?;
        }
        let mut insert = conn.prepare(
            "INSERT OR REPLACE INTO temp.engine_parts \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        for part in &self.parts {
            let key = (part.partition, &part.campaign);
            let (granted, returned) = (part.granted, part.returned);
            let (withheld, upto, stock) = (part.withheld, part.upto, part.stock);
            let (supply, remaining) = (part.supply, part.remaining);
            let (first, revision, [starts, ends, limit, price, admit]) =
                (part.is_first, part.revision, part.terms);
            insert.execute((
                key.0, key.1, granted, returned, withheld, supply, remaining, upto, stock, first,
                revision, starts, ends, limit, price, admit,
            ))?;
        }
        let mut insert = conn.prepare("INSERT INTO temp.engine_wholes VALUES (?, ?, ?)")?;
        for whole in &self.wholes {
            insert.execute((&whole.campaign, whole.units, whole.stock))?;
        }
        let mut insert = conn.prepare("INSERT INTO temp.engine_user_parts VALUES (?, ?)")?;
        let mut insert_user =
            conn.prepare("INSERT OR REPLACE INTO temp.engine_users VALUES (?, ?, ?, ?)")?;
        for part in &self.users {
            insert.execute((&part.campaign, part.partition))?;
            for (user, units) in &part.users {
                insert_user.execute((&part.campaign, user, part.partition, units))?;
            }
        }
        conn.execute_batch(QUARANTINE)?;
        let mut insert = conn.prepare("INSERT INTO temp.flight VALUES (?, ?, ?, ?, ?, ?)")?;
        for (partition, entry) in &self.flight {
            let (campaign, kind) = (&entry.campaign, &entry.kind);
            let (seq, number, quantity) = (entry.seq, entry.number, entry.quantity);
            insert.execute((partition, seq, campaign, kind, number, quantity))?;
        }
        Ok(())
    }
}

/// Connection that only reads.
pub(super) struct EngineReader {
    servers: Servers,
    /// Connection to the server of the partition that is read.
    conn: MultiplexedConnection,
    prefix: String,
    partitions: u16,
    /// Hash tags of the partitions.
    tags: Vec<String>,
    /// Ledger data of the last attempt.
    before: Option<LedgerFacts>,
    /// Attempts so far.
    attempts: usize,
}

impl EngineReader {
    /// Connects, and reads the number of partitions.
    pub(super) async fn connect(place: &EnginePlace) -> anyhow::Result<Self> {
        let mut servers = Servers::connect(place).await?;
        let prefix = place.prefix.clone();
        let key = format!("{prefix}:{{{}}}:partition", plain_tag(PartitionId(0)));
        let mut reader = Self {
            conn: servers.for_key(&key).await?,
            servers,
            prefix,
            partitions: place.partitions.unwrap_or(PARTITIONS_DEFAULT),
            tags: Vec::new(),
            before: None,
            attempts: 0,
        };
        let count: Option<u16> = redis::cmd("HGET")
            .arg(key)
            .arg("count")
            .query_async(&mut reader.conn)
            .await
            .context("cannot read Redis")?;
        match (count, place.partitions) {
            (Some(found), Some(said)) if found != said => {
                anyhow::bail!("the engine has {found} partitions, and --partitions says {said}")
            }
            (Some(found), _) => reader.partitions = found,
            (None, _) => {}
        }
        reader.tags = match place.topology {
            ServerKind::Cluster => cluster_tags(reader.partitions),
            _ => (0..reader.partitions)
                .map(|n| plain_tag(PartitionId(n)))
                .collect(),
        };
        Ok(reader)
    }

    fn key_of(&self, partition: u16, rest: &str) -> String {
        format!(
            "{}:{{{}}}:{rest}",
            self.prefix,
            self.tags[usize::from(partition)]
        )
    }

    /// Reads the engine for a comparison with the ledger data. Returns `None` if settlement continued in between; then
    /// both must be read again.
    pub(super) async fn beside(
        &mut self,
        known: LedgerFacts,
    ) -> anyhow::Result<Option<EngineState>> {
        let state = self.read(&known).await?;
        if state.is_complete(self.before.as_ref()) {
            return Ok(Some(state));
        }
        self.before = Some(known);
        self.attempts += 1;
        anyhow::ensure!(
            self.attempts < ATTEMPTS_MAX,
            "settlement continued during each read of ledger and engine; run the audit again"
        );
        Ok(None)
    }

    async fn read(&mut self, known: &LedgerFacts) -> anyhow::Result<EngineState> {
        let (mut state, mut spread) = (EngineState::default(), BTreeSet::new());
        for partition in 0..self.partitions {
            let settled = known.settled_of(partition);
            let key = self.key_of(partition, "partition");
            self.conn = self.servers.for_key(&key).await?;
            let head = self
                .parts(partition, &known.campaigns, (&mut state.parts, &mut spread))
                .await?;
            let missing = match head {
                Some(head) => {
                    // First, because settled entries may be trimmed at any moment.
                    let missing = self
                        .flight(partition, settled, head, &mut state.flight)
                        .await?;
                    let found = users::read(self, (partition, head), &state.parts).await?;
                    state.users.extend(found);
                    missing
                }
                None => 0,
            };
            state.heads.push(LogBounds {
                partition,
                settled,
                head,
                missing,
            });
        }
        state.wholes = spread::read(self, spread.into_iter().collect()).await?;
        Ok(state)
    }

    /// Reads a partition's campaigns and the spread ones among them. Returns the last entry of its log.
    async fn parts(
        &mut self,
        partition: u16,
        campaigns: &[String],
        (parts, spread): (&mut Vec<AuditedPart>, &mut BTreeSet<Arc<str>>),
    ) -> anyhow::Result<Option<i64>> {
        let mut rest = campaigns;
        loop {
            let (some, others) = rest.split_at(rest.len().min(CAMPAIGNS_MAX));
            // One atomic step, so the numbers are those after the last entry.
            let mut pipe = redis::pipe();
            pipe.atomic()
                .cmd("HGET")
                .arg(self.key_of(partition, "partition"))
                .arg("seq");
            for campaign in some {
                let key = self.key_of(partition, &format!("c:{campaign}"));
                pipe.cmd("HMGET").arg(key);
                pipe.arg(&NUMBERS);
            }
            let answer: Vec<redis::Value> = pipe
                .query_async(&mut self.conn)
                .await
                .context("cannot read Redis")?;
            let mut answer = answer.into_iter();
            let seq = answer.next().context("Redis gave no answer")?;
            let head = redis::from_redis_value::<Option<i64>>(seq)
                .context("the log's end cannot be read")?;
            for (campaign, numbers) in some.iter().zip(answer) {
                let numbers = redis::from_redis_value::<[Option<i64>; 15]>(numbers);
                let [
                    granted,
                    returned,
                    withheld,
                    supply,
                    remaining,
                    stock,
                    parts_count,
                    index,
                    terms @ ..,
                ] = numbers.with_context(|| {
                    format!("the engine's numbers of campaign {campaign} cannot be read")
                })?;
                let [revision, starts, opens, ends, limit, price, admit] = terms;
                let withheld = withheld.unwrap_or(0);
                let whole = supply.filter(|_| parts_count == Some(1));
                if parts_count > Some(1) {
                    spread.insert(campaign.as_str().into());
                }
                if let (Some(granted), Some(returned), Some(upto)) = (granted, returned, head) {
                    parts.push(AuditedPart {
                        partition,
                        campaign: campaign.as_str().into(),
                        granted,
                        returned,
                        withheld,
                        supply: supply.unwrap_or(0),
                        remaining: remaining.unwrap_or(0),
                        upto,
                        stock: stock.or(whole.map(|supply| supply + withheld)),
                        is_first: index == Some(0),
                        revision: revision.unwrap_or(0),
                        terms: [opens.or(starts), ends, limit, price, admit],
                    });
                }
            }
            if others.is_empty() {
                return Ok(head);
            }
            rest = others;
        }
    }

    /// Reads the entries in flight up to `head`. Returns the first missing one, or 0.
    async fn flight(
        &mut self,
        partition: u16,
        settled: i64,
        head: i64,
        flight: &mut Vec<(u16, InFlight)>,
    ) -> anyhow::Result<i64> {
        let mut next = settled + 1;
        while next <= head {
            let records: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
                .arg(self.key_of(partition, "log"))
                .arg(format!("{next}-0"))
                .arg("+")
                .arg("COUNT")
                .arg(RECORDS_MAX)
                .query_async(&mut self.conn)
                .await
                .context("cannot read the engine's log")?;
            if records.is_empty() {
                return Ok(next);
            }
            for (id, fields) in records {
                let entries = record::entries(&id, &fields).with_context(|| {
                    format!("record {id} of the log of partition {partition} cannot be read")
                })?;
                for entry in entries {
                    if entry.seq < next || entry.seq > head {
                        continue;
                    }
                    if entry.seq > next {
                        return Ok(next);
                    }
                    next += 1;
                    flight.push((partition, entry));
                }
            }
        }
        Ok(0)
    }
}
