//! Snapshots of a shard in Redis and in the ledger, read in pages, for reconciliation and repair.
//!
//! Pages are not of one moment. A comparison of an open campaign must apply the log's entries, or read again. A repair
//! halts the partition.

use std::collections::HashMap;

use qiang_core::{
    admission::AdmissionBound,
    campaign::{Campaign, CampaignKind, Phase, Rules, SaleSettings},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, PartKind},
    ports::{
        EngineError, Ledger, LedgerError, SettledPart, SettledPayment, SettledReturn, SettledRow,
    },
    reconcile::{EnginePart, GrantRow, PartFacts, PartRows, UserUnits},
    rows::has_fixed_shares,
    time::{Timestamp, Window},
};
use redis::Cmd;

use crate::{
    connection::{part_of, unavailable},
    partitions::Partitions,
    protocol::{
        campaign_meta::{CachedCampaign, FIELDS},
        log_record::{Record, decode, unreadable},
        reply::{BuyerLine, GrantLine, OrderText, part_units, read_payment_state, share},
    },
    shards::{
        skipped::{OrdinalRuns, read_skipped},
        tally,
    },
};

/// Fields of a hash, or shares, that one call reads.
const PAGE: usize = 2_000;
/// Rows that are read from the ledger at a time.
const ROWS_PAGE: u32 = 10_000;
/// Records of the log that one call reads.
const RECORDS: usize = 256;

/// A shard in Redis.
pub(crate) struct PartSnapshot {
    pub(crate) meta: CachedCampaign,
    pub(crate) facts: PartFacts,
    pub(crate) part: EnginePart,
    /// Units withheld earlier, and their minor units.
    pub(crate) withheld: (u64, i64),
    /// Shares withheld earlier.
    pub(crate) withheld_shares: String,
    /// The stock of a sale in its first shard: all units, including withheld ones. `None` for other shards, and for a
    /// spread sale that was reloaded after its close.
    pub(crate) stock: Option<u64>,
    /// Terms of a sale, and their revision: 0 for those with which it was opened.
    pub(crate) terms: Option<Revised>,
    /// The epoch of the last repair that has written its counters.
    pub(crate) repaired: Option<String>,
    /// Users of a sale, as far as their count differs from their orders.
    pub(crate) wrong_users: Vec<UserUnits>,
    /// Ordinals of a sale that are skipped.
    pub(crate) skipped: OrdinalRuns,
}

/// Terms of a sale, after the number of the change that set them.
pub(crate) type Revised = (Seq, SaleSettings);

/// A shard in the ledger.
pub(crate) struct SettledSnapshot {
    pub(crate) settled: SettledPart,
    pub(crate) rows: PartRows,
    /// Numbers and amounts of the shares that no user has, of all shards.
    pub(crate) free: Vec<(u32, i64)>,
}

impl Partitions {
    /// A shard in Redis; `None` if Redis has nothing of it.
    pub(crate) async fn snapshot(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<PartSnapshot>, EngineError> {
        let keys = self.keys();
        let Some(head) = self.head_of(partition, campaign).await? else {
            return Ok(None);
        };
        let mut rows = PartRows::new(head.phase);
        let mut wrong_users = Vec::new();
        let meta = &head.meta;
        if meta.kind == CampaignKind::RedPacket {
            let users = keys.users(partition, campaign);
            self.scan(partition, &users, |user, text| {
                read_share(meta, &mut rows, user, text)
            })
            .await?;
        } else {
            let orders = keys.for_campaign(partition, campaign, "orders");
            self.scan(partition, &orders, |number, text| {
                read_order(meta, &mut rows, number.parse().ok()?, text)
            })
            .await?;
            let payments = keys.for_campaign(partition, campaign, "payments");
            self.scan(partition, &payments, |payment, outcome| {
                read_payment(&mut rows, payment, outcome)
            })
            .await?;
            wrong_users = self.wrong_users(partition, campaign, &rows).await?;
        }
        let shares = match head.facts.fixed_shares {
            true => self.shares(partition, campaign).await?,
            false => Vec::new(),
        };
        Ok(Some(PartSnapshot {
            facts: head.facts,
            part: EnginePart {
                rows,
                shares,
                supply: head.supply,
                funded_minor: head.funded_minor,
                numbered: head.numbered,
            },
            withheld: head.withheld,
            withheld_shares: head.withheld_shares,
            stock: head.stock,
            terms: head.terms,
            repaired: head.repaired,
            skipped: head.skipped,
            wrong_users,
            meta: head.meta,
        }))
    }

    /// Users of a sale whose count differs from these orders. The ledger's units are not read.
    async fn wrong_users(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        rows: &PartRows,
    ) -> Result<Vec<UserUnits>, EngineError> {
        let mut orders: HashMap<&str, Vec<(u32, u32)>> = HashMap::new();
        for (number, row) in &rows.grants {
            let orders = orders.entry(row.user.as_str()).or_default();
            orders.push((*number, row.units()));
        }
        let mut wrong = Vec::new();
        let users = self.keys().users(partition, campaign);
        self.scan(partition, &users, |user, text| {
            let orders = orders.remove(user).unwrap_or_default();
            let units: u64 = orders.iter().map(|(_, units)| u64::from(*units)).sum();
            let counted = BuyerLine::parse(text)?.held;
            if counted != units {
                wrong.push(UserUnits {
                    user: UserId::new(user).ok()?,
                    counted: Some(counted),
                    orders,
                    settled: 0,
                });
            }
            Some(())
        })
        .await?;
        for (user, orders) in orders {
            if orders.iter().any(|(_, units)| *units > 0) {
                let user = UserId::new(user).map_err(|error| unavailable(error.to_string()))?;
                wrong.push(UserUnits {
                    user,
                    counted: None,
                    orders,
                    settled: 0,
                });
            }
        }
        Ok(wrong)
    }

    /// Hash of a shard; `None` if Redis has nothing of it.
    pub(crate) async fn head_of(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<ShardHash>, EngineError> {
        let hash = self.keys().campaign(partition, campaign);
        let fields: HashMap<String, String> = self
            .query_unfenced(partition, redis::cmd("HGETALL").arg(&hash))
            .await?;
        if !fields.contains_key("kind") {
            return Ok(None);
        }
        let bad = || {
            unavailable(format!(
                "the state of campaign {campaign} in Redis cannot be read"
            ))
        };
        ShardHash::read(campaign, &fields).ok_or_else(bad).map(Some)
    }

    /// Reads a hash in pages, and calls `each` for each field.
    async fn scan(
        &self,
        partition: PartitionId,
        key: &str,
        mut each: impl FnMut(&str, &str) -> Option<()> + Send,
    ) -> Result<(), EngineError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(key).arg(&cursor).arg("COUNT").arg(PAGE);
            let (next, fields): (String, Vec<String>) =
                self.query_unfenced(partition, &command).await?;
            for pair in fields.chunks_exact(2) {
                let read = each(&pair[0], &pair[1]);
                read.ok_or_else(|| unavailable(format!("{} of {key} cannot be read", pair[0])))?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn shares(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Vec<(u32, i64)>, EngineError> {
        let key = self.keys().for_campaign(partition, campaign, "shares");
        let mut shares = Vec::new();
        loop {
            let mut command = redis::cmd("LRANGE");
            command
                .arg(&key)
                .arg(shares.len())
                .arg(shares.len() + PAGE - 1);
            let page: Vec<String> = self.query_unfenced(partition, &command).await?;
            let end = page.len() < PAGE;
            for text in page {
                let read = share(&text);
                shares.push(read.ok_or_else(|| unavailable(format!("{key} cannot be read")))?);
            }
            if end {
                return Ok(shares);
            }
        }
    }

    /// Entries of the log after this one, one page, in any term.
    pub(crate) async fn entries_behind(
        &self,
        partition: PartitionId,
        after: Seq,
    ) -> Result<Vec<Entry>, EngineError> {
        let mut command = redis::cmd("XRANGE");
        command.arg(self.keys().log(partition));
        command.arg(format!("{}-0", after + 1)).arg("+");
        command.arg("COUNT").arg(RECORDS);
        let records: Vec<Record> = self.query_unfenced(partition, &command).await?;
        let mut entries = Vec::new();
        for (id, fields) in records {
            let run = decode(&id, &fields);
            let run = run.ok_or_else(|| unavailable(unreadable(partition, &id).to_string()))?;
            entries.extend(run.into_iter().filter(|entry| entry.seq > after));
        }
        Ok(entries)
    }

    /// All entries of the log after `settled`. If that entry was settled before rows were read, any change during the
    /// read is among these entries or settled by now.
    pub(crate) async fn in_flight(
        &self,
        partition: PartitionId,
        settled: Seq,
    ) -> Result<Vec<Entry>, EngineError> {
        let mut in_flight: Vec<Entry> = Vec::new();
        loop {
            let after = in_flight.last().map_or(settled, |entry| entry.seq);
            let entries = self.entries_behind(partition, after).await?;
            if entries.is_empty() {
                return Ok(in_flight);
            }
            in_flight.extend(entries);
        }
    }

    /// Campaigns on a partition's agenda: something may still happen to them.
    pub(crate) async fn agenda(
        &self,
        partition: PartitionId,
    ) -> Result<Vec<CampaignId>, EngineError> {
        let mut command: Cmd = redis::cmd("ZRANGE");
        command.arg(self.keys().agenda(partition)).arg(0).arg(-1);
        let ids: Vec<String> = self.query_unfenced(partition, &command).await?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }
}

/// Hash of a shard.
pub(crate) struct ShardHash {
    pub(crate) meta: CachedCampaign,
    pub(crate) facts: PartFacts,
    pub(crate) phase: Phase,
    supply: u64,
    pub(crate) funded_minor: i64,
    /// Number of orders that the shard has issued.
    pub(crate) numbered: u32,
    pub(crate) withheld: (u64, i64),
    withheld_shares: String,
    pub(crate) stock: Option<u64>,
    pub(crate) terms: Option<Revised>,
    /// Terms before the last change, in the first shard.
    pub(crate) terms_before: Option<Revised>,
    repaired: Option<String>,
    skipped: OrdinalRuns,
}

/// Terms of a sale in the hash of one of its shards.
pub(crate) fn terms_in(fields: &HashMap<String, String>) -> Option<Revised> {
    let number = |name: &str| fields.get(name)?.parse::<i64>().ok();
    let instant = |name: &str| number(name).map(Timestamp::from_millis);
    let terms = SaleSettings {
        window: Window::new(instant("opens").or(instant("starts"))?, instant("ends")?).ok()?,
        per_user_limit: u32::try_from(number("limit")?).ok()?,
        unit_price_minor: number("price")?,
        admission: AdmissionBound::from_percent(number("admit")?.try_into().ok()?).ok()?,
    };
    Some((number("terms").unwrap_or(0) as Seq, terms))
}

/// Parses the terms before the last change, which have the form of a log entry.
fn terms_before(text: &str) -> Option<Revised> {
    match Event::from_text(&format!("terms_changed {text}")) {
        Ok(Event::TermsChanged { revision, terms }) => Some((revision, terms)),
        _ => None,
    }
}

impl ShardHash {
    fn read(id: CampaignId, fields: &HashMap<String, String>) -> Option<Self> {
        let values = FIELDS.map(|field| fields.get(field).cloned());
        let meta = CachedCampaign::read(id, &values)?;
        let get = |name: &str| fields.get(name).map(String::as_str);
        let number = |name: &str| get(name)?.parse::<i64>().ok();
        let unit = |name: &str| u64::try_from(number(name)?).ok();
        Some(Self {
            facts: PartFacts {
                campaign: id,
                kind: meta.kind,
                limit: number("terms")
                    .is_none_or(|it| it == 0)
                    .then_some(meta.limit),
                hold_ms: meta.hold_ms,
                currency: None,
                fixed_shares: get("rule")? == "shares",
                parts: meta.parts,
                index: u16::try_from(number("index")?).ok()?,
            },
            phase: tally::phase(get("phase")?)?,
            supply: unit("supply")?,
            funded_minor: number("funded")?,
            numbered: number("grants")?.try_into().ok()?,
            withheld: (
                unit("withheld").unwrap_or(0),
                number("withheld_minor").unwrap_or(0),
            ),
            withheld_shares: get("withheld_shares").unwrap_or_default().to_owned(),
            stock: match meta.parts {
                1 => unit("supply").map(|supply| supply + unit("withheld").unwrap_or(0)),
                _ => unit("stock"),
            },
            terms: terms_in(fields),
            terms_before: get("before").and_then(terms_before),
            repaired: get("repaired").map(str::to_owned),
            skipped: read_skipped(get("skipped").unwrap_or_default())?,
            meta,
        })
    }
}

/// Reads a user's share of a packet; `None` if the text is invalid.
pub(crate) fn read_share(
    meta: &CachedCampaign,
    rows: &mut PartRows,
    user: &str,
    text: &str,
) -> Option<()> {
    let row = GrantLine::parse(meta.kind, text)?;
    rows.grants.insert(row.number, share_row(meta, user, &row)?);
    Some(())
}

/// Reads an order; `None` if the text is invalid. An order without units has no user: its number is withheld.
pub(crate) fn read_order(
    meta: &CachedCampaign,
    rows: &mut PartRows,
    number: u32,
    text: &str,
) -> Option<()> {
    let order = OrderText::parse(number, text)?;
    if order.row.quantity > 0 {
        let row = GrantRow {
            state: order.state,
            returned: order.returned,
            cancelled: order.row.cancelled,
            extension_ms: order.row.extension_ms,
            ..share_row(meta, order.user, &order.row)?
        };
        rows.grants.insert(number, row);
    }
    Some(())
}

/// Reads the result of a payment, whose name is the order's number and the reference; or a partial cancellation or
/// return, whose name has a second tab in between.
pub(crate) fn read_payment(rows: &mut PartRows, name: &str, outcome: &str) -> Option<()> {
    let (number, payment) = name.split_once('\t')?;
    if let Some(key) = payment.strip_prefix('\t') {
        let key = (number.parse().ok()?, IdempotencyKey::new(key).ok()?);
        let (kind, units) = part_units(outcome)?;
        match kind {
            PartKind::Cancellation => rows.cancellations.insert(key, units),
            PartKind::Return => rows.returns.insert(key, units),
        };
        return Some(());
    }
    let key = (number.parse().ok()?, PaymentRef::new(payment).ok()?);
    rows.payments.insert(key, read_payment_state(outcome)?);
    Some(())
}

fn share_row(meta: &CachedCampaign, user: &str, row: &GrantLine<'_>) -> Option<GrantRow> {
    Some(GrantRow {
        user: UserId::new(user).ok()?,
        quantity: row.quantity,
        amount_minor: row.amount_minor,
        granted_at: meta.at(row.offset)?,
        key: row.key()?,
        state: OrderState::Held,
        returned: 0,
        cancelled: 0,
        extension_ms: 0,
    })
}

/// Facts of a shard that never change, from the ledger.
pub(crate) fn facts_of(campaign: &Campaign, parts: u16, index: u16) -> PartFacts {
    let hold_ms = match &campaign.rules {
        Rules::Sale(sale) => sale.hold_ms(),
        Rules::RedPacket(_) => 0,
    };
    PartFacts {
        campaign: campaign.id,
        kind: campaign.kind(),
        limit: Some(campaign.per_user_limit()),
        hold_ms,
        currency: Some(campaign.currency()),
        fixed_shares: has_fixed_shares(campaign),
        parts,
        index,
    }
}

/// Rows of all shards of a campaign in the ledger.
pub(crate) struct SettledRows {
    rows: Vec<SettledRow>,
    payments: Vec<SettledPayment>,
    returns: Vec<SettledReturn>,
}

/// Reads the rows of a campaign, in pages.
pub(crate) async fn settled_rows(
    ledger: &dyn Ledger,
    campaign: CampaignId,
    kind: CampaignKind,
) -> Result<SettledRows, LedgerError> {
    let (mut rows, mut payments, mut returns) = (Vec::new(), Vec::new(), Vec::new());
    let mut after = 0;
    loop {
        let page = ledger.settled_rows(campaign, after, ROWS_PAGE).await?;
        let Some(last) = page.last().map(|row| row.number) else {
            break;
        };
        if kind == CampaignKind::Sale {
            payments.extend(ledger.settled_payments(campaign, after, last).await?);
            returns.extend(ledger.settled_returns(campaign, after, last).await?);
        }
        let is_last = page.len() < ROWS_PAGE as usize;
        rows.extend(page);
        if is_last {
            break;
        }
        after = last;
    }
    Ok(SettledRows {
        rows,
        payments,
        returns,
    })
}

/// A shard in the ledger; `None` if the ledger does not have the campaign. `place` is the number of shards, which the
/// caller may know better than the ledger, and the shard's index.
pub(crate) async fn settled(
    ledger: &dyn Ledger,
    campaign: CampaignId,
    partition: PartitionId,
    place: (u16, u16),
) -> Result<Option<SettledSnapshot>, LedgerError> {
    let Some(settled) = ledger.settled_part(campaign, partition).await? else {
        return Ok(None);
    };
    let rows = settled_rows(ledger, campaign, settled.record.campaign.kind()).await?;
    Ok(Some(SettledSnapshot::from_settled(settled, &rows, place)))
}

impl SettledSnapshot {
    /// The shard at this place, with its rows among those of the campaign.
    pub(crate) fn from_settled(
        settled: SettledPart,
        all: &SettledRows,
        (parts, index): (u16, u16),
    ) -> Self {
        let mut rows = PartRows::new(settled.phase);
        let mut free = Vec::new();
        let is_sale = settled.record.campaign.kind() == CampaignKind::Sale;
        for row in &all.rows {
            let Some((user, granted_at)) = &row.granted else {
                free.extend(row.amount_minor.map(|amount| (row.number, amount)));
                continue;
            };
            let part = match is_sale {
                true => ((row.number - 1) % u32::from(parts)) as u16,
                false => part_of(user, parts),
            };
            if part == index {
                let grant = GrantRow {
                    user: user.clone(),
                    quantity: row.quantity,
                    amount_minor: row.amount_minor.unwrap_or(0),
                    granted_at: *granted_at,
                    key: row.key.clone(),
                    state: row.state,
                    returned: row.returned,
                    cancelled: row.cancelled,
                    extension_ms: row.extension_ms,
                };
                rows.grants.insert(row.number, grant);
            }
        }
        for payment in &all.payments {
            if rows.grants.contains_key(&payment.number) {
                let key = (payment.number, payment.payment.clone());
                rows.payments.insert(key, payment.state());
            }
        }
        for SettledReturn { number, kind, part } in &all.returns {
            if rows.grants.contains_key(number) {
                let key = (*number, part.key.clone());
                match kind {
                    PartKind::Cancellation => rows.cancellations.insert(key, part.quantity),
                    PartKind::Return => rows.returns.insert(key, part.quantity),
                };
            }
        }
        // Rows and parts are read one after the other, and a part may be settled in between.
        rows.count_parts();
        Self {
            settled,
            rows,
            free,
        }
    }
}

pub(crate) fn engine_error_from_ledger(error: LedgerError) -> EngineError {
    unavailable(format!("the ledger: {error}"))
}
