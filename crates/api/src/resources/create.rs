//! Creation of campaigns, common to red packets and sales.
//!
//! With an idempotency key, the transaction that records the campaign also binds its id to the key, so a refusal does
//! not use the key. A repetition completes an earlier attempt at any point. It opens and answers the stored campaign,
//! with its times and its seed, not a new one.

use std::sync::Arc;

use qiang_core::{
    book::Setup,
    campaign::{AckLevel, Campaign, CampaignKind, Details, Requirements, Rules, Tally},
    id::{CampaignId, IdError, IdempotencyKey, UserId},
    metadata::Metadata,
    payment::PaymentPolicy,
    ports::{Action, ActionKind, CampaignRecord, Creation, KeyBinding, KeyUse},
    time::{JUMP_MS_MAX, Timestamp, Window},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    app::App,
    audience::NewAudience,
    auth::Caller,
    cache::campaigns::AnswerFields,
    http::{
        problem::ApiProblem,
        wire::{Rfc3339, Text},
    },
    idempotency::fingerprint::key_use,
    resources::operation_log,
};

/// Default lifetime of a sale: 24 hours.
pub(crate) const SALE_LASTS_MS: i64 = 24 * 3_600_000;

/// Largest difference between the time in a chosen id and now: 24 hours.
pub(crate) const CHOSEN_ID_WITHIN_MS: i64 = 24 * 3_600_000;

/// Maximum number of shares that are computed on the request's thread, within microseconds.
const DRAWN_AT_ONCE: u64 = 100;

/// Kind-independent part of a campaign to create.
pub(crate) struct Draft {
    /// Id chosen by the creator; `None` if the node makes one.
    pub(crate) id: Option<CampaignId>,
    pub(crate) owner: UserId,
    pub(crate) title: String,
    pub(crate) details: Details,
    /// The shop's own data about the campaign.
    pub(crate) metadata: Metadata,
    pub(crate) starts_at: Option<Rfc3339>,
    pub(crate) ends_at: Option<Rfc3339>,
    /// Milliseconds from start to end, if the end is absent.
    pub(crate) lasts_ms: i64,
    pub(crate) ack: Option<Text<AckLevel>>,
    pub(crate) requirements: Requirements,
    /// The error applies only to a new campaign, not to the repetition of an earlier creation.
    pub(crate) rules: Result<Rules, ApiProblem>,
    /// Amounts other than the price that pay an order of a sale.
    pub(crate) payment_policy: PaymentPolicy,
    /// Users who may take part and see the draws; `None` for all users.
    pub(crate) audience: Option<NewAudience>,
    pub(crate) waiting_room: bool,
}

impl Draft {
    fn campaign(
        self,
        id: CampaignId,
        (now, engine_now): (Timestamp, Timestamp),
        usual: AckLevel,
    ) -> Result<Campaign, ApiProblem> {
        let at_once = || start_at_once(now, engine_now);
        let starts_at = self.starts_at.map_or_else(at_once, |when| when.0);
        let usual_end = starts_at.plus_millis(self.lasts_ms);
        let ends_at = self.ends_at.map_or(usual_end, |when| when.0);
        let window = Window::new(starts_at, ends_at)?;
        if ends_at <= engine_now {
            return Err(ApiProblem::invalid_at(
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
            payment_policy: self.payment_policy,
            created_at: now,
            rules: self.rules?,
        };
        campaign.check()?;
        Ok(campaign)
    }
}

impl App {
    /// Default acknowledgement level: the strongest that the engine reaches without the ledger.
    fn usual_ack(&self) -> AckLevel {
        let offered = self.ports.engine.ack_levels().iter().copied();
        let own = offered.filter(|level| *level != AckLevel::Ledger);
        own.max().unwrap_or(AckLevel::Ledger)
    }

    pub(crate) fn check_ack(&self, ack: Option<Text<AckLevel>>) -> Result<(), ApiProblem> {
        let ack = ack.map_or(self.usual_ack(), |ack| ack.0);
        let offered = self.ports.engine.ack_levels();
        if offered.contains(&ack) {
            Ok(())
        } else {
            Err(ApiProblem::ack_unavailable(ack, offered))
        }
    }

    /// Creates a campaign and opens it.
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        route: &str,
        key: Option<&IdempotencyKey>,
        request: &impl Serialize,
        draft: Draft,
    ) -> Result<CreatedCampaign, ApiProblem> {
        let used = key.map(|key| key_use(&caller.user, route, key, "", request));
        let new = match self.prepare(caller, used.as_ref(), draft).await? {
            PreparedCampaign::Stored(campaign) => return self.reopen(*campaign).await,
            PreparedCampaign::New(new) => new,
        };
        let binding = self.ports.ledger.create_under(new.creation(used)).await?;
        self.finish(*new, binding).await
    }

    /// Checks everything that does not need a write, and draws the shares.
    ///
    /// Recording the campaign reports the binding of a key. The key is read before only if a repetition would fail
    /// these checks, or if many shares would be drawn for it.
    pub(crate) async fn prepare(
        &self,
        caller: &Caller,
        used: Option<&KeyUse>,
        draft: Draft,
    ) -> Result<PreparedCampaign, ApiProblem> {
        let (ledger, now) = (&self.ports.ledger, self.ports.clock.now());
        let (audience, details) = (draft.audience.clone(), draft.details.clone());
        let (metadata, waiting_room) = (draft.metadata.clone(), draft.waiting_room);
        let mut campaign = self.campaign_of(draft, now);
        // A repetition may arrive after the window in which the first attempt was valid.
        let ask = campaign.as_ref().map_or(true, is_drawn_apart);
        if let Some(used) = used.filter(|_| ask)
            && let Some(bound) = ledger.bound_key(used).await?
        {
            let id = CampaignId::new(bound).map_err(internal)?;
            if let Some(record) = ledger.campaign(id).await? {
                return Ok(PreparedCampaign::Stored(Box::new(record.campaign)));
            }
            campaign = campaign.map(|it| Campaign { id, ..it });
        }
        let setup = setup_of(campaign?).await?;
        let (id, owner) = (setup.campaign.id, setup.campaign.owner.as_str());
        let detail = json!({ "owner": owner });
        let action = self.action(&caller.user, ActionKind::Create, id, &detail);
        Ok(PreparedCampaign::New(Box::new(CampaignToRecord {
            setup,
            details,
            metadata,
            audience,
            waiting_room,
            action,
        })))
    }

    fn campaign_of(&self, draft: Draft, now: Timestamp) -> Result<Campaign, ApiProblem> {
        let id = match draft.id {
            Some(chosen) => {
                check_made_lately(chosen, now)?;
                chosen
            }
            None => CampaignId::new(self.fresh_id()).map_err(internal)?,
        };
        draft.campaign(id, (now, self.ports.engine_clock.now()), self.usual_ack())
    }

    /// Opens a campaign that was recorded before.
    pub(super) async fn reopen(&self, campaign: Campaign) -> Result<CreatedCampaign, ApiProblem> {
        let id = campaign.id;
        self.open(setup_of(campaign).await?).await?;
        Ok(CreatedCampaign::before(id))
    }

    /// Opens the campaign that was recorded now, or the one that the key is bound to.
    pub(super) async fn finish(
        &self,
        new: CampaignToRecord,
        binding: KeyBinding,
    ) -> Result<CreatedCampaign, ApiProblem> {
        let id = CampaignId::new(binding.id).map_err(internal)?;
        let created = if binding.fresh {
            let record = new.record();
            self.remember(&record, &new)?;
            self.open(new.setup).await?;
            operation_log::log(&new.action);
            CreatedCampaign {
                id,
                fresh: Some(Box::new(record)),
            }
        } else {
            // It was created before, so the stored campaign is opened.
            let stored = self.ports.ledger.campaign(id).await?;
            let lost =
                || ApiProblem::internal("the ledger lacks the campaign that its key is bound to");
            self.open(setup_of(stored.ok_or_else(lost)?.campaign).await?)
                .await?;
            CreatedCampaign::before(id)
        };
        self.unknown.forget(id);
        Ok(created)
    }

    /// Caches what the next claim would have to read.
    fn remember(&self, record: &CampaignRecord, new: &CampaignToRecord) -> Result<(), ApiProblem> {
        let (id, read_at) = (record.campaign.id, record.campaign.created_at);
        let audience = new.audience.as_ref();
        let audience = audience.map(|it| it.ready(id)).transpose()?;
        let meta = AnswerFields::new(record, read_at, audience.map(Arc::new), new.waiting_room);
        self.campaigns.insert(id, Arc::new(meta));
        Ok(())
    }

    /// A created campaign and its numbers. One that was recorded just now is not read again.
    pub(crate) async fn created(
        &self,
        created: CreatedCampaign,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), ApiProblem> {
        match created.fresh {
            Some(record) => {
                let tally = self.tally_of(&record).await?;
                Ok((*record, tally))
            }
            None => self.record(created.id, kind).await,
        }
    }
}

fn internal(error: IdError) -> ApiProblem {
    ApiProblem::internal(error.to_string())
}

/// A checked request for a campaign.
pub(crate) enum PreparedCampaign {
    /// A repetition: the campaign is in the ledger.
    Stored(Box<Campaign>),
    /// A campaign to record.
    New(Box<CampaignToRecord>),
}

/// A campaign that was created, now or before.
pub(crate) struct CreatedCampaign {
    pub(crate) id: CampaignId,
    /// The record, if it was recorded just now.
    fresh: Option<Box<CampaignRecord>>,
}

impl CreatedCampaign {
    fn before(id: CampaignId) -> Self {
        Self { id, fresh: None }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }
}

/// A campaign to record.
pub(crate) struct CampaignToRecord {
    setup: Setup,
    details: Details,
    metadata: Metadata,
    audience: Option<NewAudience>,
    waiting_room: bool,
    action: Action,
}

impl CampaignToRecord {
    fn record(&self) -> CampaignRecord {
        CampaignRecord::created(self.setup.campaign.clone(), self.details.clone())
    }

    /// Creation to record, under its key if it has one.
    pub(super) fn creation(&self, used: Option<KeyUse>) -> Creation {
        Creation {
            used,
            setup: self.setup.clone(),
            details: self.details.clone(),
            metadata: self.metadata.clone(),
            audience: self.audience.as_ref().map(|it| it.text.clone()),
            waiting_room: self.waiting_room,
            by: Some(self.action.clone()),
            opens: true,
        }
    }
}

/// Key of a creation: the one that was sent, otherwise the id that the creator chose. So a repetition of either finds
/// the same campaign.
pub(crate) fn creation_key(
    sent: Option<IdempotencyKey>,
    id: Option<Text<CampaignId>>,
) -> Option<IdempotencyKey> {
    sent.or_else(|| IdempotencyKey::new(&id?.0.to_string()).ok())
}

/// Start of a campaign that opens at once: the engine's time, or this node's if the engine is ahead by a step. A node
/// learns up to 250 ms late that the engine's clock was set back. Until then, it believes a future engine time.
fn start_at_once(now: Timestamp, engine_now: Timestamp) -> Timestamp {
    let ahead_ms = engine_now.millis_since(now);
    match (0..=JUMP_MS_MAX).contains(&ahead_ms) {
        true => now,
        false => engine_now,
    }
}

/// Checks that a chosen id has about the present time, because an id contains its creation time.
fn check_made_lately(id: CampaignId, now: Timestamp) -> Result<(), ApiProblem> {
    if (id.made_at().as_millis() - now.as_millis()).abs() <= CHOSEN_ID_WITHIN_MS {
        return Ok(());
    }
    let detail = "the time in the id, a UUID of version 7, must be within a day of now";
    Err(ApiProblem::invalid_at("#/id", detail))
}

/// Whether its shares are drawn on a blocking thread.
fn is_drawn_apart(campaign: &Campaign) -> bool {
    campaign.supply() > DRAWN_AT_ONCE
}

/// Draws the shares; many of them on a blocking thread.
async fn setup_of(campaign: Campaign) -> Result<Setup, ApiProblem> {
    if !is_drawn_apart(&campaign) {
        let shares = campaign.shares();
        return Ok(Setup { campaign, shares });
    }
    let drawn = tokio::task::spawn_blocking(move || {
        let shares = campaign.shares();
        Setup { campaign, shares }
    });
    let failed = |error| ApiProblem::internal(format!("cannot draw the shares: {error}"));
    drawn.await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaign_that_opens_at_once_starts_at_no_time_to_come() {
        let at = Timestamp::from_millis;
        let start =
            |engine_ms: i64| start_at_once(at(1_000_000), at(1_000_000 + engine_ms)).as_millis();
        assert_eq!(start(0), 1_000_000);
        assert_eq!(
            start(30_000),
            1_000_000,
            "the engine's clock was set back, which this node has not learned"
        );
        assert_eq!(start(-30_000), 970_000, "this node's clock is ahead");
        assert_eq!(start(300_000), 1_300_000, "this node's clock is behind");
    }
}
