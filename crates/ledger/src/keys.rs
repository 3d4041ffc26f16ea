//! Idempotency keys and their bindings.

use async_trait::async_trait;
use qiang_core::{
    id::{PaymentRef, UserId},
    metadata::MetadataSubject,
    money::Money,
    ports::{
        Action, Creation, KeyBinding, KeyState, KeyStore, KeyUse, LedgerError, Payout,
        PayoutReceipt, WholeCreation, first_id_at, same_deposit, setup_under,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    accounts, campaigns,
    dialect::{Dialect, Statement, fetch_one, sql},
    error::{WorkError, raced},
    metadata, payouts,
    pool::AccessMode,
    sql_ledger::SqlLedger,
    waiting_rooms,
};

const BIND: Statement = sql!(both include_str!("sql/bind.sql"));
const BOUND: Statement =
    sql!(both r#"SELECT fingerprint, id FROM idempotency_keys WHERE scope = $1 AND "key" = $2"#);
const ANSWER: Statement =
    sql!(both r#"SELECT answer FROM idempotency_keys WHERE scope = $1 AND "key" = $2"#);
const SET_ANSWER: Statement = sql!(both r#"UPDATE idempotency_keys SET answer = $1
    WHERE scope = $2 AND "key" = $3 AND answer IS NULL"#);
const RELEASE: Statement = sql!(both r#"DELETE FROM idempotency_keys
    WHERE scope = $1 AND "key" = $2 AND id = $3 AND answer IS NULL"#);
const REBIND: Statement = sql!(both r#"UPDATE idempotency_keys SET id = $1
    WHERE scope = $2 AND "key" = $3 AND id = $4 AND answer IS NULL"#);
const DEPOSIT_NAMED: Statement = sql!(both include_str!("sql/deposit_named.sql"));
const NAME_DEPOSIT: Statement = sql!(both "UPDATE deposits SET reference = $1 WHERE id = $2");
const PURGE: Statement = sql!("purge_keys");
const MADE_CHANGE: Statement = sql!(both "SELECT id FROM made_changes WHERE id = $1");
const PURGE_MADE_CHANGES: Statement = sql!("purge_made_changes");

#[async_trait]
impl<D: Dialect> KeyStore for SqlLedger<D> {
    async fn bind_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyBinding, LedgerError> {
        let args = (self.now(), used.clone());
        self.run(AccessMode::Write, args, move |conn, (now, used)| {
            Box::pin(bind::<D>(conn, *now, used, id))
        })
        .await
    }

    async fn bound_key(&self, used: &KeyUse) -> Result<Option<Uuid>, LedgerError> {
        self.run(AccessMode::Read, used.clone(), |conn, used| {
            Box::pin(bound::<D>(conn, used))
        })
        .await
    }

    async fn begin_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyState, LedgerError> {
        let args = (self.now(), used.clone());
        self.run(AccessMode::Write, args, move |conn, (now, used)| {
            Box::pin(async move {
                let bound = bind::<D>(conn, *now, used, id).await?;
                if bound.fresh {
                    return Ok(KeyState::Fresh);
                }
                let values = [used.scope.as_str().into(), used.key.as_str().into()];
                let kept: Option<(Option<String>,)> =
                    fetch_one::<D, _>(conn, &ANSWER, &values).await?;
                let answer = kept.and_then(|(answer,)| answer);
                let pending = KeyState::Pending(bound.id);
                Ok(answer.map_or(pending, KeyState::Answered))
            })
        })
        .await
    }

    async fn answer_key(&self, used: &KeyUse, id: Uuid, answer: &str) -> Result<(), LedgerError> {
        let args = (self.now(), used.clone(), answer.to_owned());
        self.run(AccessMode::Write, args, move |conn, (now, used, answer)| {
            Box::pin(async move {
                bind::<D>(conn, *now, used, id).await?;
                let values = [
                    answer.as_str().into(),
                    used.scope.as_str().into(),
                    used.key.as_str().into(),
                ];
                D::execute(conn, &SET_ANSWER, &values).await?;
                Ok(())
            })
        })
        .await
    }

    async fn rebind_key(&self, used: &KeyUse, from: Uuid, to: Uuid) -> Result<bool, LedgerError> {
        let args = (used.clone(), from.to_string(), to.to_string());
        self.run(AccessMode::Write, args, |conn, (used, from, to)| {
            Box::pin(async move {
                let values = [
                    to.as_str().into(),
                    used.scope.as_str().into(),
                    used.key.as_str().into(),
                    from.as_str().into(),
                ];
                Ok(D::execute(conn, &REBIND, &values).await? > 0)
            })
        })
        .await
    }

    async fn release_key(&self, used: &KeyUse, id: Uuid) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, used.clone(), move |conn, used| {
            Box::pin(async move {
                let id = id.to_string();
                let values = [
                    used.scope.as_str().into(),
                    used.key.as_str().into(),
                    id.as_str().into(),
                ];
                D::execute(conn, &RELEASE, &values).await?;
                Ok(())
            })
        })
        .await
    }

    async fn deposit_named(
        &self,
        used: Option<&KeyUse>,
        id: Uuid,
        (user, amount): (&UserId, Money),
        reference: &PaymentRef,
        by: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError> {
        let (used, by) = (used.cloned(), by.cloned());
        let args = (self.now(), used, user.clone(), reference.clone(), by);
        self.run(
            AccessMode::Write,
            args,
            move |conn, (now, used, user, reference, by)| {
                let (to, by) = ((user, amount), by.as_ref());
                Box::pin(deposit_named::<D>(
                    conn,
                    *now,
                    used.as_ref(),
                    id,
                    to,
                    reference,
                    by,
                ))
            },
        )
        .await
    }

    async fn create_all(
        &self,
        campaigns: Vec<Creation>,
    ) -> Result<Vec<Result<KeyBinding, LedgerError>>, LedgerError> {
        let args = (self.now(), campaigns);
        self.run(AccessMode::Enter, args, |conn, (now, campaigns)| {
            Box::pin(create_all::<D>(conn, *now, campaigns))
        })
        .await
    }

    async fn create_whole(&self, campaigns: Vec<Creation>) -> Result<WholeCreation, LedgerError> {
        let args = (self.now(), campaigns);
        self.run(AccessMode::Enter, args, |conn, (now, campaigns)| {
            Box::pin(create_whole::<D>(conn, *now, campaigns))
        })
        .await
    }

    async fn pay_out_under(
        &self,
        used: &KeyUse,
        id: Uuid,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        let args = (self.now(), used.clone(), payout.clone(), by.cloned());
        self.run(
            AccessMode::Write,
            args,
            move |conn, (now, used, payout, by)| {
                Box::pin(async move {
                    bind::<D>(conn, *now, used, id).await?;
                    payouts::pay_out::<D>(conn, *now, payout, by.as_ref()).await
                })
            },
        )
        .await
    }

    async fn is_change_made(&self, id: Uuid) -> Result<bool, LedgerError> {
        self.run(AccessMode::Read, id.to_string(), |conn, id| {
            Box::pin(async move {
                let values = [id.as_str().into()];
                let found: Option<(String,)> =
                    fetch_one::<D, _>(conn, &MADE_CHANGE, &values).await?;
                Ok(found.is_some())
            })
        })
        .await
    }

    async fn purge_keys(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        self.run(
            AccessMode::Write,
            (before, limit),
            |conn, (before, limit)| Box::pin(purge::<D>(conn, *before, *limit)),
        )
        .await
    }
}

/// Binds a key to `id`, or returns its earlier binding. Refuses a known key with another fingerprint.
async fn bind<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    used: &KeyUse,
    id: Uuid,
) -> Result<KeyBinding, WorkError> {
    if let Some(id) = bound::<D>(conn, used).await? {
        return Ok(KeyBinding { id, fresh: false });
    }
    let name = id.to_string();
    let values = [
        used.scope.as_str().into(),
        used.key.as_str().into(),
        used.fingerprint.as_slice().into(),
        name.as_str().into(),
        now.as_millis().into(),
    ];
    raced(D::execute(conn, &BIND, &values).await)?;
    Ok(KeyBinding { id, fresh: true })
}

/// Makes a deposit under its payment reference and its optional key, or returns the earlier deposit of either.
async fn deposit_named<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    used: Option<&KeyUse>,
    id: Uuid,
    to: (&UserId, Money),
    reference: &PaymentRef,
    by: Option<&Action>,
) -> Result<KeyBinding, WorkError> {
    let before = match used {
        Some(used) => bound::<D>(conn, used).await?,
        None => None,
    };
    if let Some(id) = before {
        return Ok(KeyBinding { id, fresh: false });
    }
    let name = [reference.as_str().into()];
    if let Some(columns) = fetch_one::<D, _>(conn, &DEPOSIT_NAMED, &name).await? {
        let id = same_deposit(to, columns)?;
        return Ok(KeyBinding { id, fresh: false });
    }
    accounts::deposit::<D>(conn, now, id, to, by).await?;
    let text = id.to_string();
    let values = [reference.as_str().into(), text.as_str().into()];
    // Another transaction may have used the reference in the meantime: the next attempt finds that deposit.
    raced(D::execute(conn, &NAME_DEPOSIT, &values).await)?;
    match used {
        Some(used) => bind::<D>(conn, now, used, id).await,
        None => Ok(KeyBinding { id, fresh: true }),
    }
}

/// Id to which a key is bound, if any. Refuses another fingerprint.
async fn bound<D: Dialect>(
    conn: &mut D::Connection,
    used: &KeyUse,
) -> Result<Option<Uuid>, WorkError> {
    let values = [used.scope.as_str().into(), used.key.as_str().into()];
    let found: Option<(Vec<u8>, String)> = fetch_one::<D, _>(conn, &BOUND, &values).await?;
    let bound = found.map(|(fingerprint, id)| used.bound_to(&fingerprint, &id));
    Ok(bound.transpose()?)
}

/// Enters campaigns under their keys. If there are several, a refusal undoes only its own campaign; a refusal of a
/// single campaign undoes the transaction.
async fn create_all<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    campaigns: &[Creation],
) -> Result<Vec<Result<KeyBinding, LedgerError>>, WorkError> {
    if let [campaign] = campaigns {
        return Ok(vec![Ok(create_under::<D>(conn, now, campaign).await?)]);
    }
    create_each::<D>(conn, now, campaigns).await
}

/// Enters campaigns under their keys. A refusal undoes all of them.
async fn create_whole<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    campaigns: &[Creation],
) -> Result<WholeCreation, WorkError> {
    D::run(conn, "SAVEPOINT batch").await?;
    let created = create_each::<D>(conn, now, campaigns).await?;
    let whole = WholeCreation::from_results(created);
    if matches!(whole, WholeCreation::Refused(_)) {
        D::run(conn, "ROLLBACK TO SAVEPOINT batch").await?;
    }
    D::run(conn, "RELEASE SAVEPOINT batch").await?;
    Ok(whole)
}

/// Enters campaigns under their keys. A refusal undoes only its own campaign.
async fn create_each<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    campaigns: &[Creation],
) -> Result<Vec<Result<KeyBinding, LedgerError>>, WorkError> {
    let mut created = Vec::with_capacity(campaigns.len());
    for campaign in campaigns {
        D::run(conn, "SAVEPOINT campaign").await?;
        created.push(match create_under::<D>(conn, now, campaign).await {
            Ok(binding) => Ok(binding),
            Err(WorkError::Refused(refusal)) => {
                D::run(conn, "ROLLBACK TO SAVEPOINT campaign").await?;
                Err(refusal)
            }
            Err(error) => return Err(error),
        });
        D::run(conn, "RELEASE SAVEPOINT campaign").await?;
    }
    Ok(created)
}

async fn create_under<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    campaign: &Creation,
) -> Result<KeyBinding, WorkError> {
    let id = campaign.setup.campaign.id.uuid();
    let binding = match &campaign.used {
        Some(used) => bind::<D>(conn, now, used, id).await?,
        None => KeyBinding { id, fresh: true },
    };
    let setup = setup_under(&campaign.setup, binding)?;
    let (entered, audience) = ((&setup, &campaign.details), campaign.audience.as_deref());
    let by = campaign.by.as_ref();
    let is_new = campaigns::create::<D>(conn, now, entered, audience, by).await?;
    if binding.fresh && !is_new {
        return Err(LedgerError::IdUsed.into());
    }
    if is_new && campaign.waiting_room {
        waiting_rooms::add::<D>(conn, setup.campaign.id).await?;
    }
    if is_new && !campaign.metadata.is_empty() {
        let (of, owner) = (&campaign.metadata, &setup.campaign.owner);
        let subject = MetadataSubject::Campaign(setup.campaign.id);
        metadata::add::<D>(conn, subject, owner, of).await?;
    }
    Ok(binding)
}

/// Deletes up to `limit` keys bound before an instant, except payment references. Returns the number deleted.
async fn purge<D: Dialect>(
    conn: &mut D::Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, WorkError> {
    let values = [before.as_millis().into(), i64::from(limit).into()];
    let purged = D::execute(conn, &PURGE, &values).await?;
    if purged < u64::from(limit) {
        let before = first_id_at(before).to_string();
        let values = [before.as_str().into(), i64::from(limit).into()];
        D::execute(conn, &PURGE_MADE_CHANGES, &values).await?;
    }
    Ok(purged)
}
