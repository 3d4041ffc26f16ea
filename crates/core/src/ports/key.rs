//! Idempotency keys: what they stand for, and for how long.

use async_trait::async_trait;
use uuid::Uuid;

#[cfg(doc)]
use super::{AccountStore, CampaignStore, PayoutStore};
use super::{Action, LedgerError, PaidOut, Payout};
use crate::{
    book::Setup,
    campaign::Details,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    money::Money,
    time::Timestamp,
};

/// An idempotency key as a request uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Names the caller and the route. [`KeyUse::PAYMENT`] stands for references of payments, which are never purged.
    pub scope: String,
    /// The key.
    pub key: IdempotencyKey,
    /// Stands for the body.
    pub fingerprint: [u8; 32],
}

impl KeyUse {
    /// The scope of references of payments. Those of requests begin with a user and a blank.
    pub const PAYMENT: &str = "payment";

    /// A key for a request.
    pub fn new(scope: impl Into<String>, key: IdempotencyKey, fingerprint: [u8; 32]) -> Self {
        Self {
            scope: scope.into(),
            key,
            fingerprint,
        }
    }

    /// What a key stands for that has these columns: fingerprint and id.
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

/// The durable meaning of an idempotency key: the id that the request's effect has, and will have whenever it is
/// repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBinding {
    /// The id bound to the key.
    pub id: Uuid,
    /// Whether it was bound just now.
    pub fresh: bool,
}

/// The state of a key whose command an engine decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// The key was bound just now: the command has not been carried out.
    Fresh,
    /// The key was bound before, to this id, and no answer was kept: the command may have been carried out.
    Pending(Uuid),
    /// The key was bound before, and this was answered.
    Answered(String),
}

/// A campaign that is to be entered.
#[derive(Debug, Clone)]
pub struct Creation {
    /// The key under which it is repeated; none where nobody does.
    pub used: Option<KeyUse>,
    /// The campaign and its shares.
    pub setup: Setup,
    /// What people see of it.
    pub details: Details,
    /// Who may take part, as it is kept; none where everybody may.
    pub audience: Option<String>,
    /// Whether claims wait in line.
    pub waiting_room: bool,
    /// What is recorded of who did it.
    pub by: Option<Action>,
    /// Whether it is opened in the same transaction, where the ledger is the engine's own.
    /// [`Engine::has_opened`](super::Engine::has_opened) then says so.
    pub opens: bool,
}

/// Idempotency keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Binds an idempotency key to `id`, or returns what it was bound to before.
    async fn bind_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyBinding, LedgerError>;

    /// What a key is bound to, if it is.
    async fn bound_key(&self, used: &KeyUse) -> Result<Option<Uuid>, LedgerError>;

    /// Binds the key of a command to `id`, or returns its state if it was bound before.
    async fn begin_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyState, LedgerError>;

    /// Keeps the answer to a command with its key. The first answer stays. If the key is not bound, it is bound
    /// to `id`.
    async fn answer_key(&self, used: &KeyUse, id: Uuid, answer: &str) -> Result<(), LedgerError>;

    /// Unbinds a key from `id` whose command was certainly not carried out. A key with an answer stays.
    async fn release_key(&self, used: &KeyUse, id: Uuid) -> Result<(), LedgerError>;

    /// [`AccountStore::deposit_by`] under a key that is bound to its id in the same transaction: a deposit that is
    /// refused spends no key. A key that was bound before names the deposit.
    async fn deposit_under(
        &self,
        used: &KeyUse,
        id: Uuid,
        to: (&UserId, Money),
        by: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError>;

    /// The same for a deposit that a payment service has a name for. The name is kept for good and stands for one
    /// deposit:
    /// repeated with any key or none, it returns that deposit and changes nothing.
    ///
    /// # Errors
    /// [`LedgerError::ReferenceUsed`] if the name stands for a deposit of another user or amount.
    async fn deposit_named(
        &self,
        used: Option<&KeyUse>,
        id: Uuid,
        to: (&UserId, Money),
        reference: &PaymentRef,
        by: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError>;

    /// [`CampaignStore::create_by`] under a key that is bound to its id in the same transaction: a campaign that is
    /// refused spends no key. A key that was bound before names the campaign, whatever id this one has.
    ///
    /// # Errors
    /// [`LedgerError::IdUsed`] if another campaign has the id.
    async fn create_under(&self, campaign: Creation) -> Result<KeyBinding, LedgerError> {
        let created = self.create_all(vec![campaign]).await?.pop();
        let lost = || LedgerError::damaged("the ledger does not say what became of a campaign");
        created.unwrap_or_else(|| Err(lost()))
    }

    /// [`KeyStore::create_under`] for several, in their order and in one transaction: a refused one is undone by
    /// itself, and the others are durable together. Says of each what became of it.
    ///
    /// # Errors
    /// When the transaction failed: then none of them was entered, unless the error is [`LedgerError::Uncertain`].
    async fn create_all(
        &self,
        campaigns: Vec<Creation>,
    ) -> Result<Vec<Result<KeyBinding, LedgerError>>, LedgerError>;

    /// [`PayoutStore::pay_out_by`] under a key that is bound to `id` in the same transaction: a payout that is refused
    /// spends no key.
    async fn pay_out_under(
        &self,
        used: &KeyUse,
        id: Uuid,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PaidOut, LedgerError>;

    /// Forgets up to `limit` keys that were bound before an instant, but for references of payments. Returns how many.
    async fn purge_keys(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError>;
}

/// The id of the deposit with these columns, if it is of the same user and amount: id, amount, owner and currency.
///
/// # Errors
/// [`LedgerError::ReferenceUsed`] if it is not, [`LedgerError::Damaged`] if the id is none.
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

/// A campaign under the id that its key names, if it has one.
///
/// # Errors
/// [`LedgerError::Damaged`] if that is no campaign's id.
pub fn setup_under(setup: &Setup, binding: KeyBinding) -> Result<Setup, LedgerError> {
    let bad = |_| LedgerError::damaged("a campaign's key is bound to another kind of id");
    let mut setup = setup.clone();
    setup.campaign.id = CampaignId::new(binding.id).map_err(bad)?;
    Ok(setup)
}
