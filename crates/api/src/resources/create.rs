//! What creating a red packet and creating a sale have in common.
//!
//! With an idempotency key the id is bound to the key in the transaction that enters the campaign: what is refused
//! spends no key. A repetition finishes what an earlier attempt began, wherever that one broke off; and the stored
//! campaign, with its times and its seed, is what is opened and answered, not what the repetition would have made.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use qiang_core::{
    book::Setup,
    campaign::{AckLevel, Campaign, CampaignKind, Details, Requirements, Rules, Tally},
    id::{CampaignId, IdError, IdempotencyKey, UserId},
    payment::PaymentPolicy,
    ports::{Action, ActionKind, CampaignRecord, Creation, KeyBinding, KeyUse, LedgerError},
    time::{JUMP_MS_MAX, Timestamp, Window},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    app::App,
    audience::NewAudience,
    auth::Caller,
    cache::campaigns::CampaignMeta,
    http::{
        problem::Problem,
        wire::{Text, When},
    },
    idempotency::fingerprint::key_use,
    resources::actions,
};

/// How long a sale lasts when nothing else is said: 24 hours.
pub(crate) const SALE_LASTS_MS: i64 = 24 * 3_600_000;

/// How far the time in an id that a creator chose may be from now: 24 hours.
const CHOSEN_ID_WITHIN_MS: i64 = 24 * 3_600_000;

/// Shares that are drawn where the request is served: some microseconds.
const DRAWN_AT_ONCE: u64 = 100;

/// Campaigns that are opened at the same time: all of a batch, so that an engine can take them up together.
const OPENED_AT_ONCE: usize = 100;

/// A campaign to be made, as far as it does not depend on the kind.
pub(crate) struct Draft {
    /// The id that its creator chose; none: the node makes one.
    pub(crate) id: Option<CampaignId>,
    pub(crate) owner: UserId,
    pub(crate) title: String,
    pub(crate) details: Details,
    pub(crate) starts_at: Option<When>,
    pub(crate) ends_at: Option<When>,
    /// Milliseconds from its start to its end where no end is named.
    pub(crate) lasts_ms: i64,
    pub(crate) ack: Option<Text<AckLevel>>,
    pub(crate) requirements: Requirements,
    /// Why there are none does not concern who repeats what was created before.
    pub(crate) rules: Result<Rules, Problem>,
    /// Which amounts beside its price pay an order of a sale.
    pub(crate) payment_policy: PaymentPolicy,
    /// Who may take part and see the draws.
    pub(crate) audience: Option<NewAudience>,
    pub(crate) waiting_room: bool,
}

impl Draft {
    fn campaign(
        self,
        id: CampaignId,
        (now, engine_now): (Timestamp, Timestamp),
        usual: AckLevel,
    ) -> Result<Campaign, Problem> {
        let at_once = || start_at_once(now, engine_now);
        let starts_at = self.starts_at.map_or_else(at_once, |when| when.0);
        let usual_end = starts_at.plus_millis(self.lasts_ms);
        let ends_at = self.ends_at.map_or(usual_end, |when| when.0);
        let window = Window::new(starts_at, ends_at)?;
        if ends_at <= engine_now {
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
            payment_policy: self.payment_policy,
            created_at: now,
            rules: self.rules?,
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

    /// Creates a campaign and opens it.
    pub(crate) async fn create(
        &self,
        caller: &Caller,
        route: &str,
        key: Option<&IdempotencyKey>,
        request: &impl Serialize,
        draft: Draft,
    ) -> Result<Created, Problem> {
        let used = key.map(|key| key_use(&caller.user, route, key, "", request));
        let new = match self.prepare(caller, used.as_ref(), draft).await? {
            Prepared::Stored(campaign) => {
                let id = campaign.id;
                self.open(setup_of(*campaign).await?).await?;
                return Ok(Created::before(id));
            }
            Prepared::New(new) => new,
        };
        let binding = self.ports.ledger.create_under(new.creation(used)).await?;
        self.finish(*new, binding).await
    }

    /// Creates what is to be created under these keys, in one transaction of the ledger, and opens it. What was refused
    /// before stays as it is.
    pub(crate) async fn create_all(
        &self,
        prepared: Vec<Result<(KeyUse, Prepared), Problem>>,
    ) -> Vec<Result<Created, Problem>> {
        let mut campaigns = Vec::new();
        let mut begun = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            begun.push(match prepared {
                Ok((used, Prepared::New(new))) => {
                    campaigns.push(new.creation(Some(used)));
                    Ok(Prepared::New(new))
                }
                Ok((_, stored)) => Ok(stored),
                Err(problem) => Err(problem),
            });
        }
        let entered = match campaigns.len() {
            0 => Vec::new(),
            count => {
                let created = self.ports.ledger.create_all(campaigns).await;
                created.unwrap_or_else(|error| vec![Err(error); count])
            }
        };
        let mut entered = entered.into_iter();
        let opened: Vec<_> = begun
            .into_iter()
            .map(|begun| {
                let binding = match &begun {
                    Ok(Prepared::New(_)) => entered.next(),
                    _ => None,
                };
                self.open_prepared(begun, binding)
            })
            .collect();
        stream::iter(opened)
            .buffered(OPENED_AT_ONCE)
            .collect()
            .await
    }

    /// Opens a campaign, which was entered now if there is a binding.
    async fn open_prepared(
        &self,
        prepared: Result<Prepared, Problem>,
        binding: Option<Result<KeyBinding, LedgerError>>,
    ) -> Result<Created, Problem> {
        match prepared? {
            Prepared::Stored(campaign) => {
                let id = campaign.id;
                self.open(setup_of(*campaign).await?).await?;
                Ok(Created::before(id))
            }
            Prepared::New(new) => {
                let lost = || Problem::internal("the ledger does not say what it has entered");
                let binding = binding.ok_or_else(lost)??;
                self.finish(*new, binding).await
            }
        }
    }

    /// Checks what can be checked before anything is written, and draws the shares.
    ///
    /// Entering says what a key is bound to. Only where a repetition would not come so far, or where much is drawn for
    /// it, that is asked before.
    pub(crate) async fn prepare(
        &self,
        caller: &Caller,
        used: Option<&KeyUse>,
        draft: Draft,
    ) -> Result<Prepared, Problem> {
        let (ledger, now) = (&self.ports.ledger, self.ports.clock.now());
        let (audience, details) = (draft.audience.clone(), draft.details.clone());
        let waiting_room = draft.waiting_room;
        let mut campaign = self.campaign_of(draft, now);
        // A repetition may come after the window that the first attempt was in time for.
        let ask = campaign.as_ref().map_or(true, is_drawn_apart);
        if let Some(used) = used.filter(|_| ask)
            && let Some(bound) = ledger.bound_key(used).await?
        {
            let id = CampaignId::new(bound).map_err(internal)?;
            if let Some(record) = ledger.campaign(id).await? {
                return Ok(Prepared::Stored(Box::new(record.campaign)));
            }
            campaign = campaign.map(|it| Campaign { id, ..it });
        }
        let setup = setup_of(campaign?).await?;
        let (id, owner) = (setup.campaign.id, setup.campaign.owner.as_str());
        let detail = json!({ "owner": owner });
        let action = self.action(&caller.user, ActionKind::Create, id, &detail);
        Ok(Prepared::New(Box::new(NewCampaign {
            setup,
            details,
            audience,
            waiting_room,
            action,
        })))
    }

    fn campaign_of(&self, draft: Draft, now: Timestamp) -> Result<Campaign, Problem> {
        let id = match draft.id {
            Some(chosen) => {
                check_made_lately(chosen, now)?;
                chosen
            }
            None => CampaignId::new(self.fresh_id()).map_err(internal)?,
        };
        draft.campaign(id, (now, self.ports.engine_clock.now()), self.usual_ack())
    }

    /// Opens what was entered under a key, or what the key has stood for.
    async fn finish(&self, new: NewCampaign, binding: KeyBinding) -> Result<Created, Problem> {
        let id = CampaignId::new(binding.id).map_err(internal)?;
        let created = if binding.fresh {
            let record = new.record();
            self.remember(&record, &new)?;
            self.open(new.setup).await?;
            actions::log(&new.action);
            Created {
                id,
                fresh: Some(Box::new(record)),
            }
        } else {
            // It was created before: open what is stored.
            let stored = self.ports.ledger.campaign(id).await?;
            let lost = || Problem::internal("the ledger does not have what it has just entered");
            self.open(setup_of(stored.ok_or_else(lost)?.campaign).await?)
                .await?;
            Created::before(id)
        };
        self.unknown.forget(id);
        Ok(created)
    }

    /// What whoever claims next would have to read.
    fn remember(&self, record: &CampaignRecord, new: &NewCampaign) -> Result<(), Problem> {
        let (id, read_at) = (record.campaign.id, record.campaign.created_at);
        let audience = new.audience.as_ref();
        let audience = audience.map(|it| it.ready(id)).transpose()?;
        let meta = CampaignMeta::new(record, read_at, audience.map(Arc::new), new.waiting_room);
        self.campaigns.insert(id, Arc::new(meta));
        Ok(())
    }

    /// A campaign that was asked for, and its numbers. What was entered just now is not read again.
    pub(crate) async fn created(
        &self,
        created: Created,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), Problem> {
        match created.fresh {
            Some(record) => {
                let tally = self.tally_of(&record).await?;
                Ok((*record, tally))
            }
            None => self.record(created.id, kind).await,
        }
    }
}

fn internal(error: IdError) -> Problem {
    Problem::internal(error.to_string())
}

/// A request for a campaign that was checked.
pub(crate) enum Prepared {
    /// It is a repetition: the campaign is in the ledger.
    Stored(Box<Campaign>),
    /// It is to be entered.
    New(Box<NewCampaign>),
}

/// A campaign that was asked for, and is there.
pub(crate) struct Created {
    pub(crate) id: CampaignId,
    /// It was entered just now, and is known without a read.
    fresh: Option<Box<CampaignRecord>>,
}

impl Created {
    fn before(id: CampaignId) -> Self {
        Self { id, fresh: None }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }
}

/// A campaign that is to be entered.
pub(crate) struct NewCampaign {
    setup: Setup,
    details: Details,
    audience: Option<NewAudience>,
    waiting_room: bool,
    action: Action,
}

impl NewCampaign {
    fn record(&self) -> CampaignRecord {
        CampaignRecord::created(self.setup.campaign.clone(), self.details.clone())
    }

    /// What is entered, under its key if it has one.
    fn creation(&self, used: Option<KeyUse>) -> Creation {
        Creation {
            used,
            setup: self.setup.clone(),
            details: self.details.clone(),
            audience: self.audience.as_ref().map(|it| it.text.clone()),
            waiting_room: self.waiting_room,
            by: Some(self.action.clone()),
            opens: true,
        }
    }
}

/// The key of a creation: the one that was sent, or else the id that the creator chose, so that a repetition of either
/// is the same campaign.
pub(crate) fn creation_key(
    sent: Option<IdempotencyKey>,
    id: Option<Text<CampaignId>>,
) -> Option<IdempotencyKey> {
    sent.or_else(|| IdempotencyKey::new(&id?.0.to_string()).ok())
}

/// The start of a campaign that opens at once: the engine's time, or this node's where the engine is ahead by a step.
/// A node learns up to 250 ms late that the engine's clock was set back: until then the engine's time is in the future.
fn start_at_once(now: Timestamp, engine_now: Timestamp) -> Timestamp {
    let ahead_ms = engine_now.millis_since(now);
    match (0..=JUMP_MS_MAX).contains(&ahead_ms) {
        true => now,
        false => engine_now,
    }
}

/// An id says when its campaign was made: one that a creator chooses is about right.
fn check_made_lately(id: CampaignId, now: Timestamp) -> Result<(), Problem> {
    if (id.made_at().as_millis() - now.as_millis()).abs() <= CHOSEN_ID_WITHIN_MS {
        return Ok(());
    }
    let detail = "the time in an id, which is a UUID of version 7, is at most a day from now";
    Err(Problem::invalid_at("#/id", detail))
}

/// Whether its shares are drawn off the threads that serve others.
fn is_drawn_apart(campaign: &Campaign) -> bool {
    campaign.supply() > DRAWN_AT_ONCE
}

/// Draws the shares, many of them off the threads that serve others.
async fn setup_of(campaign: Campaign) -> Result<Setup, Problem> {
    if !is_drawn_apart(&campaign) {
        let shares = campaign.shares();
        return Ok(Setup { campaign, shares });
    }
    let drawn = tokio::task::spawn_blocking(move || {
        let shares = campaign.shares();
        Setup { campaign, shares }
    });
    let failed = |error| Problem::internal(format!("the shares could not be drawn: {error}"));
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
            "the engine's clock was set back, this node does not know it yet"
        );
        assert_eq!(start(-30_000), 970_000, "this node's clock is ahead");
        assert_eq!(start(300_000), 1_300_000, "this node's clock is behind");
    }
}
