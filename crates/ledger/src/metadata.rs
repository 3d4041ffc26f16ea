//! Metadata of campaigns, orders and deposits.

use std::collections::BTreeMap;

use qiang_core::{
    id::UserId,
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
    ports::{Action, LedgerError, MetadataResult, ReferenceQuery},
    rows::{METADATA_MARK, Value, add_metadata_value, metadata_reference},
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch, fetch_of, fetch_one, sql},
    error::{WorkError, raced},
    made_changes,
};

const VALUES_OF: Statement = sql!("metadata_values");
const REFERENCES_OF: Statement = sql!("metadata_references");
const DROP_VALUE: Statement =
    sql!(both "DELETE FROM metadata WHERE object = $1 AND id = $2 AND name = $3");
const ADD_VALUE: Statement =
    sql!(both "INSERT INTO metadata (object, id, name, value) VALUES ($1, $2, $3, $4)");
const DROP_REFERENCE: Statement =
    sql!(both "DELETE FROM shop_references WHERE object = $1 AND id = $2");
const ADD_REFERENCE: Statement = sql!(both "INSERT INTO shop_references (object, id, reference, owner, unique_owner)
    VALUES ($1, $2, $3, $4, $5)");
const TAKEN_BY: Statement = sql!(both "SELECT id FROM shop_references
    WHERE object = $1 AND unique_owner = $2 AND reference = $3");
const OF_ALL: Statement = sql!(both "SELECT id FROM shop_references
    WHERE object = $1 AND reference = $2 AND id > $3 ORDER BY id LIMIT $4");
const OF_OWNER: Statement = sql!(both "SELECT id FROM shop_references
    WHERE object = $1 AND owner = $2 AND reference = $3 AND id > $4 ORDER BY id LIMIT $5");
const ENTER_MARK: Statement = sql!("enter_metadata_mark");
const LOCK_MARK: Statement =
    sql!(both "SELECT value FROM metadata WHERE object = $1 AND id = $2 AND name = $3 FOR UPDATE");

/// Stores the metadata of a new object, unless some was stored before.
pub(crate) async fn add<D: Dialect>(
    conn: &mut D::Connection,
    subject: MetadataSubject,
    owner: &UserId,
    metadata: &Metadata,
) -> Result<(), WorkError> {
    match mark::<D>(&mut *conn, subject).await? {
        true => store::<D>(conn, subject, owner, (&metadata.as_change(), metadata)).await,
        false => Ok(()),
    }
}

/// Changes the metadata of an object.
pub(crate) async fn change<D: Dialect>(
    conn: &mut D::Connection,
    subject: MetadataSubject,
    owner: &UserId,
    (change, expected): (&MetadataChange, Option<&Metadata>),
    (by, made): (&Action, Option<Uuid>),
) -> Result<MetadataResult, WorkError> {
    mark::<D>(&mut *conn, subject).await?;
    let before = of::<D>(&mut *conn, &[subject]).await?.pop();
    let before = before.unwrap_or_default();
    if expected.is_some_and(|expected| *expected != before) {
        return Ok(MetadataResult::Differs);
    }
    let Ok(after) = change.apply(before) else {
        return Ok(MetadataResult::TooManyNames);
    };
    store::<D>(conn, subject, owner, (change, &after)).await?;
    actions::enter::<D>(&mut *conn, by).await?;
    made_changes::enter_made_changes::<D>(conn, made.as_slice()).await?;
    Ok(MetadataResult::Changed(after))
}

/// Notes that metadata is stored for an object, and keeps other transactions from changing it until this one ends.
/// Returns whether it is the first.
async fn mark<D: Dialect>(
    conn: &mut D::Connection,
    subject: MetadataSubject,
) -> Result<bool, WorkError> {
    let id = subject.id();
    let values = [
        subject.object().name().into(),
        id.as_str().into(),
        METADATA_MARK.into(),
    ];
    let inserted = D::execute(&mut *conn, &ENTER_MARK, &values).await?;
    let locked: Option<(String,)> = fetch_one::<D, _>(conn, &LOCK_MARK, &values).await?;
    Ok(inserted > 0 && locked.is_some())
}

/// Stores a change that leads to the metadata `after`.
async fn store<D: Dialect>(
    conn: &mut D::Connection,
    subject: MetadataSubject,
    owner: &UserId,
    (change, after): (&MetadataChange, &Metadata),
) -> Result<(), WorkError> {
    let id = subject.id();
    let (object, id): (Value<'_>, Value<'_>) = (subject.object().name().into(), id.as_str().into());
    if change.reference.is_some() || change.is_unique.is_some() {
        store_reference::<D>(&mut *conn, (object, id), owner, after).await?;
    }
    for (name, value) in &change.values {
        let name: Value<'_> = name.as_str().into();
        D::execute(&mut *conn, &DROP_VALUE, &[object, id, name]).await?;
        if let Some(value) = value {
            let values = [object, id, name, value.as_str().into()];
            raced(D::execute(&mut *conn, &ADD_VALUE, &values).await)?;
        }
    }
    Ok(())
}

/// Replaces the reference of an object.
async fn store_reference<D: Dialect>(
    conn: &mut D::Connection,
    (object, id): (Value<'_>, Value<'_>),
    owner: &UserId,
    after: &Metadata,
) -> Result<(), WorkError> {
    D::execute(&mut *conn, &DROP_REFERENCE, &[object, id]).await?;
    let Some(reference) = &after.reference else {
        return Ok(());
    };
    let unique_owner = after.is_unique.then_some(owner.as_str());
    let (owner, reference): (Value<'_>, Value<'_>) =
        (owner.as_str().into(), reference.as_str().into());
    if unique_owner.is_some() {
        let taken = [object, owner, reference];
        if let Some((by,)) = fetch_one::<D, (String,)>(&mut *conn, &TAKEN_BY, &taken).await? {
            return Err(LedgerError::ReferenceTaken { by }.into());
        }
    }
    let values = [object, id, reference, owner, unique_owner.into()];
    // Another transaction may have taken the reference since: the next attempt finds its object.
    raced(D::execute(conn, &ADD_REFERENCE, &values).await)?;
    Ok(())
}

/// Metadata of these objects, in their order.
pub(crate) async fn of<D: Dialect>(
    conn: &mut D::Connection,
    subjects: &[MetadataSubject],
) -> Result<Vec<Metadata>, WorkError> {
    let mut found: BTreeMap<(MetadataObject, String), Metadata> = BTreeMap::new();
    let named = |subject: &MetadataSubject| (subject.object(), subject.id());
    let names: Vec<(MetadataObject, String)> = subjects.iter().map(named).collect();
    let names_and_ids = names.iter();
    let wanted: Vec<[Value<'_>; 2]> = names_and_ids
        .map(|(object, id)| [object.name().into(), id.as_str().into()])
        .collect();
    let key = |object: &str, id: String| {
        let object = MetadataObject::from_name(object);
        let object =
            object.ok_or_else(|| WorkError::damaged(format!("{id} has no kind of object")));
        object.map(|object| (object, id))
    };
    let rows: Vec<(String, String, String, String)> =
        fetch_of::<D, _, 2>(&mut *conn, &VALUES_OF, &[], &wanted).await?;
    for (object, id, name, value) in rows {
        let metadata = found.entry(key(&object, id)?).or_default();
        add_metadata_value(metadata, &name, &value)?;
    }
    let rows: Vec<(String, String, String, Option<String>)> =
        fetch_of::<D, _, 2>(conn, &REFERENCES_OF, &[], &wanted).await?;
    for (object, id, reference, unique_owner) in rows {
        let metadata = found.entry(key(&object, id)?).or_default();
        metadata.is_unique = unique_owner.is_some();
        metadata.reference = Some(metadata_reference(&reference)?);
    }
    let of = |name| found.get(name).cloned().unwrap_or_default();
    Ok(names.iter().map(of).collect())
}

/// Ids of objects with a reference, in the order of their text.
pub(crate) async fn with_reference<D: Dialect>(
    conn: &mut D::Connection,
    query: &ReferenceQuery,
) -> Result<Vec<String>, WorkError> {
    let (object, reference) = (query.object.name().into(), query.reference.as_str().into());
    let page: [Value<'_>; 2] = [
        query.after.as_deref().unwrap_or("").into(),
        i64::from(query.limit).into(),
    ];
    let (statement, mut values): (_, Vec<Value<'_>>) = match &query.owner {
        Some(owner) => (&OF_OWNER, vec![object, owner.as_str().into(), reference]),
        None => (&OF_ALL, vec![object, reference]),
    };
    values.extend(page);
    let rows = fetch::<D, (String,)>(conn, statement, &values).await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}
