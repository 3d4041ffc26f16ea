//! Changes that another change may undo: stock, terms and details of a sale, pause and resumption.
//!
//! The step that carries out a change also records the id of its key: the engine in its log, the ledger in the
//! transaction of a description. So a retry under a key without an answer finds the result of its first try:
//!
//! 1. If the campaign has the requested values, that is the answer.
//! 2. If the change was carried out, the answer is the campaign as it is now. Later changes stay.
//! 3. If it was not, and an action recorded since may have changed the same, the retry is refused as superseded.
//! 4. Otherwise it is carried out now, which equals the first try. The retry first binds the key to a new id. So one of
//!    several retries acts, and later ones wait for its late calls.
//!
//! A change under `If-Match` compares in the step that carries it out. If that is more than one step, it has the
//! campaign's turn among all nodes, see [`crate::resources::change_turn`], and then no other change of the settings
//! runs beside it in this process. It waits for the turn first, so other changes of this process never wait for that
//! of another node. A change in steps continues when its client disconnects, so no turn is left behind.
//!
//! A repair of Redis may have lost the record. If a later action changed the same since, the key stays pending.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::response::Response;
use qiang_core::{
    book::Command,
    id::CampaignId,
    ports::{Action, KeyState, KeyUse, first_id_at},
    time::Timestamp,
};
use qiang_wire::problem::ProblemKind;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{timeout, timeout_at};
use uuid::Uuid;

use crate::{
    app::{App, id_at},
    http::{entity_tag::StrongTag, problem::ApiProblem, request_id::RequestId},
    idempotency::running_changes::{RunningChange, SettingsUse},
    resources::stored_answer::{answer, kept_body, replay},
};

/// Maximum number of later actions on one campaign that a retry reads. If there are more, one of them is assumed to
/// conflict.
const LATER_MAX: u32 = 1_000;
/// Quarantined entries per read.
const QUARANTINE_PAGE: u32 = 1_000;
/// Longest time from the start of a change until it is submitted to the engine. A slower change is refused, because a
/// retry may have acted since.
pub(crate) const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// Attempts to record an action that the ledger refused, and the pause between them.
const RECORD_TRIES: (u32, Duration) = (600, Duration::from_secs(1));

/// A change of a campaign that a later one may undo. Making it twice in a row has the same effect as once.
pub(crate) trait Change: Send + Sync + 'static {
    type Body: Serialize + DeserializeOwned + Send + 'static;

    fn campaign(&self) -> CampaignId;

    /// How it shares the campaign's settings with other changes. One that needs them alone takes the campaign's turn
    /// among all nodes.
    fn settings_use(&self) -> SettingsUse {
        SettingsUse::Free
    }

    /// Entity tag of an answer; `None` if it is no representation with one.
    fn tag(_: &Self::Body) -> Option<StrongTag> {
        None
    }

    /// Subject of the actions that may undo it.
    fn subject(&self) -> String {
        self.campaign().to_string()
    }

    /// Refuses the change above the limit of its object: each one stores rows.
    fn check_limit(&self, app: &App) -> Result<(), ApiProblem> {
        app.limits.check_change(self.campaign())
    }

    /// Answer if the campaign already has the requested values.
    fn already(&self) -> impl Future<Output = Result<Option<Self::Body>, ApiProblem>> + Send;

    /// Whether this action may have changed the same values to others.
    fn is_undone_by(&self, action: &Action) -> bool;

    /// The campaign as it is now.
    fn present(&self) -> impl Future<Output = Result<Self::Body, ApiProblem>> + Send;

    /// Carries out the change.
    fn make(
        &self,
        begun: &BegunChange,
    ) -> impl Future<Output = Result<Self::Body, ApiProblem>> + Send;
}

/// A change that has begun.
pub(crate) struct BegunChange {
    /// Id of its action.
    pub(crate) id: Uuid,
    /// Whether the action is recorded.
    pub(crate) is_recorded: bool,
    /// Whether the step that carries it out records the id.
    is_logged: bool,
    /// The last moment to submit it to the engine; `None` if nothing depends on it.
    until: Option<Instant>,
}

impl BegunChange {
    /// A change without a key, or one that nothing undoes.
    pub(crate) fn free(id: Uuid) -> Self {
        Self {
            id,
            is_recorded: false,
            is_logged: false,
            until: None,
        }
    }

    /// A change under a key, or one under a condition whose turn ends. A repeated call of the latter must find that it
    /// was carried out, because its condition no longer holds.
    fn logged(id: Uuid) -> Self {
        Self {
            is_logged: true,
            until: Some(Instant::now() + BEGINS_WITHIN),
            ..Self::free(id)
        }
    }

    /// The same change with its action recorded.
    pub(crate) fn recorded(&self) -> Self {
        Self {
            is_recorded: true,
            ..*self
        }
    }

    /// Whether it is late: a retry may have acted since.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Id that the step which carries out the change records; `None` if it records none.
    pub(crate) fn made(&self) -> Option<Uuid> {
        self.is_logged.then_some(self.id)
    }

    /// The command with the id that its step records, if there is one.
    pub(crate) fn keyed_command(&self, command: Command) -> Command {
        match self.made() {
            Some(id) => command.keyed(id),
            None => command,
        }
    }

    /// Waits for something that the change needs, until it is late. Nothing was changed then.
    async fn in_time<T>(&self, needed: impl Future<Output = T>) -> Result<T, ApiProblem> {
        match self.until {
            Some(until) => timeout_at(until.into(), needed).await.map_err(|_| {
                let detail =
                    "another change of the campaign is running; nothing was changed, retry";
                ApiProblem::new(ProblemKind::Overloaded, detail)
            }),
            None => Ok(needed.await),
        }
    }

    /// Refuses a change that is late. Nothing was changed then.
    pub(crate) fn check_in_time(&self) -> Result<(), ApiProblem> {
        match self.is_late() {
            true => Err(ApiProblem::unavailable(
                "the ledger took too long before the change",
            )),
            false => Ok(()),
        }
    }
}

impl App {
    /// Carries out a change, under its key if it has one. The number of changes per campaign is limited; `is_urgent`
    /// ones are refused only if they change nothing.
    pub(crate) async fn change<C: Change>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        is_urgent: bool,
        change: C,
    ) -> Result<Response, ApiProblem> {
        let app = Arc::clone(self);
        if let Some(used) = used {
            let run = move |used| async move { app.change_under(used, is_urgent, change).await };
            return self.detached.run(used, run).await;
        }
        match change.settings_use() {
            SettingsUse::Free => app.change_without_key(is_urgent, change).await,
            SettingsUse::Shared | SettingsUse::Alone => {
                let run = async move { app.change_without_key(is_urgent, change).await };
                self.detached.run_unkeyed(run).await
            }
        }
    }

    async fn change_without_key<C: Change>(
        &self,
        is_urgent: bool,
        change: C,
    ) -> Result<Response, ApiProblem> {
        let mut under_way = self.begin_change(&change).await;
        if let Ok(Some(so)) = self.so(&change).await {
            return Ok(tagged_answer::<C>(so));
        }
        if !is_urgent {
            change.check_limit(self)?;
        }
        let begun = match change.settings_use() {
            SettingsUse::Alone => BegunChange::logged(self.fresh_id()),
            SettingsUse::Free | SettingsUse::Shared => BegunChange::free(self.fresh_id()),
        };
        self.carry_out(&change, &begun, Some(&mut under_way))
            .await
            .map(tagged_answer::<C>)
    }

    /// Enters the campaign's lane of changes. One that needs the settings alone gets them in its turn.
    async fn begin_change<C: Change>(&self, change: &C) -> RunningChange {
        let (campaign, now) = (change.campaign(), self.ports.clock.now());
        let mut begun = self.changes.begin(campaign, now).await;
        if change.settings_use() != SettingsUse::Alone {
            begun.use_settings(change.settings_use()).await;
        }
        begun
    }

    /// Carries out a change, in its turn if it needs one. The turn of a change with an unknown result is not ended,
    /// because the engine may still carry it out. `under_way` is the change's place in its lane; `None` if the change
    /// has the lane alone.
    async fn carry_out<C: Change>(
        &self,
        change: &C,
        begun: &BegunChange,
        under_way: Option<&mut RunningChange>,
    ) -> Result<C::Body, ApiProblem> {
        if change.settings_use() != SettingsUse::Alone {
            return change.make(begun).await;
        }
        let _queue = match &under_way {
            Some(under_way) => Some(begun.in_time(under_way.enter_turn_queue()).await?),
            None => None,
        };
        // A retry that decides has the lane alone, so it waits for no other node.
        let waits = under_way.is_some();
        let turn = self.take_turn(change.campaign(), waits).await?;
        let made = make_alone(change, begun, under_way).await;
        let is_unknown = |problem: &ApiProblem| problem.is(ProblemKind::Uncertain);
        if !made.as_ref().is_err_and(is_unknown) {
            self.end_turn(&turn).await;
        }
        made
    }

    async fn change_under<C: Change>(
        &self,
        used: KeyUse,
        is_urgent: bool,
        change: C,
    ) -> Result<Response, ApiProblem> {
        let ledger = &self.ports.ledger;
        let mut under_way = self.begin_change(&change).await;
        let mut so = None;
        if ledger.bound_key(&used).await?.is_none() {
            so = self.so(&change).await.ok().flatten();
            // Each key is a row, even if nothing changes.
            if so.is_some() || !is_urgent {
                change.check_limit(self)?;
            }
        }
        // Older than the action of any change that the engine may carry out after this one.
        let id = id_at(under_way.oldest());
        let begun = BegunChange::logged(id);
        match ledger.begin_key(&used, id).await? {
            KeyState::Fresh => {
                let decided = match so {
                    Some(body) => Ok(body),
                    None => self.carry_out(&change, &begun, Some(&mut under_way)).await,
                };
                self.keep_tagged::<C>(&used, id, decided).await
            }
            KeyState::Answered(kept) => {
                let tag = kept_body::<C::Body>(&kept).as_ref().and_then(C::tag);
                replay(&kept).map(|response| with_tag(response, tag.as_ref()))
            }
            KeyState::Pending(bound) => {
                drop(under_way);
                RequestId::mark_replay();
                self.resolve(&used, bound, change).await
            }
        }
    }

    /// Decides a change whose key was bound before, to id `bound`, and has no answer.
    async fn resolve<C: Change>(
        &self,
        used: &KeyUse,
        bound: Uuid,
        change: C,
    ) -> Result<Response, ApiProblem> {
        let alone = self.changes.alone(change.campaign());
        let _alone = alone.ok_or_else(not_yet)?;
        // Older than the action of any change that begins after the look.
        let id = self.fresh_id();
        // With a time limit, because other changes wait for it.
        let looked = timeout(BEGINS_WITHIN, self.look(bound, &change)).await;
        let decided = match looked.map_err(|_| not_yet())?? {
            KeyedEffect::So(so) | KeyedEffect::Made(so) => Ok(so),
            KeyedEffect::Superseded => Err(ProblemKind::Superseded.into()),
            KeyedEffect::NotMade { is_recorded } => {
                let ledger = &self.ports.ledger;
                // Another node may have looked as well, and a call of this retry may be late.
                if !ledger.rebind_key(used, bound, id).await? {
                    return Err(not_yet());
                }
                if is_recorded && let Err(error) = ledger.strike(bound).await {
                    tracing::warn!(%error, "the list of actions has an action twice, because a retry repeats it");
                }
                let begun = BegunChange::logged(id);
                self.carry_out(&change, &begun, None).await
            }
        };
        match decided {
            // The key stays bound, and the next retry checks again.
            Err(problem) if problem.has_changed_nothing() => Err(problem),
            decided => self.keep_tagged::<C>(used, id, decided).await,
        }
    }

    /// [`keep`](Self::keep), with the entity tag of the answer.
    async fn keep_tagged<C: Change>(
        &self,
        used: &KeyUse,
        id: Uuid,
        decided: Result<C::Body, ApiProblem>,
    ) -> Result<Response, ApiProblem> {
        let tag = decided.as_ref().ok().and_then(C::tag);
        let kept = self.keep(used, id, decided).await;
        kept.map(|response| with_tag(response, tag.as_ref()))
    }

    /// Checks whether the change whose key was bound to this id was made.
    async fn look<C: Change>(
        &self,
        bound: Uuid,
        change: &C,
    ) -> Result<KeyedEffect<C::Body>, ApiProblem> {
        if let Some(so) = self.so(change).await? {
            return Ok(KeyedEffect::So(so));
        }
        let begun_at = timestamp_of(bound);
        let late_for_ms = self.ports.engine.late_for_ms();
        if self.ports.clock.now().millis_since(begun_at) < late_for_ms {
            return Err(not_yet());
        }
        // From here on, nothing of the first try begins. Its effects are in the engine's log.
        if !self.settled().await? {
            return Err(not_yet());
        }
        let ledger = &self.ports.ledger;
        if ledger.is_change_made(bound).await? {
            return change.present().await.map(KeyedEffect::Made);
        }
        // The engine may have carried out, later, an action that another node recorded just before.
        let since = begun_at.plus_millis(-late_for_ms);
        let subject = change.subject();
        let later = ledger
            .actions(&subject, Some(first_id_at(since)), LATER_MAX)
            .await?;
        let is_in_the_way = |action: &Action| action.id != bound && change.is_undone_by(action);
        if later.len() >= LATER_MAX as usize || later.iter().any(is_in_the_way) {
            return match self.may_lack_entries(change.campaign(), since).await? {
                true => Err(ProblemKind::KeyPending.into()),
                false => Ok(KeyedEffect::Superseded),
            };
        }
        let is_recorded = later.iter().any(|action| action.id == bound);
        Ok(KeyedEffect::NotMade { is_recorded })
    }

    /// Whether the ledger may lack entries of a campaign although the log is settled: a repair may have lost some
    /// since, or some are in quarantine.
    async fn may_lack_entries(
        &self,
        campaign: CampaignId,
        since: Timestamp,
    ) -> Result<bool, ApiProblem> {
        let ports = &self.ports;
        for partition in ports.log.partitions() {
            let repairs = ports.ledger.repairs(partition, 1).await?;
            if repairs.iter().any(|repair| repair.at >= since) {
                return Ok(true);
            }
        }
        let mut after = None;
        loop {
            let page = ports
                .ledger
                .list_quarantined(after, QUARANTINE_PAGE)
                .await?;
            if page.iter().any(|it| it.entry.campaign == campaign) {
                return Ok(true);
            }
            after = page.last().map(|it| (it.partition, it.entry.seq));
            if page.len() < QUARANTINE_PAGE as usize {
                return Ok(false);
            }
        }
    }

    /// Answer if the campaign already has the requested values, once they are in the ledger: that satisfies each
    /// acknowledgement level.
    async fn so<C: Change>(&self, change: &C) -> Result<Option<C::Body>, ApiProblem> {
        let Some(so) = change.already().await? else {
            return Ok(None);
        };
        match self.settled().await? {
            true => Ok(Some(so)),
            false => {
                let detail = "the change was made, but the ledger does not have it yet";
                Err(ApiProblem::new(ProblemKind::Uncertain, detail))
            }
        }
    }

    /// Records the action of a change that has begun, before the engine is called.
    pub(crate) async fn record_begun(
        &self,
        begun: &BegunChange,
        action: &Action,
    ) -> Result<(), ApiProblem> {
        let ledger = &self.ports.ledger;
        if !begun.is_recorded {
            ledger.record(action).await?;
        }
        let in_time = begun.check_in_time();
        // If it was recorded, an earlier try recorded it and may have been carried out.
        if in_time.is_err()
            && !begun.is_recorded
            && let Err(error) = ledger.strike(action.id).await
        {
            tracing::warn!(%error, "cannot remove the record of an action that was not made; the list still has it");
        }
        in_time
    }

    /// Records an action of a campaign as soon as the ledger accepts it. Until then no retry acts on the campaign,
    /// unless the action is itself that of a retry.
    pub(crate) fn record_later(self: &Arc<Self>, campaign: CampaignId, action: Action) {
        let app = Arc::clone(self);
        let Some(room) = self.changes.late_record() else {
            tracing::error!(%campaign, "too many actions wait for the ledger; this one is not recorded");
            return;
        };
        let under_way = self.changes.try_begin(campaign, action.at);
        tokio::spawn(async move {
            let _room = room;
            let _under_way = under_way;
            for _ in 0..RECORD_TRIES.0 {
                tokio::time::sleep(RECORD_TRIES.1).await;
                let before = Uuid::from_u128(action.id.as_u128().saturating_sub(1));
                let there = app.ports.ledger.actions(&action.subject, Some(before), 1);
                let is_there = match there.await {
                    Ok(there) => there.iter().any(|it| it.id == action.id),
                    Err(_) => continue,
                };
                if is_there || app.ports.ledger.record(&action).await.is_ok() {
                    return;
                }
            }
            tracing::error!(%campaign, "the ledger did not accept an action; it is not recorded");
        });
    }
}

/// Carries out a change that has the campaign's turn, without another change of the settings beside it.
async fn make_alone<C: Change>(
    change: &C,
    begun: &BegunChange,
    under_way: Option<&mut RunningChange>,
) -> Result<C::Body, ApiProblem> {
    if let Some(under_way) = under_way {
        let alone = under_way.use_settings(SettingsUse::Alone);
        begun.in_time(alone).await?;
    }
    change.make(begun).await
}

/// Answer to a change, with the entity tag of the object after it.
fn tagged_answer<C: Change>(body: C::Body) -> Response {
    let tag = C::tag(&body);
    with_tag(answer(body), tag.as_ref())
}

fn with_tag(mut response: Response, tag: Option<&StrongTag>) -> Response {
    if let Some(tag) = tag {
        tag.add_to(&mut response);
    }
    response
}

/// Result of checking a change whose key has no answer.
enum KeyedEffect<B> {
    /// The campaign has the requested values.
    So(B),
    /// It was made, and the campaign is so now.
    Made(B),
    /// It was not made, and a later change may have set the same values.
    Superseded,
    /// It was not made, and no later change conflicts. Its action may be recorded.
    NotMade { is_recorded: bool },
}

/// Answer to a retry that comes too early to decide.
fn not_yet() -> ApiProblem {
    let detail = "an earlier request with this key may still be carried out";
    ApiProblem::new(ProblemKind::Uncertain, detail)
}

/// Time at which a key was bound, from its id; the earliest time if the id has none.
pub(crate) fn timestamp_of(id: Uuid) -> Timestamp {
    let millis = id.get_timestamp().map_or(0, |at| {
        let (seconds, nanos) = at.to_unix();
        seconds
            .saturating_mul(1_000)
            .saturating_add(u64::from(nanos / 1_000_000))
    });
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_time() {
        let at = Timestamp::from_millis(1_795_262_400_123);
        let id = id_at(at);
        assert_eq!(timestamp_of(id), at);
        assert!(first_id_at(at) < id);
        assert!(first_id_at(at.plus_millis(1)) > id);
    }
}
