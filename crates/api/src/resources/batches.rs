//! Creation of several campaigns in one request, common to red packets and sales.
//!
//! With [`BatchMode::Each`], each campaign is created or refused alone. With [`BatchMode::All`], one transaction of the
//! ledger creates all of them or none, and they open after its commit. If the process ends in between, a repetition
//! finds all of them under their keys and opens them.

use futures_util::{StreamExt as _, stream};
use qiang_core::{
    id::CampaignId,
    ports::{KeyBinding, KeyUse, LedgerError, WholeCreation},
};
use qiang_wire::{problem::ProblemKind, words::BatchMode};

use crate::{
    app::App,
    audience::AudienceRequest,
    auth::Caller,
    http::problem::ApiProblem,
    resources::create::{CreatedCampaign, PreparedCampaign},
};

/// Campaigns that are opened at the same time: a whole batch, so that an engine can commit them together.
const OPENED_AT_ONCE: usize = 100;
/// Number of campaigns that are read at the same time for the answer.
pub(crate) const READ_AT_ONCE: usize = 16;
/// Keys of refused campaigns that are looked for in vain, before no further one is looked for.
const MISSES_MAX: usize = 4;

/// Result of one campaign of a batch.
pub(crate) type BatchResult<T> = Result<T, ApiProblem>;

/// Names of the list in a request, and of the campaign in one of its items.
#[derive(Clone, Copy)]
pub(crate) struct BatchPointers(pub(crate) &'static str, pub(crate) &'static str);

impl BatchPointers {
    fn campaign(self, place: usize) -> String {
        let Self(list, campaign) = self;
        format!("#/{list}/{place}/{campaign}")
    }
}

impl App {
    /// With [`BatchMode::All`], counts a batch with all its campaigns and `shares` towards the caller's creation
    /// limits. Otherwise each draft counts itself. Returns whether they are counted. A batch that was created before
    /// passes the limit of campaigns, for example after a lost answer. `checked` has each campaign's key, and whether
    /// its fields are right.
    pub(crate) async fn count_batch(
        &self,
        caller: &Caller,
        (mode, pointers): (BatchMode, BatchPointers),
        checked: Vec<(KeyUse, BatchResult<()>)>,
        shares: u64,
    ) -> Result<bool, ApiProblem> {
        if mode != BatchMode::All {
            return Ok(false);
        }
        let (keys, mut checked): (Vec<_>, Vec<_>) = checked.into_iter().unzip();
        refuse_if_invalid(&mut checked, pointers)?;
        refuse_if_any(checked, pointers)?;
        let count = |many: u64| u32::try_from(many).unwrap_or(u32::MAX);
        let (campaigns, shares) = (count(keys.len() as u64), count(shares));
        let limits = &self.limits;
        match limits.check_creations(&caller.user, campaigns, shares) {
            Err(refused) if refused.is(ProblemKind::CreationsThrottled) => {
                for used in &keys {
                    if !self.is_bound(Some(used)).await? {
                        return Err(refused);
                    }
                }
                limits.check_creations(&caller.user, 0, shares)?;
            }
            counted => counted?,
        }
        Ok(true)
    }

    /// Creates the prepared campaigns under their keys and opens them. `audiences` are those of the request.
    ///
    /// # Errors
    /// The whole request is refused: with [`BatchMode::All`] if one campaign is, otherwise if all failed on the server.
    pub(crate) async fn create_batch(
        &self,
        prepared: Vec<BatchResult<(KeyUse, PreparedCampaign)>>,
        (mode, pointers): (BatchMode, BatchPointers),
        audiences: &[Option<&AudienceRequest>],
    ) -> Result<Vec<BatchResult<CreatedCampaign>>, ApiProblem> {
        match mode {
            BatchMode::All => {
                let prepared = refuse_if_any(prepared, pointers)?;
                self.check_repeated_batch(&prepared, pointers, audiences)
                    .await?;
                let created = self.create_whole(prepared, pointers).await?;
                Ok(created.into_iter().map(Ok).collect())
            }
            _ => refuse_if_all_failed(self.create_each(prepared).await),
        }
    }

    /// Creates the campaigns in one transaction of the ledger, and opens them. Earlier refusals are returned unchanged.
    async fn create_each(
        &self,
        prepared: Vec<BatchResult<(KeyUse, PreparedCampaign)>>,
    ) -> Vec<BatchResult<CreatedCampaign>> {
        let mut campaigns = Vec::new();
        let mut begun = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            begun.push(match prepared {
                Ok((used, PreparedCampaign::New(new))) => {
                    campaigns.push(new.creation(Some(used)));
                    Ok(PreparedCampaign::New(new))
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
        self.open_batch(begun, entered).await
    }

    /// Creates all campaigns in one transaction of the ledger or none, and opens them.
    async fn create_whole(
        &self,
        prepared: Vec<(KeyUse, PreparedCampaign)>,
        pointers: BatchPointers,
    ) -> Result<Vec<CreatedCampaign>, ApiProblem> {
        let (mut campaigns, mut places) = (Vec::new(), Vec::new());
        let mut begun = Vec::with_capacity(prepared.len());
        for (place, (used, prepared)) in prepared.into_iter().enumerate() {
            if let PreparedCampaign::New(new) = &prepared {
                campaigns.push(new.creation(Some(used)));
                places.push(place);
            }
            begun.push(Ok(prepared));
        }
        let ids: Vec<String> = campaigns
            .iter()
            .map(|it| it.setup.campaign.id.to_string())
            .collect();
        let bindings = match campaigns.is_empty() {
            true => Vec::new(),
            false => match self.ports.ledger.create_whole(campaigns).await? {
                WholeCreation::Created(bindings) => bindings,
                WholeCreation::Refused(refused) => {
                    let at = |n: usize| places.get(n).copied().unwrap_or_default();
                    let refused = refused.into_iter().map(|(n, error)| match error {
                        // No campaign with this id was created.
                        LedgerError::ReferenceTaken { by } if ids.contains(&by) => {
                            let detail = "another campaign of this batch has the unique reference";
                            (at(n), ApiProblem::new(ProblemKind::ReferenceTaken, detail))
                        }
                        error => (at(n), ApiProblem::from(error)),
                    });
                    return Err(refusal(refused.collect(), pointers));
                }
            },
        };
        let entered = bindings.into_iter().map(Ok).collect();
        // All exist now. If an opening fails, a repetition opens the rest.
        self.open_batch(begun, entered).await.into_iter().collect()
    }

    /// Opens campaigns. Each new one has the next result of the ledger.
    async fn open_batch(
        &self,
        begun: Vec<BatchResult<PreparedCampaign>>,
        entered: Vec<Result<KeyBinding, LedgerError>>,
    ) -> Vec<BatchResult<CreatedCampaign>> {
        let mut entered = entered.into_iter();
        let opened: Vec<_> = begun
            .into_iter()
            .map(|begun| {
                let binding = match &begun {
                    Ok(PreparedCampaign::New(_)) => entered.next(),
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

    /// Opens a campaign. With a binding, it was recorded just now.
    async fn open_prepared(
        &self,
        prepared: BatchResult<PreparedCampaign>,
        binding: Option<Result<KeyBinding, LedgerError>>,
    ) -> BatchResult<CreatedCampaign> {
        match prepared? {
            PreparedCampaign::Stored(campaign) => self.reopen(*campaign).await,
            PreparedCampaign::New(new) => {
                let lost = || {
                    ApiProblem::internal("the ledger returned no result for a recorded campaign")
                };
                let binding = binding.ok_or_else(lost)??;
                self.finish(*new, binding).await
            }
        }
    }

    /// Refuses the repetition of a campaign with another passphrase, before any other campaign is created.
    async fn check_repeated_batch(
        &self,
        prepared: &[(KeyUse, PreparedCampaign)],
        pointers: BatchPointers,
        audiences: &[Option<&AudienceRequest>],
    ) -> Result<(), ApiProblem> {
        let mut refused = Vec::new();
        for (place, ((used, _), audience)) in prepared.iter().zip(audiences).enumerate() {
            if audience.is_some()
                && let Err(problem) = self.check_repeated_key(used, *audience).await
            {
                refused.push((place, problem));
            }
        }
        match refused.is_empty() {
            true => Ok(()),
            false => Err(refusal(refused, pointers)),
        }
    }

    async fn check_repeated_key(
        &self,
        used: &KeyUse,
        audience: Option<&AudienceRequest>,
    ) -> Result<(), ApiProblem> {
        let Some(bound) = self.ports.ledger.bound_key(used).await? else {
            return Ok(());
        };
        let id = CampaignId::new(bound).map_err(|error| ApiProblem::internal(error.to_string()))?;
        self.check_repeated(id, audience).await
    }
}

/// Results without the causes of the service's failures, which are logged.
pub(crate) fn logged<T>(results: Vec<(T, Option<String>)>) -> Vec<T> {
    let failed = results.iter().filter_map(|(_, cause)| cause.as_ref());
    if let Some(cause) = failed.clone().next() {
        crate::http::request_log::log_of_batch(failed.count(), cause);
    }
    results.into_iter().map(|(result, _)| result).collect()
}

/// Refuses the whole request if a campaign has invalid fields, and names all of them.
pub(crate) fn refuse_if_invalid<T>(
    checked: &mut [BatchResult<T>],
    pointers: BatchPointers,
) -> Result<(), ApiProblem> {
    let is_invalid =
        |it: &BatchResult<T>| matches!(it, Err(problem) if problem.is(ProblemKind::Invalid));
    let invalid = checked
        .iter_mut()
        .enumerate()
        .filter(|(_, it)| is_invalid(it));
    let faults =
        invalid.filter_map(|(place, it)| Some((pointers.campaign(place), it.as_mut().err()?)));
    ApiProblem::from_parts(faults).map_or(Ok(()), Err)
}

/// Campaigns of a batch that the limit of creations refuses although an earlier request created them, as after a lost
/// answer. Their keys are looked for until some are not found, so a batch of new campaigns costs few looks.
pub(crate) struct Repetitions<'a> {
    pub(crate) app: &'a App,
    /// The whole batch was counted before.
    pub(crate) are_counted: bool,
    misses: usize,
}

impl<'a> Repetitions<'a> {
    pub(crate) fn new(app: &'a App, are_counted: bool) -> Self {
        Self {
            app,
            are_counted,
            misses: 0,
        }
    }

    /// Whether a campaign that the limit refused was created before, under this key.
    pub(crate) async fn is_one(
        &mut self,
        is_throttled: bool,
        used: &KeyUse,
    ) -> Result<bool, ApiProblem> {
        if !is_throttled || self.misses >= MISSES_MAX {
            return Ok(false);
        }
        let is_bound = self.app.is_bound(Some(used)).await?;
        self.misses += usize::from(!is_bound);
        Ok(is_bound)
    }
}

/// Whether the limit of creations refused a campaign.
pub(crate) fn is_throttled<T>(draft: &Result<T, ApiProblem>) -> bool {
    matches!(draft, Err(problem) if problem.is(ProblemKind::CreationsThrottled))
}

/// Refuses the request if all campaigns failed on the server, so that its client repeats it.
fn refuse_if_all_failed<T>(
    mut created: Vec<BatchResult<T>>,
) -> Result<Vec<BatchResult<T>>, ApiProblem> {
    let failed =
        |it: &BatchResult<T>| matches!(it, Err(problem) if problem.kind_status().is_server_error());
    match created.iter().all(failed) {
        true => Err(created
            .swap_remove(0)
            .map_or_else(|problem| problem, |_| ProblemKind::Internal.into())),
        false => Ok(created),
    }
}

/// Refuses the request if any campaign is refused.
fn refuse_if_any<T>(
    results: Vec<BatchResult<T>>,
    pointers: BatchPointers,
) -> Result<Vec<T>, ApiProblem> {
    let (mut accepted, mut refused) = (Vec::with_capacity(results.len()), Vec::new());
    for (place, result) in results.into_iter().enumerate() {
        match result {
            Ok(it) => accepted.push(it),
            Err(problem) => refused.push((place, problem)),
        }
    }
    match refused.is_empty() {
        true => Ok(accepted),
        false => Err(refusal(refused, pointers)),
    }
}

/// Problem of a batch that is refused for these campaigns, with the places of all: the first final refusal, otherwise
/// the first limit, otherwise the first failure of the server.
fn refusal(refused: Vec<(usize, ApiProblem)>, pointers: BatchPointers) -> ApiProblem {
    let refused = refused
        .into_iter()
        .map(|(place, problem)| (pointers.campaign(place), problem));
    ApiProblem::first_of(refused).unwrap_or_else(|| ProblemKind::Internal.into())
}
