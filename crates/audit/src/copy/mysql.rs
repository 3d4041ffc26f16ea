//! MySQL and MariaDB.

use rusqlite::types::Value;
use sqlx::{MySql, Row as _, Type, TypeInfo as _, ValueRef as _, mysql::MySqlRow};

use super::{
    SourceDatabase,
    file::{ColumnCopy, ColumnType},
};

impl SourceDatabase for MySql {
    const BEGIN: &'static [&'static str] = &[
        // Defaults of the server may limit the rows, or cancel long statements.
        "SET SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1 \
         /*M!100100 , SESSION max_statement_time = 0 */ /*!50708 , SESSION max_execution_time = 0 */",
        // Only at this level does the next statement take its snapshot.
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ];
    const HAS_VERSION: &'static str = "SELECT count(*) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = 'schema_version'";
    const NOT_STILL: Option<&'static str> = Some(include_str!("mysql_not_still.sql"));
    const QUOTE: char = '`';

    fn value(
        row: &MySqlRow,
        index: usize,
        column: &ColumnCopy,
    ) -> sqlx::Result<Result<Value, String>> {
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            return Ok(Ok(Value::Null));
        }
        let info = raw.type_info();
        // Neither the type names nor their flags distinguish text with a binary collation from bytes.
        let is_text = <str as Type<MySql>>::compatible(&info);
        let is_bytes = <[u8] as Type<MySql>>::compatible(&info) && !is_text;
        let is_number = <i64 as Type<MySql>>::compatible(&info);
        Ok(Ok(match column.holds {
            ColumnType::Numbers if is_number => Value::Integer(row.try_get(index)?),
            ColumnType::Text if is_text => Value::Text(row.try_get(index)?),
            ColumnType::Bytes if is_bytes => Value::Blob(row.try_get(index)?),
            _ => return Ok(Err(info.name().to_owned())),
        }))
    }
}
