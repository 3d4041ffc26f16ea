//! The engine on Redis for the API, with the acknowledgement level `ledger` and a bound on unsettled entries.

use std::{pin::pin, sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, GateAnswers, PendingReply, ProbeResult},
};
use tokio::runtime::Handle;

use super::Distributed;

/// Interval of the check whether a user still waits for a claim that waits for the ledger.
const GONE_EVERY: Duration = Duration::from_millis(100);

/// The engine, with the acknowledgement level `ledger` and a bound on unsettled entries.
pub(super) struct LedgerAckEngine {
    pub(super) distributed: Arc<Distributed>,
    pub(super) runtime: Handle,
}

impl LedgerAckEngine {
    /// Whether too many entries of the claim's partition wait for the ledger.
    fn is_behind(&self, claim: &Claim) -> bool {
        let Distributed {
            monitor,
            engine,
            lag_entries_max,
            ..
        } = &*self.distributed;
        // The total comes first: if it is below the bound, every partition is.
        monitor.lag() >= *lag_entries_max
            && monitor.is_behind(engine.partition_of(claim), *lag_entries_max)
    }

    /// Waits until the ledger has a decided claim. The room is kept until then.
    fn confirm_later<R: Send + 'static>(
        &self,
        claim: Claim,
        room: R,
        decided: PendingReply<Claimed>,
    ) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        let distributed = Arc::clone(&self.distributed);
        self.runtime.spawn(async move {
            let _room = room;
            let mut confirmed = pin!(async {
                let claimed = decided.await?;
                distributed.confirm(&claim, claimed).await
            });
            let claimed = loop {
                match tokio::time::timeout(GONE_EVERY, &mut confirmed).await {
                    Ok(claimed) => break claimed,
                    // Dropping the future also drops a claim that was not sent yet.
                    Err(_) if answer.is_abandoned() => return,
                    Err(_) => {}
                }
            };
            answer.send(claimed);
        });
        ticket
    }
}

impl Engine for LedgerAckEngine {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        if self.is_behind(&claim) {
            return PendingReply::ready(Err(EngineError::Overloaded));
        }
        let engine = &self.distributed.engine;
        let known = engine.ack_and_owner(claim.campaign);
        if known.is_some_and(|(ack, _)| ack != AckLevel::Ledger) {
            return engine.claim(claim);
        }
        let party = known.map(|(_, owner)| (claim.campaign, owner));
        let room = self.distributed.confirmations.enter(party);
        // A campaign that this node does not know yet has few claims before the node learns it, so they go without a
        // permit.
        if room.is_none() && known.is_some() {
            return PendingReply::ready(Err(EngineError::LedgerShareFull));
        }
        let decided = engine.claim(claim.clone());
        self.confirm_later(claim, room, decided)
    }

    fn partition_for(&self, claim: &Claim) -> Option<PartitionId> {
        self.distributed.engine.partition_for(claim)
    }

    fn claim_in_order(&self, mut claims: Vec<Claim>) -> Vec<PendingReply<Claimed>> {
        let refused = |error: EngineError| PendingReply::ready(Err(error));
        let engine = &self.distributed.engine;
        let Some(first) = claims.first() else {
            return Vec::new();
        };
        if self.is_behind(first) {
            let all = claims.iter();
            return all.map(|_| refused(EngineError::Overloaded)).collect();
        }
        let known = engine.ack_and_owner(first.campaign);
        if known.is_some_and(|(ack, _)| ack != AckLevel::Ledger) {
            return engine.claim_in_order(claims);
        }
        let party = known.map(|(_, owner)| (first.campaign, owner));
        let rooms = claims.iter();
        let rooms = rooms.map(|_| self.distributed.confirmations.enter(party));
        let rooms: Vec<_> = rooms
            .take_while(|room| room.is_some() || known.is_none())
            .collect();
        // The first ones have room, so they stay in order.
        let full = claims.split_off(rooms.len());
        let decided = engine.claim_in_order(claims.clone());
        let claims = claims.into_iter().zip(rooms).zip(decided);
        let tickets = claims.map(|((claim, room), it)| self.confirm_later(claim, room, it));
        let full = full.iter();
        tickets
            .chain(full.map(|_| refused(EngineError::LedgerShareFull)))
            .collect()
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        // The ledger has a campaign before it opens, and no caller waits for a tick.
        let Some(campaign) = command.campaign().filter(|_| !is_kept_before(&command)) else {
            return self.distributed.engine.submit(command);
        };
        let is_change = matches!(
            command.without_key(),
            Command::SetStock { .. }
                | Command::SetTerms { .. }
                | Command::SetSale { .. }
                | Command::Correct { .. }
                | Command::Act {
                    action: CampaignAction::Start,
                    ..
                }
        );
        let known = self.distributed.engine.ack_and_owner(campaign);
        if !is_change && known.is_some_and(|(ack, _)| ack != AckLevel::Ledger) {
            return self.distributed.engine.submit(command);
        }
        let party = known.map(|(_, owner)| (campaign, owner));
        let room = self.distributed.confirmations.enter_command(party);
        if room.is_none() && known.is_some() {
            return PendingReply::ready(Err(EngineError::LedgerShareFull));
        }
        let (answer, ticket) = PendingReply::new();
        let distributed = Arc::clone(&self.distributed);
        self.runtime.spawn(async move {
            let _room = room;
            let reply = match distributed.engine.submit(command.clone()).await {
                Ok(reply) => reply,
                Err(error) => return answer.send(Err(error)),
            };
            // The command is decided now, so the level is known, unless Redis does not answer.
            let asks = match distributed.engine.read_level_of(campaign).await {
                Ok(asks) => asks,
                Err(error) => return answer.send(Err(error)),
            };
            if !is_change && asks != Some(AckLevel::Ledger) {
                return answer.send(Ok(reply));
            }
            let mut confirmed = pin!(async {
                distributed.confirm_command(&command, &reply).await?;
                Ok(reply)
            });
            let confirmed = loop {
                match tokio::time::timeout(GONE_EVERY, &mut confirmed).await {
                    Ok(confirmed) => break confirmed,
                    Err(_) if answer.is_abandoned() => return,
                    Err(_) => {}
                }
            };
            answer.send(confirmed);
        });
        ticket
    }

    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.distributed.engine.try_gate_outcome(claim)
    }

    fn gate_answers(&self) -> GateAnswers {
        self.distributed.engine.gate_answers()
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.distributed.engine.tally(campaign)
    }

    fn present_tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.distributed.engine.present_tally(campaign)
    }

    fn is_paused_throughout(&self, campaign: CampaignId) -> PendingReply<bool> {
        self.distributed.engine.is_paused_throughout(campaign)
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.distributed.engine.order(order)
    }

    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.distributed.engine.probe(partition)
    }

    fn late_for_ms(&self) -> i64 {
        self.distributed.engine.late_for_ms()
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        if self
            .distributed
            .engine
            .ack_levels()
            .contains(&AckLevel::Replica)
        {
            &[AckLevel::Memory, AckLevel::Replica, AckLevel::Ledger]
        } else {
            &[AckLevel::Memory, AckLevel::Ledger]
        }
    }
}

/// Whether a loss of Redis loses nothing of a command.
fn is_kept_before(command: &Command) -> bool {
    matches!(command, Command::Open(_) | Command::Tick { .. })
}
