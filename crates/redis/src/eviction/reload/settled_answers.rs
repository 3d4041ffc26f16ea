//! Answers about closed, evicted campaigns, from the ledger: counters, one order, claims, and changes that are refused.
//!
//! They cost the same for a campaign of a million orders as for one of ten, and no memory of Redis.

use std::sync::Arc;

use futures_util::future::join_all;
use qiang_core::{
    book::{Claim, OrderView, Refusal},
    campaign::{AckLevel, CampaignKind, Phase, Tally},
    event::Seq,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{CampaignRecord, Claimed, EngineError, Ledger},
};
use tokio::time::Instant;

use super::late;
use crate::{
    intake::{
        batcher::PendingClaim,
        reload_queue::ReloadResult,
        settled_reads::{CheckedRecord, SettledAnswer, SettledQuestion},
    },
    node::Node,
    shards::{
        settled_record::{excerpt, finish, level_of, outcome_of, rows_excerpt, unreadable},
        snapshot::engine_error_from_ledger,
    },
};

/// Maximum times that a command is sent again because its campaign was reloaded in between.
const COMMANDS_MAX: usize = 5;

/// Ledger state of a closed campaign of which Redis lacks a shard.
pub(super) enum SettledRecord {
    /// The ledger has all entries of it.
    Whole(Arc<CampaignRecord>),
    /// Redis has all shards by now.
    Here,
    /// The ledger lacks entries of what was evicted, or of a remaining shard.
    Behind,
    /// Its counters do not fit its supply.
    Contradictory,
}

impl Node {
    /// State of a campaign whose first shard is closed in the ledger.
    pub(super) async fn settled_record(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
        parts: u16,
    ) -> Result<SettledRecord, EngineError> {
        // Read first, so that the record is at least as new.
        let mut positions = Vec::with_capacity(usize::from(parts));
        for index in 0..parts {
            let partition = self.partitions.for_part(campaign, index);
            let upto = ledger.settled(partition).await;
            positions.push((partition, upto.map_err(engine_error_from_ledger)?));
        }
        let record = ledger.campaign(campaign).await;
        let record = record.map_err(engine_error_from_ledger)?;
        let Some(record) = record.filter(|record| record.phase == Phase::Closed) else {
            return Ok(SettledRecord::Behind);
        };
        let known = CheckedRecord {
            record: Arc::new(record),
            positions,
        };
        let state = self.check_record(&known).await?;
        if let SettledRecord::Whole(_) = state {
            self.recalls.settled.keep(known);
        }
        Ok(state)
    }

    /// Result for a campaign of which the record is kept. `None` if there is none, or it no longer counts.
    pub(super) async fn kept_record(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<ReloadResult>, EngineError> {
        let Some(known) = self.recalls.settled.record(campaign) else {
            return Ok(None);
        };
        for (partition, _) in &known.positions {
            if !self.partitions.are_whole(*partition, campaign).await? {
                self.recalls.settled.forget(campaign);
                return Ok(None);
            }
        }
        Ok(match self.check_record(&known).await? {
            SettledRecord::Whole(record) => Some(ReloadResult::Settled(record)),
            SettledRecord::Here => Some(ReloadResult::Here),
            SettledRecord::Behind | SettledRecord::Contradictory => {
                self.recalls.settled.forget(campaign);
                None
            }
        })
    }

    /// Compares a record with what Redis has evicted.
    async fn check_record(&self, known: &CheckedRecord) -> Result<SettledRecord, EngineError> {
        let campaign = known.record.campaign.id;
        let mut are_here = true;
        for (partition, upto) in known.positions.iter().copied() {
            let keys = self.partitions.keys();
            let mut left = redis::cmd("HGET");
            left.arg(keys.partition(partition)).arg("left");
            let left: Option<Seq> = self.partitions.query(partition, &left).await?;
            let mut hash = redis::cmd("HMGET");
            hash.arg(keys.campaign(partition, campaign));
            hash.arg(&["kind", "touched"]);
            let (kind, touched): (Option<String>, Option<Seq>) =
                self.partitions.query(partition, &hash).await?;
            are_here &= kind.is_some();
            if upto < left.max(touched).unwrap_or(0) {
                return Ok(SettledRecord::Behind);
            }
        }
        Ok(match excerpt(&known.record, &[]) {
            _ if are_here => SettledRecord::Here,
            Some(_) => SettledRecord::Whole(Arc::clone(&known.record)),
            None => SettledRecord::Contradictory,
        })
    }

    /// Answers claims of a closed campaign from the ledger.
    pub(super) async fn answer_settled(
        &self,
        record: &Arc<CampaignRecord>,
        batch: Vec<PendingClaim>,
        until: Instant,
    ) {
        let answers = batch.into_iter().map(async |pending| {
            if pending.answer.is_abandoned() {
                return;
            }
            let outcome = self.settled_outcome(record, &pending.claim, until).await;
            let answer = outcome.map(|outcome| Claimed {
                ack: match outcome {
                    Outcome::AlreadyGranted(_) => level_of(record.campaign.ack),
                    _ => AckLevel::Memory,
                },
                outcome,
            });
            pending.answer.send(answer);
        });
        join_all(answers).await;
    }

    async fn settled_outcome(
        &self,
        record: &Arc<CampaignRecord>,
        claim: &Claim,
        until: Instant,
    ) -> Result<Outcome, EngineError> {
        if claim.kind != record.campaign.kind() {
            return Ok(Outcome::UnknownCampaign);
        }
        if claim.quantity == 0 {
            return Err(Refusal::NothingAsked.into());
        }
        let question = SettledQuestion::User(claim.user.clone());
        let Some(SettledAnswer::Rows(rows)) = self.ask_settled(record, question, until).await?
        else {
            return Ok(Outcome::UnknownCampaign);
        };
        let outcome = outcome_of(record, &rows, claim)?;
        let Some(number) = outcome.grant().map(|grant| grant.number) else {
            return Ok(outcome);
        };
        let question = SettledQuestion::Order(number);
        let view = self.ask_settled(record, question, until).await?;
        Ok(match view {
            Some(SettledAnswer::Order(Some(view))) => Outcome::AlreadyGranted(view.grant),
            _ => outcome,
        })
    }

    /// An order of a closed campaign.
    pub(crate) async fn settled_order(
        &self,
        record: &Arc<CampaignRecord>,
        order: OrderId,
    ) -> Result<Option<OrderView>, EngineError> {
        let question = SettledQuestion::Order(order.number);
        let answer = self.ask_settled(record, question, self.in_time()).await?;
        Ok(match answer {
            Some(SettledAnswer::Order(view)) => view,
            _ => None,
        })
    }

    /// Answer of the ledger about a closed campaign; `None` if there is no ledger.
    async fn ask_settled(
        &self,
        record: &Arc<CampaignRecord>,
        question: SettledQuestion,
        until: Instant,
    ) -> Result<Option<SettledAnswer>, EngineError> {
        let Some(ledger) = self.recalls.ledger() else {
            return Ok(None);
        };
        let (ledger, of, asked) = (Arc::clone(ledger), Arc::clone(record), question.clone());
        let read = || async move { read_settled(&*ledger, &of, &asked).await };
        let within = (until, || late(record.campaign.id));
        let reads = &self.recalls.settled;
        reads.ask(record, question, read, within).await.map(Some)
    }

    /// Result of a command of which Redis lacks the campaign, if the campaign was evicted. `command` is repeated if the
    /// campaign was reloaded in between.
    pub(crate) async fn if_settled<F: Future<Output = Result<Tally, EngineError>>>(
        &self,
        campaign: CampaignId,
        command: impl Fn() -> F,
        settled: impl Fn(&CampaignRecord) -> Result<Tally, EngineError>,
    ) -> Result<Tally, EngineError> {
        for _ in 0..COMMANDS_MAX {
            match command().await {
                Err(EngineError::Refused(Refusal::UnknownCampaign)) => {}
                other => return other,
            }
            match self.recall(campaign).await? {
                ReloadResult::Here => {}
                ReloadResult::Settled(record) => return settled(&record),
                ReloadResult::Unknown => break,
            }
        }
        Err(Refusal::UnknownCampaign.into())
    }
}

async fn read_settled(
    ledger: &dyn Ledger,
    record: &CampaignRecord,
    question: &SettledQuestion,
) -> Result<SettledAnswer, EngineError> {
    match question {
        SettledQuestion::User(user) => {
            let rows = ledger.settled_rows_of_user(record.campaign.id, user).await;
            let rows = rows.map_err(engine_error_from_ledger)?;
            Ok(SettledAnswer::Rows(rows.into()))
        }
        SettledQuestion::Order(number) => {
            let view = read_view(ledger, record, *number).await?;
            Ok(SettledAnswer::Order(view))
        }
    }
}

/// A grant of a closed campaign, with its refunds due.
async fn read_view(
    ledger: &dyn Ledger,
    record: &CampaignRecord,
    number: u32,
) -> Result<Option<OrderView>, EngineError> {
    let Some(before) = number.checked_sub(1) else {
        return Ok(None);
    };
    let id = record.campaign.id;
    let rows = ledger.settled_rows(id, before, 1).await;
    let rows = rows.map_err(engine_error_from_ledger)?;
    let rows = rows.first().filter(|row| row.number == number);
    let payments = match record.campaign.kind() {
        CampaignKind::Sale => ledger.settled_payments(id, before, number).await,
        CampaignKind::RedPacket => Ok(Vec::new()),
    };
    let payments = payments.map_err(engine_error_from_ledger)?;
    let mut excerpt = rows_excerpt(record, rows.into_iter())?;
    for it in payments {
        let added = excerpt.add_payment(it.number, &it.payment, it.outcome);
        added.map_err(|error| unreadable(record, error.reason))?;
    }
    Ok(finish(excerpt, record)?.order(number))
}
