//! MySQL and MariaDB.

use rusqlite::types::Value;
use sqlx::{MySql, Row as _, TypeInfo as _, ValueRef as _, mysql::MySqlRow};

use super::{
    Source,
    file::{Column, Holds},
};

impl Source for MySql {
    const BEGIN: &'static [&'static str] = &[
        // The only level at which the next statement takes its snapshot.
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ];
    const HAS_VERSION: &'static str = "SELECT count(*) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = 'schema_version'";
    const NOT_STILL: Option<&'static str> = Some(include_str!("mysql_not_still.sql"));
    const QUOTE: char = '`';

    fn value(row: &MySqlRow, index: usize, column: &Column) -> sqlx::Result<Result<Value, String>> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Ok(Value::Null));
        }
        let kind = raw.type_info().name().to_owned();
        Ok(Ok(match (column.holds, kind.as_str()) {
            (
                Holds::Numbers,
                "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT",
            ) => Value::Integer(row.try_get(index)?),
            (Holds::Text, "CHAR" | "VARCHAR" | "TEXT") => Value::Text(row.try_get(index)?),
            (Holds::Bytes, "BINARY" | "VARBINARY" | "BLOB") => Value::Blob(row.try_get(index)?),
            _ => return Ok(Err(kind)),
        }))
    }
}
