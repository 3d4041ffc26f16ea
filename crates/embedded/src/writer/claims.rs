//! Decision of claims in a batch, one by one or in a given order.

use qiang_core::{
    book::{Book, Claim},
    campaign::AckLevel,
    event::{Entry, Seq},
    id::CampaignId,
    outcome::Outcome,
    ports::{Claimed, EngineError, ReplySender},
    time::Timestamp,
};

use super::{
    admission::BatchAdmission,
    decided_task::DecidedTask,
    ledger_ack_queue::{LastAck, LedgerAckQueue, ack_of},
};
use crate::task::WriterTask;

/// Parts of the writer that decide the claims of a batch.
pub(super) struct ClaimDecider<'a> {
    pub(super) book: &'a mut Book,
    pub(super) now: Timestamp,
    pub(super) committed: Seq,
    pub(super) last_ack: &'a mut LastAck,
    pub(super) parked: &'a mut LedgerAckQueue,
    pub(super) entries: &'a mut Vec<Entry>,
    pub(super) admission: &'a mut BatchAdmission,
    pub(super) decided: &'a mut Vec<DecidedTask>,
    /// Number of claims that the book has decided.
    pub(super) claims: &'a mut u64,
}

/// Claims that a batch does not decide.
pub(super) enum UndecidedClaims {
    /// The book does not have their campaign.
    Absent(CampaignId, WriterTask),
    /// They wait for the commit of this batch.
    HeldBack(WriterTask),
}

/// Effect of a claim on the later ones of its order.
enum Then {
    /// They are decided.
    GoOn,
    /// They are answered like it.
    AllWait(Outcome),
    /// They are refused like it.
    AllRefused,
    /// The book does not have the campaign.
    Absent(Claim, ReplySender<Claimed>),
}

impl ClaimDecider<'_> {
    /// Decides the claims of a task. Returns the claims that this batch does not decide.
    pub(super) fn run(&mut self, task: WriterTask) -> Option<UndecidedClaims> {
        match task {
            WriterTask::Claim(claim, answer) => match self.decide(claim, answer) {
                Then::Absent(claim, answer) => {
                    let id = claim.campaign;
                    let task = WriterTask::Claim(claim, answer);
                    Some(UndecidedClaims::Absent(id, task))
                }
                _ => None,
            },
            WriterTask::Claims(claims) => self.decide_in_order(claims),
            _ => None,
        }
    }

    fn decide(&mut self, claim: Claim, answer: ReplySender<Claimed>) -> Then {
        let known = ack_of(self.book, claim.campaign, self.last_ack);
        if let Some((AckLevel::Ledger, owner)) = known
            && !self.parked.expect(claim.campaign, owner)
        {
            // Too many of its campaign or owner wait for the ledger: only what it has is answered.
            let outcome = self.book.try_gate_outcome(self.now, &claim, self.committed);
            let Some(outcome) = outcome.filter(|outcome| self.parked.is_settled(outcome)) else {
                answer.send(Err(EngineError::LedgerShareFull));
                return Then::AllRefused;
            };
            self.decided.push(DecidedTask::Claim(Ok(outcome), answer));
            return Then::GoOn;
        }
        let outcome = self.book.claim(self.now, &claim, self.entries);
        if outcome == Ok(Outcome::UnknownCampaign) && !self.book.has(claim.campaign) {
            return Then::Absent(claim, answer);
        }
        *self.claims += 1;
        self.admission.decided(claim.campaign, &outcome);
        self.decided.push(DecidedTask::Claim(outcome, answer));
        match outcome {
            Ok(outcome @ (Outcome::Paused | Outcome::NotStarted { .. })) => Then::AllWait(outcome),
            _ => Then::GoOn,
        }
    }

    /// Decides claims of one campaign in their order. If one is not granted because of the campaign's phase or for lack
    /// of room, no later one is: it would overtake the earlier one, if the campaign opens or resumes, or gets room, at
    /// the same time.
    fn decide_in_order(
        &mut self,
        claims: Vec<(Claim, ReplySender<Claimed>)>,
    ) -> Option<UndecidedClaims> {
        let mut claims = claims.into_iter();
        while let Some((claim, answer)) = claims.next() {
            let campaign = claim.campaign;
            if self.admission.is_full(self.book, campaign) {
                let rest = [(claim, answer)].into_iter().chain(claims);
                let rest = WriterTask::Claims(rest.collect());
                return Some(UndecidedClaims::HeldBack(rest));
            }
            match self.decide(claim, answer) {
                Then::GoOn => {}
                Then::AllWait(outcome) => {
                    let rest = claims.by_ref();
                    let alike = rest.map(|(_, answer)| DecidedTask::Claim(Ok(outcome), answer));
                    self.decided.extend(alike);
                }
                Then::AllRefused => {
                    for (_, answer) in claims.by_ref() {
                        answer.send(Err(EngineError::LedgerShareFull));
                    }
                }
                Then::Absent(claim, answer) => {
                    let rest = [(claim, answer)].into_iter().chain(claims);
                    let rest = WriterTask::Claims(rest.collect());
                    return Some(UndecidedClaims::Absent(campaign, rest));
                }
            }
        }
        None
    }
}
