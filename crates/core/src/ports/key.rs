//! Idempotency keys: their bindings, answers and retention.

use async_trait::async_trait;
use uuid::Uuid;

#[cfg(doc)]
use super::{AccountStore, CampaignStore, PayoutStore};
use super::{Action, LedgerError, Payout, PayoutReceipt};
use crate::{
    book::Setup,
    campaign::Details,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    metadata::Metadata,
    money::Money,
    time::Timestamp,
};

/// An idempotency key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Identifies the caller and the route. [`KeyUse::PAYMENT`] is the scope of payment references, which are never
    /// purged.
    pub scope: String,
    /// The key.
    pub key: IdempotencyKey,
    /// Fingerprint of the request body.
    pub fingerprint: [u8; 32],
}

impl KeyUse {
    /// The scope of payment references. Scopes of requests begin with a user and a blank.
    pub const PAYMENT: &str = "payment";

    /// A key for a request.
    pub fn new(scope: impl Into<String>, key: IdempotencyKey, fingerprint: [u8; 32]) -> Self {
        Self {
            scope: scope.into(),
            key,
            fingerprint,
        }
    }

    /// Id that a stored key with these columns (fingerprint and id) is bound to.
    ///
    /// # Errors
    /// [`LedgerError::KeyReused`] if it was used for another request.
    pub fn bound_to(&self, fingerprint: &[u8], id: &str) -> Result<Uuid, LedgerError> {
        if fingerprint != self.fingerprint {
            return Err(LedgerError::KeyReused);
        }
        Uuid::parse_str(id).map_err(|_| LedgerError::damaged("an idempotency key's id is bad"))
    }
}

/// Permanent meaning of an idempotency key: the id of the request's effect, also whenever the request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBinding {
    /// The id bound to the key.
    pub id: Uuid,
    /// Whether this call bound it.
    pub fresh: bool,
}

/// State of the key of a command that an engine decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// This call bound the key: the command has not been carried out.
    Fresh,
    /// The key was bound before, to this id, and has no answer: the command may have been carried out.
    Pending(Uuid),
    /// The key was bound before and has this answer.
    Answered(String),
}

/// A campaign to create.
#[derive(Debug, Clone)]
pub struct Creation {
    /// Idempotency key; `None` if the creation is not repeated.
    pub used: Option<KeyUse>,
    /// The campaign and its shares.
    pub setup: Setup,
    /// Details that users see.
    pub details: Details,
    /// The shop's own data about the campaign.
    pub metadata: Metadata,
    /// The stored audience; `None` for all users.
    pub audience: Option<String>,
    /// Whether claims wait in a queue.
    pub waiting_room: bool,
    /// Action to record.
    pub by: Option<Action>,
    /// Whether the same transaction opens the campaign, if the ledger is the engine's own.
    /// [`Engine::has_opened`](super::Engine::has_opened) then returns true.
    pub opens: bool,
}

/// Result of the creation of several campaigns together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WholeCreation {
    /// All of them exist: one binding per campaign, in their order.
    Created(Vec<KeyBinding>),
    /// None of them was created, because these were refused: their places and the reasons.
    Refused(Vec<(usize, LedgerError)>),
}

impl WholeCreation {
    /// Result of a trial of all campaigns, with one result per campaign.
    #[must_use]
    pub fn from_results(results: Vec<Result<KeyBinding, LedgerError>>) -> Self {
        let (mut bindings, mut refused) = (Vec::with_capacity(results.len()), Vec::new());
        for (place, result) in results.into_iter().enumerate() {
            match result {
                Ok(binding) => bindings.push(binding),
                Err(error) => refused.push((place, error)),
            }
        }
        match refused.is_empty() {
            true => Self::Created(bindings),
            false => Self::Refused(refused),
        }
    }
}

/// Store of idempotency keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Binds an idempotency key to `id`, or returns what it was bound to before.
    async fn bind_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyBinding, LedgerError>;

    /// Id that a key is bound to, if it is bound.
    async fn bound_key(&self, used: &KeyUse) -> Result<Option<Uuid>, LedgerError>;

    /// Binds the key of a command to `id`, or returns its state if it was bound before.
    async fn begin_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyState, LedgerError>;

    /// Stores the answer to a command with its key. The first answer stays. If the key is not bound, it is bound to
    /// `id`.
    async fn answer_key(&self, used: &KeyUse, id: Uuid, answer: &str) -> Result<(), LedgerError>;

    /// Binds a key without an answer to `to` instead of `from`. False if it is not bound to `from`, or has an answer.
    /// So one of several retries acts.
    async fn rebind_key(&self, used: &KeyUse, from: Uuid, to: Uuid) -> Result<bool, LedgerError>;

    /// Unbinds a key from `id` if its command was certainly not carried out. A key with an answer stays.
    async fn release_key(&self, used: &KeyUse, id: Uuid) -> Result<(), LedgerError>;

    /// [`AccountStore::deposit_by`] under a key, if there is one, that the same transaction binds to its id: a refused
    /// deposit uses no key. If the key was bound before, it returns that deposit. The reference of the payment service
    /// is stored permanently and identifies one deposit. Repeated with any key or none, the call returns that deposit
    /// and changes nothing.
    ///
    /// # Errors
    /// [`LedgerError::ReferenceUsed`] if the reference names a deposit of another user or amount.
    async fn deposit_named(
        &self,
        used: Option<&KeyUse>,
        id: Uuid,
        to: (&UserId, Money),
        reference: &PaymentRef,
        by: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError>;

    /// [`CampaignStore::create_by`] under a key that the same transaction binds to its id: a refused campaign uses no
    /// key. If the key was bound before, it returns that campaign, even if this one has another id.
    ///
    /// # Errors
    /// [`LedgerError::IdUsed`] if another campaign has the id, [`LedgerError::ReferenceTaken`] if another campaign of
    /// its owner has its unique reference.
    async fn create_under(&self, campaign: Creation) -> Result<KeyBinding, LedgerError> {
        let created = self.create_all(vec![campaign]).await?.pop();
        let lost = || LedgerError::damaged("the ledger gives no result for a campaign");
        created.unwrap_or_else(|| Err(lost()))
    }

    /// [`KeyStore::create_under`] for several campaigns, in their order and in one transaction. A refused campaign is
    /// undone alone, and the others become durable together. Returns one result per campaign.
    ///
    /// # Errors
    /// If the transaction failed. Then no campaign was created, unless the error is [`LedgerError::Uncertain`].
    async fn create_all(
        &self,
        campaigns: Vec<Creation>,
    ) -> Result<Vec<Result<KeyBinding, LedgerError>>, LedgerError>;

    /// [`KeyStore::create_under`] for several campaigns, in their order and in one transaction that creates all of them
    /// or none. A campaign whose key was bound before counts as created.
    ///
    /// # Errors
    /// If the transaction failed. Then no campaign was created, unless the error is [`LedgerError::Uncertain`].
    async fn create_whole(&self, campaigns: Vec<Creation>) -> Result<WholeCreation, LedgerError>;

    /// [`PayoutStore::pay_out_by`] under a key that the same transaction binds to `id`: a refused payout uses no key.
    async fn pay_out_under(
        &self,
        used: &KeyUse,
        id: Uuid,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError>;

    /// Whether the change whose key was bound to `id` was carried out, as far as entries are settled.
    async fn is_change_made(&self, id: Uuid) -> Result<bool, LedgerError>;

    /// Deletes up to `limit` keys that were bound before an instant, except payment references. Once all of these are
    /// deleted, it deletes what is known of their changes. Returns the number of keys.
    async fn purge_keys(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError>;
}

/// An id before all version 7 ids that are made from this time on.
#[must_use]
pub fn first_id_at(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

/// Id of the deposit with these columns (id, amount, owner and currency), if its user and amount are the same.
///
/// # Errors
/// [`LedgerError::ReferenceUsed`] if they differ, [`LedgerError::Damaged`] if the id is invalid.
pub fn same_deposit(
    (user, amount): (&UserId, Money),
    (id, minor, owner, currency): (String, i64, String, String),
) -> Result<Uuid, LedgerError> {
    if (owner.as_str(), minor, currency.as_str())
        != (user.as_str(), amount.minor, amount.currency.code())
    {
        return Err(LedgerError::ReferenceUsed);
    }
    Uuid::parse_str(&id).map_err(|_| LedgerError::damaged("a deposit's id is bad"))
}

/// A campaign with the id that its key is bound to.
///
/// # Errors
/// [`LedgerError::Damaged`] if that is not the id of a campaign.
pub fn setup_under(setup: &Setup, binding: KeyBinding) -> Result<Setup, LedgerError> {
    let bad = |_| LedgerError::damaged("a campaign's key is bound to another kind of id");
    let mut setup = setup.clone();
    setup.campaign.id = CampaignId::new(binding.id).map_err(bad)?;
    Ok(setup)
}
