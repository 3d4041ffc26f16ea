//! Commands on one campaign or all of them: pause, resume, close, stock, ticks, counters, probe.

use std::{sync::Arc, time::Instant};

use futures_util::future::join_all;
use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{
        AckLevel, CampaignError, Phase, STOCK_MAX, STOCK_PRICE_MINOR_MAX, SaleSettings,
        SaleSettingsChange, Tally, Transition, TransitionError,
    },
    event::PartitionId,
    id::CampaignId,
    ports::{CampaignRecord, EngineError, ProbeResult},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    campaigns::agenda::DUE_MAX,
    connection::{memory_full, unreadable},
    intake::reload_queue::{ReloadNeed, ReloadResult},
    node::Node,
    partitions::{
        nobody,
        ticking::{FailedRebuilds, Ticking},
    },
    protocol::{
        campaign_meta::{CachedCampaign, FoundCampaign},
        scripts::{CHANGE_PHASE, PROBE, SET_STOCK, TICK},
    },
    shards::{
        settled_record::{
            settled_action, settled_sale, settled_stock, settled_tally, settled_terms,
        },
        tally::{self, PartTally},
        transfer::moving,
    },
};

/// Maximum holds that expire in one call of a tick; Redis does nothing else during the call.
const EXPIRED_MAX: usize = 1_000;
/// Maximum calls of one tick for one campaign; the partition's other campaigns wait during them.
const TICK_CALLS_MAX: usize = 20;
/// Maximum attempts of a close, or of a sum over shards, while units move between shards.
pub(crate) const MOVES_MAX: usize = 50;
/// Maximum reloads of shards for one sum over them; they may be evicted again in between.
const RECALLS_MAX: usize = 4;

/// Counters of a campaign's shards.
enum PartTallies {
    Here(Vec<PartTally>),
    /// Some shards were evicted, and the ledger has all of the campaign.
    Settled(Arc<CampaignRecord>),
}

/// Converts the error of a later step of a command that has changed one shard already. After a change, "nothing was
/// decided" would be false.
pub(crate) fn after_an_effect(error: EngineError) -> EngineError {
    match error {
        EngineError::Overloaded
        | EngineError::LedgerShareFull
        | EngineError::ReloadBudgetUsed
        | EngineError::Unavailable { .. }
        | EngineError::Stopping
        | EngineError::Refused(Refusal::UnknownCampaign) => {
            EngineError::uncertain(format!("one shard has changed, then: {error}"))
        }
        other => other,
    }
}

/// Id of a change's key for a script; empty if there is no key.
pub(crate) fn text_of(made: Option<Uuid>) -> String {
    made.map_or_else(String::new, |id| id.to_string())
}

impl Node {
    pub(crate) async fn run(&self, command: Command) -> Result<Reply, EngineError> {
        let (command, made) = command.into_parts();
        match command {
            Command::Open(setup) => self.open(&setup).await.map(|()| Reply::Opened),
            Command::Pay {
                order,
                payment,
                paid_at,
                received,
                cancelled,
            } => {
                let received = (received, cancelled);
                self.pay(order, &payment, (paid_at, received)).await
            }
            Command::Cancel { order, part } => self.cancel(order, part).await.map(Reply::Cancelled),
            Command::ExtendHold {
                order,
                extension_ms,
            } => {
                let extended = self.extend_hold(order, extension_ms).await;
                extended.map(Reply::HoldExtended)
            }
            Command::Act { campaign, action } => {
                let act = || self.act(campaign, action, made);
                let settled = |record: &_| settled_action(record, action);
                let acted = self.if_settled(campaign, act, settled).await;
                acted.map(Reply::Acted)
            }
            Command::SetStock { campaign, stock } => {
                let changed = self.stock_or_settled((campaign, made), stock, None).await;
                changed.map(Reply::Acted)
            }
            Command::SetTerms { campaign, change } => {
                let changed = self.terms_or_settled((campaign, made), &change, None).await;
                changed.map(Reply::Acted)
            }
            Command::SetSale {
                campaign,
                stock,
                change,
            } => {
                let set = || self.set_sale((campaign, made), stock, &change);
                let settled = |record: &_| settled_sale(record, stock, &change);
                self.if_settled(campaign, set, settled)
                    .await
                    .map(Reply::Acted)
            }
            Command::Correct {
                campaign,
                correction,
            } => {
                let corrected = self.correct((campaign, made), &correction).await;
                corrected.map(Reply::Acted)
            }
            Command::Tick { events_max } => {
                let list = self.partitions.list();
                let ticks = list.iter().map(async |partition| {
                    let mut ticking = Ticking::begin(Some(Timestamp::default()));
                    self.tick(partition.id, events_max, &mut ticking).await
                });
                let mut more = false;
                for ticked in join_all(ticks).await {
                    more |= ticked?;
                }
                Ok(Reply::Ticked { more })
            }
            Command::Return { order, part } => {
                self.return_order(order, part).await.map(Reply::Returned)
            }
            // A key in a key: no caller makes one.
            Command::Keyed { .. } => Err(Refusal::UnknownCampaign.into()),
        }
    }

    pub(crate) async fn stock_or_settled(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        stock: u64,
        expected: Option<u64>,
    ) -> Result<Tally, EngineError> {
        let set = || self.set_stock((campaign, made), stock, expected);
        let settled = |record: &_| settled_stock(record, stock, expected);
        self.if_settled(campaign, set, settled).await
    }

    pub(crate) async fn terms_or_settled(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        change: &SaleSettingsChange,
        expected: Option<&SaleSettings>,
    ) -> Result<Tally, EngineError> {
        let set = || self.set_terms((campaign, made), change, expected);
        let settled = |record: &_| settled_terms(record, change, expected);
        self.if_settled(campaign, set, settled).await
    }

    /// Meta of a campaign in Redis. If it has several shards, all of them are there.
    pub(crate) async fn whole_meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Arc<CachedCampaign>, EngineError> {
        let FoundCampaign::Here(meta) = self.find((campaign, ReloadNeed::Any)).await? else {
            return Err(Refusal::UnknownCampaign.into());
        };
        // A shard that is not open yet gets stock and terms with which the campaign was created.
        if meta.parts > 1
            && let PartTallies::Settled(_) = self.part_tallies(&meta).await?
        {
            return Err(Refusal::UnknownCampaign.into());
        }
        Ok(meta)
    }

    /// Changes the stock of a sale in its first shard. If that shard has too few units, it first gets units from the
    /// others. With an expected stock, a sale with another stock does not change. `made` is the id of the change's key.
    async fn set_stock(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        stock: u64,
        expected: Option<u64>,
    ) -> Result<Tally, EngineError> {
        let meta = self.whole_meta(campaign).await?;
        let home = self.partitions.home(campaign);
        // If there are replicas, they have the change before it is reported, at any level that the campaign requests.
        let ack = match self.partitions.options().replicas {
            0 => meta.ack,
            _ => AckLevel::Replica,
        };
        // The stock for which all shards together had too few units, and the units they had.
        let mut dry = None;
        for _ in 0..MOVES_MAX {
            let reply = self
                .partitions
                .change(home, &SET_STOCK, (campaign, ack), &|command| {
                    command
                        .arg(stock)
                        .arg(STOCK_MAX)
                        .arg(STOCK_PRICE_MINOR_MAX)
                        .arg(expected.map_or_else(String::new, |stock| stock.to_string()))
                        .arg(text_of(made))
                })
                .await;
            self.invalidate(campaign);
            let reply = reply?;
            if self.is_back(campaign, &reply).await? {
                continue;
            }
            match (reply.status.as_str(), reply.text().as_str()) {
                ("refused", phase) => {
                    let from = tally::phase(phase).unwrap_or(Phase::Closed);
                    let transition = Transition::ChangeStock;
                    return Err(Refusal::Phase(TransitionError { from, transition }).into());
                }
                ("changed", _) => return Err(Refusal::Changed.into()),
                ("rules", "limit") => return Err(Refusal::Rules(CampaignError::Limit).into()),
                ("rules", "price") => return Err(Refusal::Rules(CampaignError::Price).into()),
                ("rules", _) => return Err(Refusal::Rules(CampaignError::Stock).into()),
                ("short", text) => dry = self.gather_for_less(&meta, text, dry).await?,
                _ => {
                    let text = reply.found(Refusal::UnknownCampaign)?;
                    let part = PartTally::parse(&text).ok_or_else(unreadable)?;
                    if meta.parts == 1 {
                        return Ok(part.tally);
                    }
                    let tally = self.tally(campaign).await.map_err(after_an_effect)?;
                    return tally.ok_or_else(|| after_an_effect(Refusal::UnknownCampaign.into()));
                }
            }
        }
        Err(moving())
    }

    /// Moves units to the first shard of a sale, which has too few of them for a lower stock. `text` is the script's
    /// reply: the units that it lacks, and the present stock. `dry` is the stock for which all shards together had too
    /// few units, and the units that they had.
    pub(crate) async fn gather_for_less(
        &self,
        meta: &CachedCampaign,
        text: &str,
        dry: Option<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, EngineError> {
        let words = text.split_once(' ').ok_or_else(unreadable)?;
        let number = |word: &str| word.parse::<u64>().map_err(|_| unreadable());
        let (units, before) = (number(words.0)?, number(words.1)?);
        // If the stock differs now, another command has removed units in between.
        if let Some((_, remaining)) = dry.filter(|(stock, _)| *stock == before) {
            let least = before.saturating_sub(remaining);
            return Err(Refusal::StockGranted { least }.into());
        }
        let home = self.partitions.home(meta.id);
        let gathered = self.partitions.gather(meta, home, units).await?;
        Ok(gathered.map(|remaining| (before, remaining)))
    }

    /// Pauses, resumes, starts or closes a campaign. The first shard comes last: its log says that the change of the
    /// key `made` was carried out, and it does so only once all other shards have changed.
    async fn act(
        &self,
        campaign: CampaignId,
        action: CampaignAction,
        made: Option<Uuid>,
    ) -> Result<Tally, EngineError> {
        if action == CampaignAction::Start {
            return self.start_sale(campaign, made).await;
        }
        let meta = self.whole_meta(campaign).await?;
        // A shard that fails must not prevent the pause or close of the others.
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for partition in self.partitions.of_parts(campaign, meta.parts).rev() {
            let is_last = partition == self.partitions.home(campaign);
            let made = made.filter(|_| is_last && parts.iter().all(Result::is_ok));
            let acted = self.act_on_part(&meta, partition, (action, made));
            parts.push(acted.await);
        }
        let some_have_changed = parts.iter().any(Result::is_ok);
        let parts: Result<Vec<_>, _> = parts.into_iter().collect();
        let parts = parts.map_err(|error| match some_have_changed {
            true => after_an_effect(error),
            false => error,
        })?;
        tally::sum(&parts).ok_or_else(unreadable)
    }

    async fn act_on_part(
        &self,
        meta: &CachedCampaign,
        partition: PartitionId,
        (action, made): (CampaignAction, Option<Uuid>),
    ) -> Result<PartTally, EngineError> {
        let (word, transition) = match action {
            CampaignAction::Pause => ("pause", Transition::Pause),
            CampaignAction::Resume => ("resume", Transition::Resume),
            // Its window changes, and not its phase: `start_sale`.
            CampaignAction::Start => ("start", Transition::Start),
            CampaignAction::Close => ("close", Transition::Close),
        };
        for _ in 0..MOVES_MAX {
            let reply = self
                .change(
                    partition,
                    &CHANGE_PHASE,
                    (meta, ReloadNeed::Any),
                    &|command| command.arg(word).arg(text_of(made)),
                )
                .await?;
            match reply.status.as_str() {
                "busy" => {
                    self.partitions
                        .finish_transfers_from(meta, partition)
                        .await?;
                }
                "refused" => {
                    let from = tally::phase(&reply.text()).unwrap_or(Phase::Closed);
                    return Err(Refusal::Phase(TransitionError { from, transition }).into());
                }
                _ => {
                    let text = reply.found(Refusal::UnknownCampaign)?;
                    return PartTally::parse(&text).ok_or_else(unreadable);
                }
            }
        }
        Err(moving())
    }

    pub(crate) async fn tally(&self, campaign: CampaignId) -> Result<Option<Tally>, EngineError> {
        let meta = match self.find((campaign, ReloadNeed::Any)).await? {
            FoundCampaign::Here(meta) => meta,
            FoundCampaign::Settled(record) => return settled_tally(&record).map(Some),
            FoundCampaign::Unknown => return Ok(None),
        };
        if meta.parts == 1
            && let Some(tally) = self.partitions.tally_from_replica(&meta).await
        {
            return Ok(Some(tally));
        }
        self.tally_of_primaries(&meta).await
    }

    /// Counters of a campaign on its primaries.
    pub(crate) async fn present_tally(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Tally>, EngineError> {
        match self.find((campaign, ReloadNeed::Any)).await? {
            FoundCampaign::Here(meta) => self.tally_of_primaries(&meta).await,
            FoundCampaign::Settled(record) => settled_tally(&record).map(Some),
            FoundCampaign::Unknown => Ok(None),
        }
    }

    async fn tally_of_primaries(
        &self,
        meta: &CachedCampaign,
    ) -> Result<Option<Tally>, EngineError> {
        // Moving units are in no shard. So pending transfers are completed until there are none.
        for _ in 0..MOVES_MAX {
            let parts = match self.part_tallies(meta).await? {
                PartTallies::Here(parts) => parts,
                PartTallies::Settled(record) => return settled_tally(&record).map(Some),
            };
            if meta.parts == 1 || !self.partitions.finish_transfers(meta).await? {
                return Ok(tally::sum(&parts));
            }
        }
        Err(moving())
    }

    /// Whether no shard of a paused campaign grants.
    pub(crate) async fn is_paused_throughout(
        &self,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let meta = match self.find((campaign, ReloadNeed::Any)).await? {
            FoundCampaign::Here(meta) => meta,
            FoundCampaign::Settled(_) => return Ok(true),
            FoundCampaign::Unknown => return Ok(false),
        };
        let PartTallies::Here(parts) = self.part_tallies(&meta).await? else {
            return Ok(true);
        };
        let is_over = |phase| matches!(phase, Phase::Paused | Phase::Ended | Phase::Closed);
        Ok(parts.iter().all(|part| is_over(part.tally.phase)))
    }

    /// Counters of each shard. A closed campaign of which shards were evicted is not reloaded.
    async fn part_tallies(&self, meta: &CachedCampaign) -> Result<PartTallies, EngineError> {
        let mut parts = self.partitions.part_tallies(meta).await;
        for _ in 0..RECALLS_MAX {
            if parts.is_ok() {
                break;
            }
            match self.recall(meta.id).await? {
                ReloadResult::Here => parts = self.partitions.part_tallies(meta).await,
                ReloadResult::Settled(record) => return Ok(PartTallies::Settled(record)),
                ReloadResult::Unknown => break,
            }
        }
        parts.map(PartTallies::Here)
    }

    /// Performs what is due in a partition. No payment report was accepted before `since`; `None` sets it to now. A
    /// clock that was set back lowers `since`. While the clock is distrusted after a far jump, nothing is due, and no
    /// uptime is recorded. Returns whether more is due. A campaign that fails delays no other: the first error is
    /// returned at the end.
    pub(crate) async fn tick(
        &self,
        partition: PartitionId,
        events_max: usize,
        ticking: &mut Ticking,
    ) -> Result<bool, EngineError> {
        let now_ms = self.now_ms(partition).await?;
        let now = Timestamp::from_millis(now_ms);
        if self.partitions.options().clock.is_none() && ticking.holds(partition, now) {
            return Ok(false);
        }
        // Separate tasks record the uptime repeatedly, but a tick by command may run before them.
        self.note_served(partition).await?;
        let Ticking {
            since,
            failed_rebuilds,
            ..
        } = ticking;
        let since = *since.insert(since.unwrap_or(now).min(now));
        let (mut more, mut passed_over, mut first) = (false, 0, None);
        loop {
            // Campaigns without progress stay due, so the next read skips them.
            let before = passed_over;
            let (is_whole, due) = self.due(partition, now_ms, passed_over).await?;
            if is_whole {
                *failed_rebuilds = FailedRebuilds::default();
            } else if failed_rebuilds.may_try(Instant::now())
                && let Err(error) = self.rebuild_agenda(partition, since).await
            {
                if failed_rebuilds.note(Instant::now()) {
                    tracing::warn!(
                        partition = partition.0,
                        %error,
                        "the agenda in Redis cannot be rebuilt; until a later attempt succeeds, holds may expire late"
                    );
                }
                first.get_or_insert(error);
            }
            for campaign in &due {
                match self
                    .tick_campaign(partition, *campaign, (events_max, since))
                    .await
                {
                    Ok(Some(has_more)) => more |= has_more,
                    Ok(None) => passed_over += 1,
                    Err(error) => {
                        passed_over += 1;
                        first.get_or_insert(error);
                    }
                }
            }
            let is_full = due.len() >= DUE_MAX;
            if !is_full || passed_over == before {
                more |= is_full;
                break;
            }
        }
        first.map_or(Ok(more), Err)
    }

    /// Time of a partition, in milliseconds.
    pub(crate) async fn now_ms(&self, partition: PartitionId) -> Result<i64, EngineError> {
        if let Some(clock) = &self.partitions.options().clock {
            return Ok(clock.now().as_millis());
        }
        let (time, asked) = (redis::cmd("TIME"), Instant::now());
        let (seconds, micros): (i64, i64) = self.partitions.query(partition, &time).await?;
        let now_ms = 1_000 * seconds + micros / 1_000;
        let clock = self.partitions.clock(partition);
        clock.set(asked, Timestamp::from_millis(now_ms));
        Ok(now_ms)
    }

    /// Performs what is due for one shard. Returns whether more is due; `None` if the campaign is unknown.
    pub(crate) async fn tick_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        (events_max, since): (usize, Timestamp),
    ) -> Result<Option<bool>, EngineError> {
        let grace_ms = self.partitions.options().payment_grace.as_millis() as u64;
        // The home shard may be evicted while an order of this shard is still held.
        let Some(meta) = self.reloaded_meta(campaign).await? else {
            // A shard that opened before its home: the campaign is not known yet.
            return Ok(None);
        };
        let mut left = events_max;
        for _ in 0..TICK_CALLS_MAX {
            let expired_max = left.min(EXPIRED_MAX);
            let reply = self
                .change(partition, &TICK, (&meta, ReloadNeed::Owed), &|command| {
                    command
                        .arg(expired_max)
                        .arg(grace_ms)
                        .arg(since.as_millis())
                        .arg(u8::from(self.may_be_down(partition)))
                })
                .await?;
            if reply.status == "busy" {
                self.partitions
                    .finish_transfers_from(&meta, partition)
                    .await?;
                return Ok(Some(true));
            }
            let text = reply.text();
            let (events, more) = text.split_once(' ').unwrap_or(("0", "0"));
            if more == "2" {
                self.follow_terms(&meta).await?;
            }
            left = left.saturating_sub(events.parse().unwrap_or(0));
            if more == "0" || left == 0 {
                return Ok(Some(more != "0"));
            }
        }
        Ok(Some(true))
    }

    /// Tests a partition with a call that writes and grants nothing.
    pub(crate) async fn probe(&self, partition: PartitionId) -> Result<ProbeResult, EngineError> {
        let options = self.partitions.options();
        let asks = match options.replicas {
            0 => AckLevel::Memory,
            _ => AckLevel::Replica,
        };
        let reply = self
            .partitions
            .call(partition, &PROBE, nobody(), Some(asks), &|command| command)
            .await;
        // Payments, reads and the drain still work, and the drain frees memory.
        if let Some(reason) = reply.as_ref().err().and_then(memory_full) {
            let reason = reason.to_owned();
            return Ok(ProbeResult::Degraded { reason });
        }
        let reply = reply?;
        if reply.reached < asks {
            let unconfirmed = || {
                format!(
                    "the replicas did not confirm a write within {} ms",
                    options.replica_timeout.as_millis()
                )
            };
            let missing = self.partitions.lacks_replicas(partition).await;
            let reason = missing.unwrap_or_else(unconfirmed);
            return Ok(ProbeResult::Degraded { reason });
        }
        Ok(ProbeResult::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_after_an_effect_never_says_that_nothing_was_decided() {
        for error in [
            EngineError::Overloaded,
            EngineError::LedgerShareFull,
            EngineError::ReloadBudgetUsed,
            EngineError::unavailable("no primary"),
            EngineError::Stopping,
            Refusal::UnknownCampaign.into(),
            EngineError::uncertain("no answer"),
        ] {
            let after = after_an_effect(error.clone());
            assert!(
                matches!(after, EngineError::Uncertain { .. }),
                "{error}: {after}"
            );
        }
    }
}
