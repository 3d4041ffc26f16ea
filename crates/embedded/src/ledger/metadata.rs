//! Metadata of campaigns, orders and deposits.

use qiang_core::{
    id::UserId,
    metadata::{Metadata, MetadataChange, MetadataSubject},
    ports::{Action, LedgerError, MetadataResult, ReferenceQuery},
    rows::{METADATA_MARK, add_metadata_value, metadata_reference},
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{actions, made_changes};
use crate::error::DataFileError;

/// Stores the metadata of a new object, unless some was stored before.
pub(crate) fn add(
    conn: &Connection,
    subject: MetadataSubject,
    owner: &UserId,
    metadata: &Metadata,
) -> Result<(), DataFileError> {
    match mark(conn, subject)? {
        true => store(conn, subject, owner, (&metadata.as_change(), metadata)),
        false => Ok(()),
    }
}

/// Changes the metadata of an object.
pub(crate) fn change(
    conn: &Connection,
    subject: MetadataSubject,
    owner: &UserId,
    (change, expected): (&MetadataChange, Option<&Metadata>),
    (by, made): (&Action, Option<Uuid>),
) -> Result<MetadataResult, DataFileError> {
    let before = of(conn, subject)?;
    if expected.is_some_and(|expected| *expected != before) {
        return Ok(MetadataResult::Differs);
    }
    let Ok(after) = change.apply(before) else {
        return Ok(MetadataResult::TooManyNames);
    };
    mark(conn, subject)?;
    store(conn, subject, owner, (change, &after))?;
    actions::enter(conn, by)?;
    made_changes::enter_made_changes(conn, made.as_slice())?;
    Ok(MetadataResult::Changed(after))
}

/// Notes that metadata is stored for an object. Returns whether it is the first.
fn mark(conn: &Connection, subject: MetadataSubject) -> Result<bool, DataFileError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO metadata (object, id, name, value) VALUES (?1, ?2, ?3, '') ON CONFLICT DO NOTHING",
    )?;
    let inserted = insert.execute(params![
        subject.object().name(),
        subject.id(),
        METADATA_MARK
    ])?;
    Ok(inserted > 0)
}

/// Stores a change that leads to the metadata `after`.
fn store(
    conn: &Connection,
    subject: MetadataSubject,
    owner: &UserId,
    (change, after): (&MetadataChange, &Metadata),
) -> Result<(), DataFileError> {
    let (object, id) = (subject.object().name(), subject.id());
    if change.reference.is_some() || change.is_unique.is_some() {
        store_reference(conn, subject, owner, after)?;
    }
    for (name, value) in &change.values {
        let mut delete = conn
            .prepare_cached("DELETE FROM metadata WHERE object = ?1 AND id = ?2 AND name = ?3")?;
        delete.execute(params![object, id, name.as_str()])?;
        if let Some(value) = value {
            let mut insert = conn.prepare_cached(
                "INSERT INTO metadata (object, id, name, value) VALUES (?1, ?2, ?3, ?4)",
            )?;
            insert.execute(params![object, id, name.as_str(), value.as_str()])?;
        }
    }
    Ok(())
}

/// Replaces the reference of an object.
fn store_reference(
    conn: &Connection,
    subject: MetadataSubject,
    owner: &UserId,
    after: &Metadata,
) -> Result<(), DataFileError> {
    let (object, id, owner) = (subject.object().name(), subject.id(), owner.as_str());
    let mut delete =
        conn.prepare_cached("DELETE FROM shop_references WHERE object = ?1 AND id = ?2")?;
    delete.execute(params![object, id])?;
    let Some(reference) = &after.reference else {
        return Ok(());
    };
    let unique_owner = after.is_unique.then_some(owner);
    if unique_owner.is_some() {
        let mut taken = conn.prepare_cached(
            "SELECT id FROM shop_references WHERE object = ?1 AND unique_owner = ?2 AND reference = ?3",
        )?;
        let taken = taken.query_row(params![object, owner, reference.as_str()], |row| row.get(0));
        if let Some(by) = taken.optional()? {
            return Err(DataFileError::Refused(LedgerError::ReferenceTaken { by }));
        }
    }
    let mut insert = conn.prepare_cached(
        "INSERT INTO shop_references (object, id, reference, owner, unique_owner) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![object, id, reference.as_str(), owner, unique_owner])?;
    Ok(())
}

/// Metadata of an object.
pub(crate) fn of(conn: &Connection, subject: MetadataSubject) -> Result<Metadata, DataFileError> {
    let (object, id) = (subject.object().name(), subject.id());
    let mut metadata = Metadata::default();
    let mut reference = conn.prepare_cached(
        "SELECT reference, unique_owner IS NOT NULL FROM shop_references WHERE object = ?1 AND id = ?2",
    )?;
    let reference = reference.query_row(params![object, id], |row| <(String, bool)>::try_from(row));
    if let Some((reference, is_unique)) = reference.optional()? {
        metadata.reference = Some(metadata_reference(&reference)?);
        metadata.is_unique = is_unique;
    }
    let mut values =
        conn.prepare_cached("SELECT name, value FROM metadata WHERE object = ?1 AND id = ?2")?;
    let rows = values.query_map(params![object, id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for row in rows {
        let (name, value): (String, String) = row?;
        add_metadata_value(&mut metadata, &name, &value)?;
    }
    Ok(metadata)
}

/// Ids of objects with a reference, in the order of their text.
pub(crate) fn with_reference(
    conn: &Connection,
    query: &ReferenceQuery,
) -> Result<Vec<String>, DataFileError> {
    let sql = match query.owner {
        Some(_) => {
            "SELECT id FROM shop_references WHERE object = ?1 AND owner = ?5 AND reference = ?2 AND id > ?3 \
             ORDER BY id LIMIT ?4"
        }
        None => {
            "SELECT id FROM shop_references WHERE object = ?1 AND reference = ?2 AND id > ?3 AND ?5 IS NULL \
             ORDER BY id LIMIT ?4"
        }
    };
    let mut statement = conn.prepare_cached(sql)?;
    let values = params![
        query.object.name(),
        query.reference.as_str(),
        query.after.as_deref().unwrap_or(""),
        query.limit,
        query.owner.as_ref().map(|owner| owner.as_str())
    ];
    let ids = statement.query_map(values, |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
