//! Temporary file for the copy of a ledger.

use std::fmt;

use rusqlite::{Connection, params_from_iter};
use tokio::sync::mpsc;

use super::TablePage;

const TABLES: &str = include_str!("tables.sql");
const AFTER: &str = include_str!("after.sql");
const SET_UP: &str = "PRAGMA main.journal_mode = OFF; PRAGMA main.synchronous = OFF";
const COLUMNS: &str = "SELECT t.name, c.name, c.type FROM sqlite_schema t JOIN pragma_table_info(t.name) c \
                       WHERE t.type = 'table' ORDER BY t.rowid, c.cid";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Numbers,
    Text,
    Bytes,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Numbers => "whole numbers",
            Self::Text => "text",
            Self::Bytes => "bytes",
        })
    }
}

#[derive(Debug, Clone)]
pub(super) struct ColumnCopy {
    pub(super) name: String,
    pub(super) holds: ColumnType,
}

#[derive(Debug, Clone)]
pub(super) struct TableCopy {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnCopy>,
}

/// Temporary file. It is deleted with its connection.
pub(super) struct TemporaryFile {
    conn: Connection,
    pub(super) tables: Vec<TableCopy>,
}

pub(super) fn create() -> rusqlite::Result<TemporaryFile> {
    // SQLite's own temporary file: no other process can open it, and a killed process leaves nothing.
    let conn = Connection::open("")?;
    conn.execute_batch(SET_UP)?;
    conn.execute_batch(TABLES)?;
    let mut tables: Vec<TableCopy> = Vec::new();
    let mut columns = conn.prepare(COLUMNS)?;
    let mut rows = columns.query([])?;
    while let Some(row) = rows.next()? {
        let (table, name, kind): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let holds = match kind.as_str() {
            "INTEGER" => ColumnType::Numbers,
            "BLOB" => ColumnType::Bytes,
            _ => ColumnType::Text,
        };
        let column = ColumnCopy { name, holds };
        match tables.last_mut() {
            Some(last) if last.name == table => last.columns.push(column),
            _ => tables.push(TableCopy {
                name: table,
                columns: vec![column],
            }),
        }
    }
    drop(rows);
    drop(columns);
    Ok(TemporaryFile { conn, tables })
}

impl TemporaryFile {
    /// Writes all pages, and prepares the file for the checks.
    pub(super) fn fill(self, mut pages: mpsc::Receiver<TablePage>) -> rusqlite::Result<Connection> {
        let Self { conn, tables } = self;
        conn.execute_batch("BEGIN")?;
        while let Some(page) = pages.blocking_recv() {
            let table = &tables[page.table];
            let places = vec!["?"; table.columns.len()].join(", ");
            let sql = format!("INSERT INTO {} VALUES ({places})", table.name);
            let mut insert = conn.prepare_cached(&sql)?;
            for row in page.values.chunks(table.columns.len()) {
                insert.execute(params_from_iter(row))?;
            }
        }
        conn.execute_batch(AFTER)?;
        conn.execute_batch("COMMIT")?;
        Ok(conn)
    }
}
