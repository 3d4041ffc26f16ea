//! Turn of a change under a condition. All nodes together make one such change of a campaign at a time, so that of
//! several changes under one entity tag exactly one is made.
//!
//! The turn is a key of the ledger that is bound to an id and has no answer. It is released after the change. A
//! turn whose node died, or whose change may still be carried out, ends after [`TURN_MS_MAX`].

use std::time::Duration;

use qiang_core::{
    id::{CampaignId, IdempotencyKey},
    ports::{KeyState, KeyUse},
};
use qiang_wire::problem::ProblemKind;
use uuid::Uuid;

use crate::{
    app::App,
    http::problem::ApiProblem,
    resources::changes::{BEGINS_WITHIN, timestamp_of},
};

/// Duration of a turn, without the time for which the engine may carry a command out late. A change begins within a
/// third of it.
const TURN_MS_MAX: i64 = 3 * BEGINS_WITHIN.as_millis() as i64;
/// Attempts to take the turn, and the pause between them.
const TURN_TRIES: (u32, Duration) = (40, Duration::from_millis(50));
/// Scope of turns. Scopes of requests contain a blank.
const SCOPE: &str = "change-turn";

/// A turn that was taken.
pub(crate) struct ChangeTurn {
    used: KeyUse,
    id: Uuid,
}

impl App {
    /// Takes the turn of a campaign. It waits for another change that has it, unless `waits` is false.
    ///
    /// # Errors
    /// `overloaded` if another change has it for too long. Then nothing was changed.
    pub(crate) async fn take_turn(
        &self,
        campaign: CampaignId,
        waits: bool,
    ) -> Result<ChangeTurn, ApiProblem> {
        let key = IdempotencyKey::new(&campaign.to_string());
        let key = key.map_err(|error| ApiProblem::internal(error.to_string()))?;
        let (used, ledger) = (KeyUse::new(SCOPE, key, [0; 32]), &self.ports.ledger);
        let mut taken_by = ledger.bound_key(&used).await?;
        for _ in 0..TURN_TRIES.0 {
            if taken_by.is_none_or(|bound| self.is_over(bound)) {
                // The turn lasts from the time in its id.
                let id = self.fresh_id();
                let is_taken = match ledger.begin_key(&used, id).await? {
                    KeyState::Fresh => true,
                    KeyState::Pending(bound) => {
                        self.is_over(bound) && ledger.rebind_key(&used, bound, id).await?
                    }
                    KeyState::Answered(_) => {
                        return Err(ApiProblem::internal("a turn has an answer"));
                    }
                };
                if is_taken {
                    return Ok(ChangeTurn { used, id });
                }
            }
            if !waits {
                break;
            }
            tokio::time::sleep(TURN_TRIES.1).await;
            // A look writes nothing.
            taken_by = ledger.bound_key(&used).await?;
        }
        let detail = "another change of the campaign under `If-Match` is running; nothing was changed, retry";
        Err(ApiProblem::new(ProblemKind::Overloaded, detail))
    }

    /// Ends a turn. If that fails, it ends after its time.
    pub(crate) async fn end_turn(&self, turn: &ChangeTurn) {
        let ledger = &self.ports.ledger;
        if let Err(error) = ledger.release_key(&turn.used, turn.id).await {
            tracing::warn!(%error, "cannot end the turn of a change; the next one waits for its time to pass");
        }
    }

    /// Whether the change with this id can no longer be carried out.
    fn is_over(&self, id: Uuid) -> bool {
        let lasts_ms = TURN_MS_MAX.saturating_add(self.ports.engine.late_for_ms());
        self.ports.clock.now().millis_since(timestamp_of(id)) >= lasts_ms
    }
}
