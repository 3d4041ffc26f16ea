//! What creating a red packet and creating a sale have in common.
//!
//! With an idempotency key the id is bound to the key before anything else happens, and the ledger takes a campaign
//! once per id. A repetition therefore finishes what an earlier attempt began, wherever that one broke off; and the
//! stored campaign, with its times and its seed, is what is opened and answered, not what the repetition would have
//! made of it.

use qiang_core::{
    book::Setup,
    campaign::{AckLevel, Campaign, Rules},
    id::{CampaignId, IdempotencyKey, UserId},
    time::{Timestamp, Window},
};
use serde::Serialize;

use crate::{
    app::App,
    auth::Caller,
    extract::fingerprint,
    problem::{Problem, ProblemKind},
    wire::{Text, When},
};

/// How long a campaign lasts when nothing else is said: 24 hours.
const LASTS_MS: i64 = 24 * 3_600_000;

/// A campaign to be made, as far as it does not depend on the kind.
pub(crate) struct Draft {
    pub(crate) owner: UserId,
    pub(crate) title: String,
    pub(crate) starts_at: Option<When>,
    pub(crate) ends_at: Option<When>,
    pub(crate) ack: Option<Text<AckLevel>>,
    pub(crate) rules: Rules,
}

impl Draft {
    fn campaign(
        self,
        id: CampaignId,
        now: Timestamp,
        usual: AckLevel,
    ) -> Result<Campaign, Problem> {
        let starts_at = self.starts_at.map_or(now, |when| when.0);
        let ends_at = self
            .ends_at
            .map_or(starts_at.plus_millis(LASTS_MS), |when| when.0);
        let window = Window::new(starts_at, ends_at)
            .map_err(|error| Problem::new(ProblemKind::Invalid, error.to_string()))?;
        if ends_at <= now {
            return Err(Problem::new(
                ProblemKind::Invalid,
                "the window is over already",
            ));
        }
        let ack = self.ack.map_or(usual, |ack| ack.0);
        let (owner, title, rules) = (self.owner, self.title, self.rules);
        let campaign = Campaign {
            id,
            owner,
            title,
            window,
            ack,
            created_at: now,
            rules,
        };
        campaign.check()?;
        Ok(campaign)
    }
}

/// Which campaign was created, and whether just now.
pub(crate) struct Created {
    pub(crate) id: CampaignId,
    pub(crate) fresh: bool,
}

impl App {
    /// The level of a campaign that asks for none: the strongest that the engine reaches without the ledger.
    fn usual_ack(&self) -> AckLevel {
        let offered = self.engine.ack_levels().iter().copied();
        let own = offered.filter(|level| *level != AckLevel::Ledger);
        own.max().unwrap_or(AckLevel::Ledger)
    }

    pub(crate) fn check_ack(&self, ack: Option<Text<AckLevel>>) -> Result<(), Problem> {
        let ack = ack.map_or(self.usual_ack(), |ack| ack.0);
        let offered = self.engine.ack_levels();
        if offered.contains(&ack) {
            Ok(())
        } else {
            Err(Problem::ack_unavailable(ack, offered))
        }
    }

    pub(crate) async fn create(
        &self,
        caller: &Caller,
        route: &str,
        key: Option<&IdempotencyKey>,
        request: &impl Serialize,
        draft: Draft,
    ) -> Result<Created, Problem> {
        let now = self.clock.now();
        let internal = || Problem::new(ProblemKind::Internal, "");
        // Once for the checks: a key is not spent on what cannot be.
        let unbound = CampaignId::new(self.fresh_id()).map_err(|_| internal())?;
        let checked = draft.campaign(unbound, now, self.usual_ack());
        let binding = match &checked {
            Ok(_) => {
                self.bind(caller, route, key, || fingerprint("", request))
                    .await?
            }
            // A repetition may come after the window that the first attempt was in time for.
            Err(_) if key.is_some() => {
                self.bind(caller, route, key, || fingerprint("", request))
                    .await?
            }
            Err(_) => qiang_core::ports::KeyBinding {
                id: unbound.uuid(),
                fresh: true,
            },
        };
        let id = CampaignId::new(binding.id).map_err(|_| internal())?;
        if !binding.fresh
            && let Some(record) = self.ledger.campaign(id).await?
        {
            self.open(setup_of(record.campaign).await?).await?;
            return Ok(Created { id, fresh: false });
        }
        let campaign = Campaign { id, ..checked? };
        let setup = setup_of(campaign).await?;
        self.ledger.create(&setup).await?;
        // Under a key, somebody else may have created it in the meantime: open what is stored.
        let setup = match key {
            None => setup,
            Some(_) => {
                setup_of(
                    self.ledger
                        .campaign(id)
                        .await?
                        .ok_or_else(internal)?
                        .campaign,
                )
                .await?
            }
        };
        self.open(setup).await?;
        tracing::info!(campaign = %id, "created");
        Ok(Created {
            id,
            fresh: binding.fresh,
        })
    }
}

/// Draws the shares, off the threads that serve others.
async fn setup_of(campaign: Campaign) -> Result<Setup, Problem> {
    let drawn = tokio::task::spawn_blocking(move || {
        let shares = campaign.shares();
        Setup { campaign, shares }
    });
    drawn.await.map_err(|error| {
        tracing::error!(%error, "the shares could not be drawn");
        Problem::new(ProblemKind::Internal, "")
    })
}
