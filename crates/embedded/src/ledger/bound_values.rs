//! Binds rows of plain values to SQLite's statements.

use qiang_core::rows::Value;
use rusqlite::{
    Connection, ToSql, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use crate::error::DataFileError;

pub(super) struct BoundValues<'a>(pub(super) Value<'a>);

impl ToSql for BoundValues<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self.0 {
            Value::Int(value) => value.map(ValueRef::Integer),
            Value::Text(value) => value.map(|text| ValueRef::Text(text.as_bytes())),
            Value::Bytes(value) => value.map(ValueRef::Blob),
        };
        Ok(ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))
    }
}

pub(super) fn execute_rows<'a, const N: usize>(
    conn: &Connection,
    sql: &str,
    rows: impl ExactSizeIterator<Item = [Value<'a>; N]>,
) -> Result<(), DataFileError> {
    if rows.len() == 0 {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql)?;
    for row in rows {
        statement.execute(params_from_iter(row.map(BoundValues)))?;
    }
    Ok(())
}
