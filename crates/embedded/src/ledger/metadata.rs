//! Metadata of campaigns, orders and deposits.

use qiang_core::{
    id::ShopReference,
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
    ports::Action,
    rows::{add_metadata_value, metadata_reference},
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{actions, made_changes};
use crate::error::DataFileError;

/// Stores the metadata of a new object, unless it has some.
pub(crate) fn add(
    conn: &Connection,
    subject: MetadataSubject,
    metadata: &Metadata,
) -> Result<(), DataFileError> {
    match of(conn, subject)?.is_empty() {
        true => store(conn, subject, &metadata.as_change()),
        false => Ok(()),
    }
}

/// Changes the metadata of an object. `None`, and no change, if it would have too many names.
pub(crate) fn change(
    conn: &Connection,
    subject: MetadataSubject,
    change: &MetadataChange,
    (by, made): (&Action, Option<Uuid>),
) -> Result<Option<Metadata>, DataFileError> {
    let Ok(after) = change.apply(of(conn, subject)?) else {
        return Ok(None);
    };
    store(conn, subject, change)?;
    actions::enter(conn, by)?;
    made_changes::enter_made_changes(conn, made.as_slice())?;
    Ok(Some(after))
}

fn store(
    conn: &Connection,
    subject: MetadataSubject,
    change: &MetadataChange,
) -> Result<(), DataFileError> {
    let (object, id) = (subject.object().name(), subject.id());
    if let Some(reference) = &change.reference {
        let mut delete =
            conn.prepare_cached("DELETE FROM shop_references WHERE object = ?1 AND id = ?2")?;
        delete.execute(params![object, id])?;
        if let Some(reference) = reference {
            let mut insert = conn.prepare_cached(
                "INSERT INTO shop_references (object, id, reference) VALUES (?1, ?2, ?3)",
            )?;
            insert.execute(params![object, id, reference.as_str()])?;
        }
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

/// Metadata of an object.
pub(crate) fn of(conn: &Connection, subject: MetadataSubject) -> Result<Metadata, DataFileError> {
    let (object, id) = (subject.object().name(), subject.id());
    let mut metadata = Metadata::default();
    let mut reference =
        conn.prepare_cached("SELECT reference FROM shop_references WHERE object = ?1 AND id = ?2")?;
    let reference = reference.query_row(params![object, id], |row| row.get::<_, String>(0));
    if let Some(reference) = reference.optional()? {
        metadata.reference = Some(metadata_reference(&reference)?);
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
    object: MetadataObject,
    reference: &ShopReference,
    (after, limit): (Option<&str>, u32),
) -> Result<Vec<String>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT id FROM shop_references WHERE object = ?1 AND reference = ?2 AND id > ?3 ORDER BY id LIMIT ?4",
    )?;
    let values = params![
        object.name(),
        reference.as_str(),
        after.unwrap_or(""),
        limit
    ];
    let ids = statement.query_map(values, |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
