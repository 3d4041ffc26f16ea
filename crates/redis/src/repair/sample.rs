//! Comparison of some rows of a shard at a time with the ledger, during normal operation.
//!
//! The ledger's rows are read by number, together with the engine's orders, so for orders one walk covers both
//! directions. Shares are stored by user, and payments by reference. A second walk over those hashes finds what the
//! engine has and the ledger lacks. A third one compares each buyer's units with the buyer's orders.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    campaign::{CampaignKind, Phase},
    event::PartitionId,
    id::{CampaignId, UserId},
    order::PartKind,
    ports::{
        EngineError, Ledger, SampleCursor, SampleEngine, SampleResult, SettledPayment,
        SettledReturn, SettledRow,
    },
    reconcile::{CampaignComparison, GrantRow, PartRows, UserUnits, compare, compare_users},
};

use super::{engine_error_from_ledger, facts};
use crate::{
    connection::{part_of, unavailable},
    engine::RedisEngine,
    partitions::Partitions,
    protocol::reply::BuyerLine,
    shards::snapshot::{ShardHash, read_order, read_payment, read_share},
};

/// With more entries in flight nothing is compared, because most differences would be in flight.
const IN_FLIGHT_MAX: u64 = 10_000;

/// Rows of both sides: each number on one side was looked up on the other.
struct SamplePage {
    engine: PartRows,
    ledger: PartRows,
    /// Users of a sale.
    users: Vec<UserUnits>,
    next: Option<SampleCursor>,
}

impl SamplePage {
    fn new(next: Option<SampleCursor>) -> Self {
        Self {
            engine: PartRows::new(Phase::Scheduled),
            ledger: PartRows::new(Phase::Scheduled),
            users: Vec::new(),
            next,
        }
    }
}

/// Reader of one shard.
struct ShardReader<'a> {
    partitions: &'a Partitions,
    ledger: &'a dyn Ledger,
    partition: PartitionId,
    campaign: CampaignId,
    kind: CampaignKind,
    /// Whether the ledger has the campaign. If not, it will not get its rows from the log.
    is_known: bool,
    parts: u16,
    index: u16,
    /// `None` if Redis has nothing of the shard.
    head: Option<ShardHash>,
}

#[async_trait]
impl SampleEngine for RedisEngine {
    async fn leads_sampling(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let key = partitions.keys().reconciler(partition);
        partitions.leads(partition, key, lease).await
    }

    async fn sample(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
        cursor: &SampleCursor,
        rows_max: u32,
    ) -> Result<Option<SampleResult>, EngineError> {
        let partitions = &self.node.partitions;
        let Some(term) = partitions.get(partition).current_term() else {
            return Ok(None);
        };
        let from = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let end = partitions.log_end(partition).await?;
        if end.saturating_sub(from) > IN_FLIGHT_MAX {
            return Ok(None);
        }
        let reader = ShardReader::new(partitions, ledger, partition, campaign).await?;
        let Some(reader) = reader else {
            return Ok(Some(SampleResult::default()));
        };
        let page = match cursor {
            SampleCursor::Rows { after, until } => {
                reader.rows(*after, *until, rows_max.max(1)).await?
            }
            SampleCursor::Scan { cursor } => reader.scan(cursor, rows_max.max(1)).await?,
            SampleCursor::Users { cursor } => reader.users(cursor, rows_max.max(1)).await?,
        };
        let mut in_flight = partitions.in_flight(partition, from).await?;
        if partitions.get(partition).current_term() != Some(term) {
            return Ok(None); // The rows may be another server's.
        }
        let users = compare_users(campaign, &page.users, &in_flight);
        if !reader.is_known {
            in_flight.clear();
        }
        let SamplePage {
            engine,
            ledger,
            next,
            ..
        } = page;
        let numbers: BTreeSet<_> = engine.grants.keys().chain(ledger.grants.keys()).collect();
        Ok(Some(SampleResult {
            rows: numbers.len() as u64,
            differences: {
                let mut found = compare(campaign, &engine, &ledger, &in_flight);
                found.extend(users);
                found
            },
            next,
        }))
    }

    async fn count_out_of_service(&self, partition: PartitionId) -> Result<u64, EngineError> {
        let campaigns = self.noted_campaigns(partition).await?;
        Ok(campaigns.len() as u64)
    }

    async fn compare_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<CampaignComparison, EngineError> {
        let partitions = &self.node.partitions;
        facts::compare(partitions, ledger, partition, campaign).await
    }
}

impl<'a> ShardReader<'a> {
    /// `None` if there is nothing to compare, because the partition has no shard of the campaign.
    async fn new(
        partitions: &'a Partitions,
        ledger: &'a dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<Self>, EngineError> {
        let head = partitions.head_of(partition, campaign).await?;
        let place = match &head {
            Some(head) => Some((head.facts.parts, head.facts.index)),
            None => partitions.place(ledger, partition, campaign).await?,
        };
        let settled = ledger.settled_part(campaign, partition).await;
        let settled = settled.map_err(engine_error_from_ledger)?;
        if head.is_none() && settled.as_ref().is_some_and(|it| it.phase == Phase::Closed) {
            return Ok(None); // It was evicted.
        }
        let known = settled.as_ref().map(|it| it.record.campaign.kind());
        let kind = known.or(head.as_ref().map(|head| head.facts.kind));
        let (Some((parts, index)), Some(kind)) = (place, kind) else {
            return Ok(None);
        };
        Ok(Some(Self {
            partitions,
            ledger,
            partition,
            campaign,
            kind,
            is_known: settled.is_some(),
            parts,
            index,
            head,
        }))
    }

    /// Rows after a number.
    async fn rows(
        &self,
        after: u32,
        until: Option<u32>,
        rows_max: u32,
    ) -> Result<SamplePage, EngineError> {
        let settled = self.ledger.settled_rows(self.campaign, after, rows_max);
        let settled = settled.await.map_err(engine_error_from_ledger)?;
        let is_full = settled.len() >= rows_max as usize;
        let last = settled.last().map_or(after, |row| row.number);
        let scan = SampleCursor::Scan {
            cursor: "0".to_owned(),
        };
        let mut page = SamplePage::new(Some(scan));
        if self.kind == CampaignKind::RedPacket {
            if is_full {
                page.next = Some(SampleCursor::Rows { after: last, until });
            }
            for row in settled {
                let number = row.number;
                let own = |row: &GrantRow| part_of(&row.user, self.parts) == self.index;
                let row = grant_of(row).filter(own);
                page.ledger.grants.extend(row.map(|row| (number, row)));
            }
            self.find_shares(&mut page).await?;
            return Ok(page);
        }
        // Orders are numbered almost without gaps, so this many numbers cover about as many rows.
        let numbered = self.head.as_ref().filter(|head| head.numbered > 0);
        let newest = numbered.map_or(0, |head| head.facts.number_of(head.numbered));
        let end = if is_full { last } else { last.max(newest) };
        let upto = end.min(after.saturating_add(rows_max.saturating_mul(u32::from(self.parts))));
        let until = match until {
            Some(until) => until,
            // Only the ledger may have orders after the engine's newest one.
            None => {
                let last = self.ledger.last_order(self.campaign).await;
                newest.max(last.map_err(engine_error_from_ledger)?)
            }
        };
        if (is_full || upto < end) && upto < until {
            let (after, until) = (upto, Some(until));
            page.next = Some(SampleCursor::Rows { after, until });
        }
        let parts = u32::from(self.parts);
        let own = |number: &u32| (number - 1) % parts == u32::from(self.index);
        let numbers: Vec<u32> = (after + 1..=upto).filter(own).collect();
        for row in settled {
            let number = row.number;
            if number <= upto && own(&number) {
                page.ledger
                    .grants
                    .extend(grant_of(row).map(|row| (number, row)));
            }
        }
        self.find_orders(&mut page.engine, &numbers).await?;
        self.find_missing_users(&mut page).await?;
        let payments = self.settled_payments(after, upto).await?;
        self.find_payments(&mut page, payments).await?;
        let returns = self.settled_returns(after, upto).await?;
        self.find_returns(&mut page, returns).await?;
        Ok(page)
    }

    /// Engine rows that no number leads to: a packet's shares, a sale's payments.
    async fn scan(&self, cursor: &str, rows_max: u32) -> Result<SamplePage, EngineError> {
        let Some(head) = &self.head else {
            return Ok(SamplePage::new(None));
        };
        let is_packet = self.kind == CampaignKind::RedPacket;
        let rest = if is_packet { "users" } else { "payments" };
        let mut command = redis::cmd("HSCAN");
        command.arg(self.key(rest)).arg(cursor);
        command.arg("COUNT").arg(rows_max);
        let (next, fields): (String, Vec<String>) = self
            .partitions
            .query_unfenced(self.partition, &command)
            .await?;
        let next = match next.as_str() {
            "0" if is_packet => None,
            "0" => Some(SampleCursor::Users { cursor: next }),
            _ => Some(SampleCursor::Scan { cursor: next }),
        };
        let mut page = SamplePage::new(next);
        for pair in fields.chunks_exact(2) {
            let read = match is_packet {
                true => read_share(&head.meta, &mut page.engine, &pair[0], &pair[1]),
                false => read_payment(&mut page.engine, &pair[0], &pair[1]),
            };
            read.ok_or_else(|| self.bad(rest, &pair[0]))?;
        }
        if is_packet {
            let numbers: Vec<u32> = page.engine.grants.keys().copied().collect();
            self.find_settled(&mut page.ledger, &numbers).await?;
            return Ok(page);
        }
        let payments = page.engine.payments.keys().map(|(n, _)| *n);
        let returns = page.engine.returns.keys().map(|(n, _)| *n);
        let cancellations = page.engine.cancellations.keys().map(|(n, _)| *n);
        let parts = returns.chain(cancellations);
        let numbers: BTreeSet<u32> = payments.chain(parts).collect();
        let numbers: Vec<u32> = numbers.into_iter().collect();
        self.find_orders(&mut page.engine, &numbers).await?;
        self.find_settled(&mut page.ledger, &numbers).await?;
        let (mut settled, mut returns) = (Vec::new(), Vec::new());
        for number in numbers {
            settled.extend(self.settled_payments(number - 1, number).await?);
            returns.extend(self.settled_returns(number - 1, number).await?);
        }
        self.find_payments(&mut page, settled).await?;
        self.find_returns(&mut page, returns).await?;
        Ok(page)
    }

    /// Users of a sale. The ledger or their rows name their orders, and the engine has the state.
    async fn users(&self, cursor: &str, rows_max: u32) -> Result<SamplePage, EngineError> {
        if self.head.is_none() {
            return Ok(SamplePage::new(None));
        }
        let mut command = redis::cmd("HSCAN");
        command.arg(self.key("users")).arg(cursor);
        command.arg("COUNT").arg(rows_max);
        let (next, fields): (String, Vec<String>) = self
            .partitions
            .query_unfenced(self.partition, &command)
            .await?;
        let mut page =
            SamplePage::new((next != "0").then_some(SampleCursor::Users { cursor: next }));
        for pair in fields.chunks_exact(2) {
            let bad = || self.bad("users", &pair[0]);
            let user = UserId::new(pair[0].as_str()).map_err(|_| bad())?;
            let line = BuyerLine::parse(&pair[1]).ok_or_else(bad)?;
            let settled = self.ledger.settled_rows_of_user(self.campaign, &user).await;
            let settled = settled.map_err(engine_error_from_ledger)?;
            let known = settled.iter().map(|row| row.number);
            let numbers: BTreeSet<u32> = known.chain(line.numbers).collect();
            let numbers: Vec<u32> = numbers.into_iter().filter(|number| *number > 0).collect();
            let mut rows = PartRows::new(Phase::Scheduled);
            self.find_orders(&mut rows, &numbers).await?;
            let own = rows.grants.iter().filter(|(_, row)| row.user == user);
            page.users.push(UserUnits {
                orders: own.map(|(number, row)| (*number, row.units())).collect(),
                counted: Some(line.held),
                settled: {
                    let rows = settled.into_iter().filter_map(grant_of);
                    rows.map(|row| u64::from(row.units())).sum()
                },
                user,
            });
        }
        Ok(page)
    }

    /// Users of the page's orders whom the engine does not have. Both sides have these orders.
    async fn find_missing_users(&self, page: &mut SamplePage) -> Result<(), EngineError> {
        let held = page.engine.grants.iter();
        let is_settled = |number: &u32, row: &GrantRow| {
            let settled = page.ledger.grants.get(number);
            settled.is_some_and(|settled| settled.user == row.user)
        };
        let held = held.filter(|(number, row)| row.units() > 0 && is_settled(number, row));
        let held: Vec<_> = held.collect();
        if held.is_empty() {
            return Ok(());
        }
        let users: Vec<&str> = held.iter().map(|(_, row)| row.user.as_str()).collect();
        let lines = self.fields("users", &users).await?;
        let missing = held.iter().zip(lines).filter(|(_, line)| line.is_none());
        let missing = missing.map(|((number, row), _)| UserUnits {
            user: row.user.clone(),
            counted: None,
            orders: vec![(**number, row.units())],
            settled: row.units().into(),
        });
        page.users = missing.collect();
        Ok(())
    }

    /// The engine's shares of the users in the ledger's rows, and the ledger's rows for other numbers of these users.
    async fn find_shares(&self, page: &mut SamplePage) -> Result<(), EngineError> {
        let users: Vec<&str> = page
            .ledger
            .grants
            .values()
            .map(|row| row.user.as_str())
            .collect();
        let Some(head) = self.head.as_ref().filter(|_| !users.is_empty()) else {
            return Ok(());
        };
        let rows = self.fields("users", &users).await?;
        for (user, row) in users.into_iter().zip(rows) {
            if let Some(row) = row {
                let read = read_share(&head.meta, &mut page.engine, user, &row);
                read.ok_or_else(|| self.bad("users", user))?;
            }
        }
        let engine = page.engine.grants.keys();
        let other = engine.filter(|number| !page.ledger.grants.contains_key(number));
        let other: Vec<u32> = other.copied().collect();
        self.find_settled(&mut page.ledger, &other).await
    }

    /// The engine's orders with these numbers.
    async fn find_orders(&self, rows: &mut PartRows, numbers: &[u32]) -> Result<(), EngineError> {
        let Some(head) = self.head.as_ref().filter(|_| !numbers.is_empty()) else {
            return Ok(());
        };
        let orders = self.fields("orders", numbers).await?;
        for (number, text) in numbers.iter().zip(orders) {
            if let Some(text) = text {
                let read = read_order(&head.meta, rows, *number, &text);
                read.ok_or_else(|| self.bad("orders", number))?;
            }
        }
        Ok(())
    }

    async fn settled_payments(
        &self,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledPayment>, EngineError> {
        let settled = self.ledger.settled_payments(self.campaign, after, upto);
        settled.await.map_err(engine_error_from_ledger)
    }

    /// Payments of this shard in the ledger, and the same payments in the engine.
    async fn find_payments(
        &self,
        page: &mut SamplePage,
        settled: Vec<SettledPayment>,
    ) -> Result<(), EngineError> {
        let mut names = Vec::new();
        for payment in settled {
            if (payment.number - 1) % u32::from(self.parts) == u32::from(self.index) {
                names.push(format!("{}\t{}", payment.number, payment.payment));
                let (state, number) = (payment.state(), payment.number);
                page.ledger
                    .payments
                    .insert((number, payment.payment), state);
            }
        }
        self.find_records(page, &names).await
    }

    async fn settled_returns(
        &self,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledReturn>, EngineError> {
        let settled = self.ledger.settled_returns(self.campaign, after, upto);
        settled.await.map_err(engine_error_from_ledger)
    }

    /// Partial cancellations and returns of this shard in the ledger, and the same ones in the engine.
    async fn find_returns(
        &self,
        page: &mut SamplePage,
        settled: Vec<SettledReturn>,
    ) -> Result<(), EngineError> {
        let mut names = Vec::new();
        for SettledReturn { number, kind, part } in settled {
            if (number - 1) % u32::from(self.parts) == u32::from(self.index) {
                names.push(format!("{number}\t\t{}", part.key));
                let key = (number, part.key);
                match kind {
                    PartKind::Cancellation => page.ledger.cancellations.insert(key, part.quantity),
                    PartKind::Return => page.ledger.returns.insert(key, part.quantity),
                };
            }
        }
        self.find_records(page, &names).await
    }

    /// The engine's payments and returns of these names.
    async fn find_records(
        &self,
        page: &mut SamplePage,
        names: &[String],
    ) -> Result<(), EngineError> {
        if names.is_empty() || self.head.is_none() {
            return Ok(());
        }
        let found = self.fields("payments", names).await?;
        for (name, outcome) in names.iter().zip(found) {
            if let Some(outcome) = outcome {
                let read = read_payment(&mut page.engine, name, &outcome);
                read.ok_or_else(|| self.bad("payments", name))?;
            }
        }
        Ok(())
    }

    /// The ledger's rows with these numbers.
    async fn find_settled(&self, rows: &mut PartRows, numbers: &[u32]) -> Result<(), EngineError> {
        for number in numbers {
            let found = self.ledger.settled_rows(self.campaign, number - 1, 1).await;
            let found = found.map_err(engine_error_from_ledger)?.into_iter().next();
            let found = found.filter(|row| row.number == *number);
            rows.grants
                .extend(found.and_then(grant_of).map(|row| (*number, row)));
        }
        Ok(())
    }

    async fn fields(
        &self,
        rest: &str,
        names: &[impl redis::ToRedisArgs],
    ) -> Result<Vec<Option<String>>, EngineError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.key(rest)).arg(names);
        self.partitions
            .query_unfenced(self.partition, &command)
            .await
    }

    fn key(&self, rest: &str) -> String {
        let keys = self.partitions.keys();
        keys.for_campaign(self.partition, self.campaign, rest)
    }

    fn bad(&self, rest: &str, field: impl std::fmt::Display) -> EngineError {
        unavailable(format!("{field} of {} cannot be read", self.key(rest)))
    }
}

/// A row of the ledger that a user has.
fn grant_of(row: SettledRow) -> Option<GrantRow> {
    let (user, granted_at) = row.granted?;
    Some(GrantRow {
        user,
        quantity: row.quantity,
        amount_minor: row.amount_minor.unwrap_or(0),
        granted_at,
        key: None,
        state: row.state,
        returned: row.returned,
        cancelled: row.cancelled,
        extension_ms: row.extension_ms,
    })
}
