//! Copies a ledger out of a database, so that the same checks apply to it as to a file.
//!
//! All rows are read in one read-only transaction that sees the database as of one moment. They are streamed, a page at
//! a time, into a temporary SQLite file of plain tables (`tables.sql`). Reads and writes are concurrent, and the number
//! of unwritten pages is limited.
//!
//! Architecture invariant: nothing here comes from the crate that writes the ledger. Columns are read by name.

mod address;
mod file;
mod mysql;
mod postgres;

use std::{pin::pin, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use futures_util::TryStreamExt as _;
use rusqlite::types::Value;
use sqlx::{AssertSqlSafe, Connection as _, Database, Executor, IntoArguments};
use tokio::{sync::mpsc, time::timeout};

use self::{address::AddressOptions, file::ColumnCopy};
use super::{engine, open::LedgerConnection};

/// Schema version that the audit knows: the highest version in `schema_version`.
const SCHEMA_VERSION: i64 = 1;
/// Name of the usual failing action.
const READ: &str = "read the ledger";
/// Maximum rows per page.
const PAGE_ROWS_MAX: usize = 2_048;
/// Maximum pages that are read and not yet written.
const PAGES_MAX: usize = 4;
/// Time limit for connecting to the database.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Time limit for the next row, and for each earlier statement.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Rows of one table, in sequence in `values`.
struct TablePage {
    table: usize,
    values: Vec<Value>,
}

/// Database-specific parts of the copy.
trait SourceDatabase: Database {
    /// Begins a read-only transaction that sees the database as of one moment.
    const BEGIN: &'static [&'static str];
    /// Counts the tables with the schema's version.
    const HAS_VERSION: &'static str;
    /// Finds a table of the ledger that the transaction does not see as of one moment.
    const NOT_STILL: Option<&'static str>;
    /// Quote character of column names.
    const QUOTE: char;

    /// Value of a row; `Err` with the name of its type if that does not match the column.
    fn value(
        row: &Self::Row,
        index: usize,
        column: &ColumnCopy,
    ) -> sqlx::Result<Result<Value, String>>;
}

/// Copies the ledger at a URL, and reads the engine as of the same moment.
pub(super) async fn copy(
    url: &str,
    engine: Option<&mut engine::EngineReader>,
) -> anyhow::Result<(LedgerConnection, Option<engine::EngineState>)> {
    let (place, options) = address::parse(url)?;
    let file = file::create().context("cannot make a temporary file")?;
    let tables = file.tables.clone();
    let (pages, read) = mpsc::channel(PAGES_MAX);
    let written = tokio::task::spawn_blocking(move || file.fill(read));
    let named = place.clone();
    let copied = match options {
        AddressOptions::Postgres(options) => {
            TableReader::<sqlx::Postgres>::read_all(named, &options, &tables, pages, engine).await
        }
        AddressOptions::MySql(options) => {
            TableReader::<sqlx::MySql>::read_all(named, &options, &tables, pages, engine).await
        }
    };
    // The writer ends after the reader. If the writer fails, the reader ends without an error.
    let written = written.await.context("the copy was interrupted")?;
    let state = copied?;
    let conn = written.context("cannot write the copy to a temporary file (TMPDIR says where)")?;
    Ok((LedgerConnection::copied(conn, place), state))
}

struct TableReader<D: Database> {
    place: String,
    conn: D::Connection,
    pages: mpsc::Sender<TablePage>,
}

impl<D> TableReader<D>
where
    D: SourceDatabase,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    i64: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    String: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    usize: sqlx::ColumnIndex<D::Row>,
{
    /// Reads all tables. Ends early, without an error, if the receiver of the pages is dropped.
    async fn read_all(
        place: String,
        options: &<D::Connection as sqlx::Connection>::Options,
        tables: &[file::TableCopy],
        pages: mpsc::Sender<TablePage>,
        engine: Option<&mut engine::EngineReader>,
    ) -> anyhow::Result<Option<engine::EngineState>> {
        let connecting = D::Connection::connect_with(options);
        let conn = answer(&place, "connect", CONNECT_MAX, connecting).await?;
        let mut reader = Self { place, conn, pages };
        reader.begin().await?;
        reader.check().await?;
        let state = match engine {
            Some(engine) => Some(reader.beside(engine).await?),
            None => None,
        };
        for (table, columns) in tables.iter().enumerate() {
            if !reader.table(table, columns).await? {
                break;
            }
        }
        // Nothing was written, so a failed close does not matter.
        drop(timeout(ANSWER_MAX, reader.conn.close()).await);
        Ok(state)
    }

    async fn begin(&mut self) -> anyhow::Result<()> {
        for sql in D::BEGIN {
            self.run(sql).await?;
        }
        Ok(())
    }

    async fn run(&mut self, sql: &'static str) -> anyhow::Result<()> {
        let done = self.conn.execute(sqlx::raw_sql(sql));
        read(&self.place, done).await.map(drop)
    }

    /// Reads an engine, to compare it with the view of the transaction.
    async fn beside(
        &mut self,
        engine: &mut engine::EngineReader,
    ) -> anyhow::Result<engine::EngineState> {
        loop {
            let known = self.known().await?;
            if let Some(state) = engine.beside(known).await? {
                return Ok(state);
            }
            self.run("ROLLBACK").await?;
            self.begin().await?;
        }
    }

    async fn known(&mut self) -> anyhow::Result<engine::LedgerFacts> {
        let sql = format!(
            "SELECT {}, max(seq) FROM settled GROUP BY 1",
            quoted::<D>("partition")
        );
        let settled = sqlx::query_as::<_, (i64, i64)>(AssertSqlSafe(sql)).fetch_all(&mut self.conn);
        let settled = read(&self.place, settled).await?.into_iter().collect();
        let campaigns = sqlx::query_scalar::<_, String>("SELECT id FROM campaigns");
        let campaigns = read(&self.place, campaigns.fetch_all(&mut self.conn)).await?;
        Ok(engine::LedgerFacts { settled, campaigns })
    }

    /// Checks that the database has a known ledger, and can be read as of one moment.
    async fn check(&mut self) -> anyhow::Result<()> {
        let place = &self.place;
        let there = sqlx::query_scalar::<_, i64>(D::HAS_VERSION).fetch_one(&mut self.conn);
        let mut version = read(place, there).await?;
        if version != 0 {
            let sql = "SELECT coalesce(max(version), 0) FROM schema_version";
            let highest = sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut self.conn);
            version = read(place, highest).await?;
        }
        match version {
            SCHEMA_VERSION => {}
            0 => bail!(
                "{place} is not a ledger of Qiang: it has no schema version; `qiang migrate` makes one"
            ),
            found => bail!(
                "{place} has schema version {found}, and this program audits version {SCHEMA_VERSION}; use the \
                 program that migrated it, or bring it up to date with `qiang migrate`"
            ),
        }
        if let Some(sql) = D::NOT_STILL {
            let table = sqlx::query_scalar::<_, String>(sql).fetch_optional(&mut self.conn);
            if let Some(table) = read(place, table).await? {
                bail!(
                    "{place}: the table {table} is not InnoDB, and cannot be read as of one moment"
                );
            }
        }
        Ok(())
    }

    /// Reads one table. Returns false if the receiver of the pages is dropped.
    async fn table(&mut self, number: usize, table: &file::TableCopy) -> anyhow::Result<bool> {
        let columns: Vec<String> = table.columns.iter().map(|c| quoted::<D>(&c.name)).collect();
        let sql = format!(
            "SELECT {} FROM {}",
            columns.join(", "),
            quoted::<D>(&table.name)
        );
        let values_max = PAGE_ROWS_MAX * columns.len();
        let empty = || TablePage {
            table: number,
            values: Vec::with_capacity(values_max),
        };
        let mut page = empty();
        let place = &self.place;
        let failed = |error| cannot(place, READ, &error);
        let query = sqlx::query(AssertSqlSafe(sql));
        let mut rows = pin!(query.fetch(&mut self.conn));
        while let Some(row) = read(place, rows.try_next()).await? {
            for (index, column) in table.columns.iter().enumerate() {
                let value = D::value(&row, index, column).map_err(failed)?;
                page.values.push(value.map_err(|found| {
                    let (table, ColumnCopy { name, holds }) = (&table.name, column);
                    anyhow!("{place}: {table}.{name} is {found}, and a ledger has {holds} there")
                })?);
            }
            if page.values.len() >= values_max {
                let full = std::mem::replace(&mut page, empty());
                if self.pages.send(full).await.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(page.values.is_empty() || self.pages.send(page).await.is_ok())
    }
}

fn quoted<D: SourceDatabase>(name: &str) -> String {
    format!("{0}{name}{0}", D::QUOTE)
}

/// Waits for an answer of the database during the read.
async fn read<T>(
    place: &str,
    answered: impl Future<Output = sqlx::Result<T>>,
) -> anyhow::Result<T> {
    answer(place, READ, ANSWER_MAX, answered).await
}

/// Waits for an answer of the database, up to a time limit. The error does not contain the password.
async fn answer<T>(
    place: &str,
    what: &str,
    wait_max: Duration,
    answered: impl Future<Output = sqlx::Result<T>>,
) -> anyhow::Result<T> {
    match timeout(wait_max, answered).await {
        Ok(answer) => answer.map_err(|error| cannot(place, what, &error)),
        Err(_) => bail!("{place}: no answer within {} s", wait_max.as_secs()),
    }
}

/// Error of the database on one line.
fn cannot(place: &str, what: &str, error: &sqlx::Error) -> anyhow::Error {
    let text = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    anyhow!("{place}: cannot {what}: {}", lines.join(" "))
}
