//! PostgreSQL.

use rusqlite::types::Value;
use sqlx::{Postgres, Row as _, TypeInfo as _, ValueRef as _, postgres::PgRow};

use super::{
    SourceDatabase,
    file::{ColumnCopy, ColumnType},
};

impl SourceDatabase for Postgres {
    const BEGIN: &'static [&'static str] = &[
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        // A default of the server, the database or the role may cancel long statements.
        "SET LOCAL statement_timeout = 0",
    ];
    const HAS_VERSION: &'static str = "SELECT count(to_regclass('schema_version'))";
    const NOT_STILL: Option<&'static str> = None;
    const QUOTE: char = '"';

    fn value(
        row: &PgRow,
        index: usize,
        column: &ColumnCopy,
    ) -> sqlx::Result<Result<Value, String>> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Ok(Value::Null));
        }
        let kind = raw.type_info().name().to_owned();
        Ok(Ok(match (column.holds, kind.as_str()) {
            (ColumnType::Numbers, "INT2") => Value::Integer(row.try_get::<i16, _>(index)?.into()),
            (ColumnType::Numbers, "INT4") => Value::Integer(row.try_get::<i32, _>(index)?.into()),
            (ColumnType::Numbers, "INT8") => Value::Integer(row.try_get(index)?),
            (ColumnType::Numbers, "BOOL") => Value::Integer(row.try_get::<bool, _>(index)?.into()),
            (ColumnType::Text, "TEXT" | "VARCHAR" | "CHAR") => Value::Text(row.try_get(index)?),
            (ColumnType::Bytes, "BYTEA") => Value::Blob(row.try_get(index)?),
            _ => return Ok(Err(kind)),
        }))
    }
}
