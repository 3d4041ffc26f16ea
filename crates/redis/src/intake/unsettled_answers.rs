//! Answers of this node that the ledger does not have yet. If a failover loses them, the repair of the partition reads
//! them from here.
//!
//! Replies are kept as received, and decoded only for a repair. Settled ones are dropped; past a limit, the oldest ones
//! too.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use qiang_core::{
    campaign::CampaignKind,
    event::{Entry, Event, Seq},
    id::{OrderId, PaymentRef, UserId},
    order::OrderState,
    payment::PaymentOutcome,
};

use crate::protocol::{
    campaign_meta::CachedCampaign,
    reply::{GrantLine, OrderText},
};

/// Maximum claims of one partition with kept answers.
const CLAIMS_MAX: usize = 32_768;
/// Maximum kept results of payments and cancellations of one partition.
const STEPS_MAX: usize = 4_096;

/// Reply to a batch of claims, and their users.
struct AnswerBatch {
    meta: Arc<CachedCampaign>,
    /// End of the log at their decision.
    seq: Seq,
    text: Vec<u8>,
    users: Vec<UserId>,
}

#[derive(Default)]
struct UnsettledAnswer {
    batches: VecDeque<AnswerBatch>,
    claims: usize,
    /// Last entry up to which answers were dropped that may not be settled.
    dropped: Seq,
    steps: VecDeque<Entry>,
    /// Term and position of the ledger at the last read.
    settled: Option<(Arc<str>, Seq)>,
}

/// The kept answers of one partition.
#[derive(Default)]
pub(crate) struct UnsettledAnswers(Mutex<UnsettledAnswer>);

impl UnsettledAnswers {
    /// Keeps the reply to a batch of claims, some of which have a grant.
    pub(crate) fn keep(
        &self,
        meta: &Arc<CachedCampaign>,
        seq: Seq,
        text: Vec<u8>,
        users: Vec<UserId>,
    ) {
        let meta = Arc::clone(meta);
        let mut kept = self.0.lock();
        kept.claims += users.len();
        kept.batches.push_back(AnswerBatch {
            meta,
            seq,
            text,
            users,
        });
        while kept.claims > CLAIMS_MAX
            && let Some(oldest) = kept.batches.pop_front()
        {
            kept.claims -= oldest.users.len();
            kept.dropped = kept.dropped.max(oldest.seq);
        }
    }

    /// Keeps the result of a payment or a cancellation. Its position in the log is unknown.
    pub(crate) fn keep_step(&self, meta: &CachedCampaign, event: Event) {
        self.keep_steps(meta, None, event);
    }

    /// Keeps the result of a payment, and the units that were cancelled before it. Neither is dropped without the
    /// other.
    pub(crate) fn keep_steps(
        &self,
        meta: &CachedCampaign,
        cancelled: Option<Event>,
        payment: Event,
    ) {
        let entry = |event| Entry {
            seq: 0,
            at: meta.origin,
            campaign: meta.id,
            event,
        };
        let mut kept = self.0.lock();
        while kept.steps.len() >= STEPS_MAX {
            let dropped = kept.steps.pop_front();
            if dropped.is_some_and(|it| is_before_payment(&it.event)) {
                kept.steps.pop_front();
            }
        }
        kept.steps.extend(cancelled.map(entry));
        kept.steps.push_back(entry(payment));
    }

    /// Drops what the ledger had at the previous call, if the term is still the same. Positions of another term are
    /// other entries, and a node that was paused does not know yet that its term has ended.
    pub(crate) fn release_in(&self, term: &Arc<str>, settled: Seq) {
        let now = Some((Arc::clone(term), settled));
        let before = std::mem::replace(&mut self.0.lock().settled, now);
        if let Some((_, settled)) = before.filter(|(before, _)| before == term) {
            self.release(settled);
        }
    }

    /// Drops what the ledger has.
    pub(crate) fn release(&self, settled: Seq) {
        let mut kept = self.0.lock();
        while kept
            .batches
            .front()
            .is_some_and(|batch| batch.seq <= settled)
        {
            let batch = kept.batches.pop_front();
            kept.claims -= batch.map_or(0, |batch| batch.users.len());
        }
    }

    /// Kept entries from this one on, with position 0 if the position is unknown; and the entry from which on they are
    /// complete.
    pub(crate) fn since(&self, from: Seq) -> (Vec<Entry>, Seq) {
        let kept = self.0.lock();
        let batches = kept.batches.iter().filter(|batch| batch.seq >= from);
        let mut entries: Vec<Entry> = batches.flat_map(entries).collect();
        entries.retain(|entry| entry.seq == 0 || entry.seq >= from);
        entries.extend(kept.steps.iter().cloned());
        (entries, kept.dropped + 1)
    }
}

/// Whether the step is kept together with the next one.
fn is_before_payment(event: &Event) -> bool {
    matches!(event, Event::PartCancelled { part, .. } if part.is_before_payment())
}

/// Grants in the reply to a batch, and the payments of orders that cost nothing.
fn entries(batch: &AnswerBatch) -> Vec<Entry> {
    let Ok(text) = std::str::from_utf8(&batch.text) else {
        return Vec::new();
    };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut lines = rest.split('\n');
    let all_granted = first.ends_with('*');
    let mut grants = Vec::new();
    for user in &batch.users {
        if all_granted {
            lines.next();
        }
        let Some(line) = lines.next() else { break };
        grants.extend(entries_of(batch, user, line));
    }
    // The batch's own entries are the last ones of the log at that time.
    let fresh = grants.iter().filter(|entry| entry.seq > 0).count() as Seq;
    let first = (batch.seq + 1).saturating_sub(fresh);
    for (seq, grant) in (first..).zip(grants.iter_mut().filter(|entry| entry.seq > 0)) {
        grant.seq = seq;
    }
    grants
}

/// Grant in a line of a reply, with position 0 if it was made before; and its payment if it costs nothing.
fn entries_of(batch: &AnswerBatch, user: &UserId, line: &str) -> Vec<Entry> {
    let Some((entry, is_paid)) = entry(batch, user, line) else {
        return Vec::new();
    };
    let paid = match entry.event {
        Event::Granted {
            number,
            amount_minor: 0,
            ..
        } if is_paid => {
            let campaign = entry.campaign;
            let payment = PaymentRef::for_free_order(OrderId { campaign, number });
            let event = Event::payment_recorded(number, payment, PaymentOutcome::Paid.into());
            Some(Entry { event, ..entry })
        }
        _ => None,
    };
    [entry].into_iter().chain(paid).collect()
}

/// Grant in a line of a reply, with position 0 if it was made before; and whether the order is paid if it costs
/// nothing.
fn entry(batch: &AnswerBatch, user: &UserId, line: &str) -> Option<(Entry, bool)> {
    let (meta, first) = (&batch.meta, *line.as_bytes().first()?);
    let mut is_paid = meta.kind == CampaignKind::Sale;
    let (seq, row) = match (first, meta.kind) {
        (b'A', CampaignKind::Sale) => {
            let (number, text) = line[1..].split_once('\t')?;
            let order = OrderText::parse(number.parse().ok()?, text)?;
            is_paid = matches!(order.state, OrderState::Paid | OrderState::Returned);
            (0, order.row)
        }
        (b'A', kind) => (0, GrantLine::parse(kind, &line[1..])?),
        (b'P' | b'N' | b'E' | b'L' | b'S' | b'K', _) => return None,
        (_, kind) => (batch.seq, GrantLine::parse(kind, line)?),
    };
    let entry = Entry {
        seq,
        at: meta.at(row.offset)?,
        campaign: meta.id,
        event: row.event(user.as_str())?,
    };
    Some((entry, is_paid))
}
