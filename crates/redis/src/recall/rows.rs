//! Puts the rows of a campaign's part back, its shares and, last, its hash.

use std::collections::BTreeSet;

use qiang_connect::{Arguments, Script, ScriptReply, unavailable};
use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::EngineError,
    reconcile::{Repair, Survey},
};

use super::Attempt;
use crate::{
    node::Node,
    open::sums_of,
    rebuild::{Numbers, Rows},
    repair::sides::BothSides,
    reply::share_text,
    scripts::{RECALL_END, RECALL_ROWS},
};

/// The number of the shares' key among those of scripts.
const SHARES: u8 = 6;
/// Fields, or shares, that one call writes.
const CHUNK: usize = 1_000;
/// Milliseconds that a closed campaign stays that was brought back, if closed ones are kept for longer.
const RECALLED_MS: i64 = 600_000;
/// So long rows stay, beyond what closed campaigns are kept, that somebody has begun to bring back.
const BEGUN_MS: i64 = 60_000;

impl Node {
    pub(super) async fn put_back(
        &self,
        partition: PartitionId,
        (part, repair): (&BothSides, Repair),
        upto: Seq,
    ) -> Result<Attempt, EngineError> {
        let (meta, facts) = (&part.meta, &part.facts);
        let is_closed = repair.rows.phase == Phase::Closed;
        let shares = match is_closed {
            true => &[],
            false => &repair.shares[..],
        };
        let rows = match facts.kind {
            CampaignKind::RedPacket => Rows::of_packet(meta, &repair),
            CampaignKind::Sale => Rows::of_sale(meta, facts, &repair),
        };
        let kept_ms = self.partitions.options().keep_closed.as_millis() as i64;
        let now_ms = part.now.as_millis();
        // With the numbers of their keys among those of scripts.
        let sums = sums_of(shares);
        let sums = sums
            .iter()
            .flat_map(|(_, place, sum)| [place.to_string(), sum.to_string()]);
        let sums: Vec<String> = sums.collect();
        let rows = [
            (8, &rows.users),
            (9, &rows.orders),
            (10, &rows.payments),
            (13, &rows.keys),
            (7, &sums),
        ];
        for (key, values) in &rows {
            for chunk in values.chunks(CHUNK) {
                let reply = self
                    .step_back(partition, &RECALL_ROWS, meta.id, &|command| {
                        command.arg(upto).arg(now_ms + BEGUN_MS).arg(key).arg(chunk)
                    })
                    .await?;
                if let Some(attempt) = attempt_of(&reply)? {
                    return Ok(attempt);
                }
            }
        }
        for (chunk, shares) in shares.chunks(CHUNK).enumerate() {
            let texts: Vec<String> = shares
                .iter()
                .map(|(number, amount)| share_text(*number, *amount))
                .collect();
            let reply = self
                .step_back(partition, &RECALL_ROWS, meta.id, &|command| {
                    let place = (upto, now_ms + BEGUN_MS, SHARES, chunk * CHUNK);
                    command.arg(place).arg(&texts)
                })
                .await?;
            if let Some(attempt) = attempt_of(&reply)? {
                return Ok(attempt);
            }
        }
        let own = part.fields.iter();
        let own = own.map(|(field, value)| ((*field).to_owned(), value.clone()));
        let fields: Vec<_> = own.chain(terms_of(part)).collect();
        let numbers = Numbers::of(meta, facts, None, &fields, &repair);
        let fields = numbers.fields.iter();
        let fields: Vec<_> = fields
            .filter(|[field, _]| !(is_closed && field.starts_with("withheld")))
            .flatten()
            .collect();
        let from_ms = now_ms - (kept_ms - kept_ms.min(RECALLED_MS));
        let from_ms = is_closed.then_some(from_ms);
        let from_ms = from_ms.map_or_else(String::new, |millis| millis.to_string());
        let reply = self
            .step_back(partition, &RECALL_END, meta.id, &|command| {
                command.arg(upto).arg(&from_ms).arg(numbers.due_ms());
                for (_, values) in &rows {
                    command.arg(values.len() / 2);
                }
                command.arg(shares.len()).arg(&fields)
            })
            .await?;
        Ok(attempt_of(&reply)?.unwrap_or(Attempt::There))
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

/// A part as it is written, from what the ledger has of it.
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
        withheld: 0,
        now: part.now,
    }
    .repair()
}

/// What the hash says of terms that were changed.
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

/// What has become of an attempt, if it ends with this reply.
fn attempt_of(reply: &ScriptReply) -> Result<Option<Attempt>, EngineError> {
    match (reply.status.as_str(), reply.text().as_str()) {
        ("ok", "here") => Ok(Some(Attempt::There)),
        ("ok", _) => Ok(None),
        ("stale" | "gap", _) => Ok(Some(Attempt::Again)),
        (status, text) => Err(unavailable(format!("Redis answered {status} {text}"))),
    }
}
