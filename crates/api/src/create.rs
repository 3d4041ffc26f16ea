//! What creating a red packet and creating a sale have in common.
//!
//! With an idempotency key the id is bound to the key in the transaction that enters the campaign: what is refused
//! spends no key. A repetition finishes what an earlier attempt began, wherever that one broke off; and the stored
//! campaign, with its times and its seed, is what is opened and answered, not what the repetition would have made.

use axum::http::StatusCode;
use qiang_core::{
    book::Setup,
    campaign::{AckLevel, Campaign, Details, Requirements, Rules},
    id::{CampaignId, IdError, IdempotencyKey, UserId},
    ports::ActionKind,
    time::{Timestamp, Window},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    actions,
    app::App,
    auth::Caller,
    fingerprint::key_use,
    problem::Problem,
    wire::{self, Text, When},
};

/// How long a sale lasts when nothing else is said: 24 hours.
pub(crate) const SALE_LASTS_MS: i64 = 24 * 3_600_000;

/// A campaign to be made, as far as it does not depend on the kind.
pub(crate) struct Draft {
    pub(crate) owner: UserId,
    pub(crate) title: String,
    pub(crate) details: Details,
    pub(crate) starts_at: Option<When>,
    pub(crate) ends_at: Option<When>,
    /// Milliseconds from its start to its end where no end is named.
    pub(crate) lasts_ms: i64,
    pub(crate) ack: Option<Text<AckLevel>>,
    pub(crate) requirements: Requirements,
    pub(crate) rules: Rules,
    /// Who may take part and see the draws, as it is kept.
    pub(crate) audience: Option<String>,
    pub(crate) waiting_room: bool,
}

impl Draft {
    fn campaign(
        self,
        id: CampaignId,
        now: Timestamp,
        usual: AckLevel,
    ) -> Result<Campaign, Problem> {
        let starts_at = self.starts_at.map_or(now, |when| when.0);
        let usual_end = starts_at.plus_millis(self.lasts_ms);
        let ends_at = self.ends_at.map_or(usual_end, |when| when.0);
        let window = Window::new(starts_at, ends_at)?;
        if ends_at <= now {
            return Err(Problem::invalid_at(
                "#/ends_at",
                "the window is over already",
            ));
        }
        let campaign = Campaign {
            id,
            owner: self.owner,
            title: self.title,
            window,
            ack: self.ack.map_or(usual, |ack| ack.0),
            requirements: self.requirements,
            created_at: now,
            rules: self.rules,
        };
        campaign.check()?;
        Ok(campaign)
    }
}

impl App {
    /// The level of a campaign that asks for none: the strongest that the engine reaches without the ledger.
    fn usual_ack(&self) -> AckLevel {
        let offered = self.ports.engine.ack_levels().iter().copied();
        let own = offered.filter(|level| *level != AckLevel::Ledger);
        own.max().unwrap_or(AckLevel::Ledger)
    }

    pub(crate) fn check_ack(&self, ack: Option<Text<AckLevel>>) -> Result<(), Problem> {
        let ack = ack.map_or(self.usual_ack(), |ack| ack.0);
        let offered = self.ports.engine.ack_levels();
        if offered.contains(&ack) {
            Ok(())
        } else {
            Err(Problem::ack_unavailable(ack, offered))
        }
    }

    /// Creates a campaign and opens it; returns the status that says whether just now.
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        route: &str,
        key: Option<&IdempotencyKey>,
        request: &impl Serialize,
        draft: Draft,
    ) -> Result<(StatusCode, CampaignId), Problem> {
        let internal = |error: IdError| Problem::internal(error.to_string());
        let ledger = &self.ports.ledger;
        let used = key.map(|key| key_use(&caller.user, route, key, "", request));
        let bound = match &used {
            Some(used) => ledger.bound_key(used).await?,
            None => None,
        };
        let id = CampaignId::new(bound.unwrap_or_else(|| self.fresh_id())).map_err(internal)?;
        // A repetition may come after the window that the first attempt was in time for.
        if bound.is_some()
            && let Some(record) = ledger.campaign(id).await?
        {
            self.open(setup_of(record.campaign).await?).await?;
            return Ok((wire::created(false), id));
        }
        let (audience, details) = (draft.audience.clone(), draft.details.clone());
        let waiting_room = draft.waiting_room;
        let campaign = draft.campaign(id, self.ports.clock.now(), self.usual_ack())?;
        let mut setup = setup_of(campaign).await?;
        if waiting_room {
            // First: nobody who finds the campaign passes its line.
            ledger.add_waiting_room(id).await?;
        }
        let owner = json!({ "owner": setup.campaign.owner.as_str() });
        let action = self.action(&caller.user, ActionKind::Create, id, &owner);
        let (entered, by) = ((&setup, &details), Some(&action));
        let mut fresh = true;
        match used {
            None => {
                let created = ledger.create_by(&setup, &details, audience.as_deref(), by);
                created.await?;
            }
            Some(used) => {
                let created = ledger.create_under(&used, entered, audience.as_deref(), by);
                let binding = created.await?;
                let id = CampaignId::new(binding.id).map_err(internal)?;
                // Somebody else may have created it in the meantime: open what is stored.
                let stored = ledger.campaign(id).await?;
                let lost =
                    || Problem::internal("the ledger does not have what it has just entered");
                setup = setup_of(stored.ok_or_else(lost)?.campaign).await?;
                fresh = binding.fresh;
            }
        }
        let id = setup.campaign.id;
        self.open(setup).await?;
        self.unknown.forget(id);
        actions::log(&action);
        Ok((wire::created(fresh), id))
    }
}

/// Draws the shares, off the threads that serve others.
async fn setup_of(campaign: Campaign) -> Result<Setup, Problem> {
    let drawn = tokio::task::spawn_blocking(move || {
        let shares = campaign.shares();
        Setup { campaign, shares }
    });
    let failed = |error| Problem::internal(format!("the shares could not be drawn: {error}"));
    drawn.await.map_err(failed)
}
