//! Copying a ledger out of a database, so that the same checks are made of it as of a file.
//!
//! All rows are read in one transaction that sees the database as of one moment and cannot write, as streams, a page
//! at a time, into a temporary SQLite file of plain tables (`tables.sql`). Reading and writing go on side by side; what
//! has been read and not yet written is bounded.
//!
//! Architecture invariant: nothing here comes from the crate that writes the ledger. It reads columns by their names.

mod address;
mod file;
mod mysql;
mod postgres;

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use rusqlite::types::Value;
use sqlx::{AssertSqlSafe, Connection as _, Database, Executor, IntoArguments};
use tokio::{sync::mpsc, time::timeout};

use self::{address::Address, file::Column};
use super::{
    engine,
    open::{CannotOpen, Ledger},
};

/// The schema that the audit knows: the highest version in `schema_version`.
const SCHEMA_VERSION: i64 = 2;
/// Rows that are handed over together.
const PAGE_ROWS_MAX: usize = 2_048;
/// Pages that have been read and not yet written.
const PAGES_MAX: usize = 4;
/// How long the database may take to let the audit in.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the database may take for the next row, and for each statement that comes before them.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Why there is nothing to audit, and what to do about it. No password is ever a part of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum CannotCopy {
    #[error(
        "a ledger's URL begins with postgres://, postgresql://, mysql:// or mariadb://; \
         for a ledger in a file there is --db"
    )]
    Scheme,
    #[error(
        "the ledger's URL cannot be read: it is postgres://USER:PASSWORD@HOST:PORT/DATABASE, and in a name or a \
         password the characters / ? # @ % are written %2F %3F %23 %40 %25"
    )]
    Url,
    #[error("{place}: the ledger's URL names no database")]
    NoDatabase { place: String },
    #[error("{place}: cannot connect: {why}")]
    Connect { place: String, why: String },
    #[error("{place}: no answer within {} s", .waited.as_secs())]
    Silent { place: String, waited: Duration },
    #[error("{place}: cannot read the ledger: {why}")]
    Read { place: String, why: String },
    #[error(
        "{place} is not a ledger of Qiang: it has no schema version; `qiang migrate` makes one"
    )]
    NotALedger { place: String },
    #[error(
        "{place} has schema version {found}, and this program audits version {SCHEMA_VERSION}; \
         use the program that migrated it, or bring it up to date with `qiang migrate`"
    )]
    Version { place: String, found: i64 },
    #[error("{place}: the table {table} is not InnoDB, and cannot be read as of one moment")]
    NoSnapshot { place: String, table: String },
    #[error("{place}: {table}.{column} is {found}, and a ledger has {expected} there")]
    Type {
        place: String,
        table: String,
        column: String,
        found: String,
        expected: String,
    },
}

/// Rows of one table, one after the other in `values`.
struct Page {
    table: usize,
    values: Vec<Value>,
}

/// What the copying has to know of a database.
trait Source: Database {
    /// Begins a transaction that sees the database as of one moment, and cannot write.
    const BEGIN: &'static [&'static str];
    /// How many tables there are with the schema's version.
    const HAS_VERSION: &'static str;
    /// A table of the ledger that the transaction does not hold still, if there is one.
    const NOT_STILL: Option<&'static str>;
    /// What the names of columns stand between.
    const QUOTE: char;

    /// A value as it is in the row; `Err` with the name of its type when that is not what the column is for.
    fn value(row: &Self::Row, index: usize, column: &Column)
    -> sqlx::Result<Result<Value, String>>;
}

/// Copies the ledger at a URL; reads the engine beside it at the same moment.
///
/// # Errors
/// When there is no ledger that the audit knows, when reading it fails, and when it does not fit on the disk.
pub(super) async fn copy(
    url: &str,
    engine: Option<&mut engine::Reader>,
) -> anyhow::Result<(Ledger, Option<engine::State>)> {
    let address = address::parse(url)?;
    let place = address.place().to_owned();
    let file = file::create().context("cannot make a temporary file")?;
    let tables = file.tables.clone();
    let (pages, read) = mpsc::channel(PAGES_MAX);
    let written = tokio::task::spawn_blocking(move || file.fill(read));
    let copied = match address {
        Address::Postgres(place, options) => {
            read_all::<sqlx::Postgres>(place, &options, &tables, pages, engine).await
        }
        Address::MySql(place, options) => {
            read_all::<sqlx::MySql>(place, &options, &tables, pages, engine).await
        }
    };
    // The writer ends when the reader has; and where the writer gave up, the reader ended without an error.
    let written = written.await.context("the copy was interrupted")?;
    let state = copied?;
    let conn = written.context("cannot write the copy to a temporary file (TMPDIR says where)")?;
    Ok((Ledger::copied(conn, place), state))
}

/// Reads all tables. Ends early, without an error, when nobody takes the pages any more.
async fn read_all<D>(
    place: String,
    options: &<D::Connection as sqlx::Connection>::Options,
    tables: &[file::Table],
    pages: mpsc::Sender<Page>,
    engine: Option<&mut engine::Reader>,
) -> anyhow::Result<Option<engine::State>>
where
    D: Source,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    i64: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    String: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    usize: sqlx::ColumnIndex<D::Row>,
{
    let connecting = timeout(CONNECT_MAX, D::Connection::connect_with(options)).await;
    let conn = connecting.map_err(|_| CannotCopy::Silent {
        place: place.clone(),
        waited: CONNECT_MAX,
    })?;
    let conn = conn.map_err(|error| CannotCopy::Connect {
        place: place.clone(),
        why: in_one_line(&error),
    })?;
    let mut reader = Reader::<D> { place, conn, pages };
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
    // Nothing was written: how the connection ends is of no account.
    drop(timeout(ANSWER_MAX, reader.conn.close()).await);
    Ok(state)
}

struct Reader<D: Database> {
    place: String,
    conn: D::Connection,
    pages: mpsc::Sender<Page>,
}

impl<D> Reader<D>
where
    D: Source,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    D::Arguments: IntoArguments<D>,
    i64: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    String: for<'r> sqlx::Decode<'r, D> + sqlx::Type<D>,
    usize: sqlx::ColumnIndex<D::Row>,
{
    fn answered<T>(
        &self,
        answer: Result<sqlx::Result<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, CannotCopy> {
        let place = || self.place.clone();
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(CannotCopy::Read {
                place: place(),
                why: in_one_line(&error),
            }),
            Err(_) => Err(CannotCopy::Silent {
                place: place(),
                waited: ANSWER_MAX,
            }),
        }
    }

    async fn begin(&mut self) -> Result<(), CannotCopy> {
        for sql in D::BEGIN {
            self.run(sql).await?;
        }
        Ok(())
    }

    async fn run(&mut self, sql: &'static str) -> Result<(), CannotCopy> {
        let done = timeout(ANSWER_MAX, self.conn.execute(sqlx::raw_sql(sql))).await;
        self.answered(done).map(drop)
    }

    /// Reads an engine, so that it can be compared with what the transaction sees.
    async fn beside(&mut self, engine: &mut engine::Reader) -> anyhow::Result<engine::State> {
        let mut before = None;
        for _ in 0..engine::ATTEMPTS_MAX {
            let known = self.known().await?;
            let state = engine.read(&known).await?;
            if state.is_complete(before.as_ref()) {
                return Ok(state);
            }
            before = Some(known);
            self.run("ROLLBACK").await?;
            self.begin().await?;
        }
        Err(CannotOpen::Overtaken.into())
    }

    async fn known(&mut self) -> Result<engine::Known, CannotCopy> {
        let sql = format!("SELECT {0}partition{0}, seq FROM settled", D::QUOTE);
        let settled = sqlx::query_as::<_, (i64, i64)>(AssertSqlSafe(sql)).fetch_all(&mut self.conn);
        let settled = timeout(ANSWER_MAX, settled).await;
        let settled = self.answered(settled)?;
        let campaigns = sqlx::query_scalar::<_, String>("SELECT id FROM campaigns");
        let campaigns = timeout(ANSWER_MAX, campaigns.fetch_all(&mut self.conn)).await;
        let mut known = engine::Known {
            settled: BTreeMap::new(),
            campaigns: self.answered(campaigns)?,
        };
        for (partition, seq) in settled {
            let last = known.settled.entry(partition).or_insert(seq);
            *last = seq.max(*last);
        }
        Ok(known)
    }

    /// Makes sure that it is a ledger that the audit knows, and that it can be read as of one moment.
    async fn check(&mut self) -> Result<(), CannotCopy> {
        let there = sqlx::query_scalar::<_, i64>(D::HAS_VERSION).fetch_one(&mut self.conn);
        let there = timeout(ANSWER_MAX, there).await;
        let version = match self.answered(there)? {
            0 => 0,
            _ => {
                let sql = "SELECT coalesce(max(version), 0) FROM schema_version";
                let version = sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut self.conn);
                let version = timeout(ANSWER_MAX, version).await;
                self.answered(version)?
            }
        };
        let place = self.place.clone();
        match version {
            0 => return Err(CannotCopy::NotALedger { place }),
            SCHEMA_VERSION => {}
            found => return Err(CannotCopy::Version { place, found }),
        }
        if let Some(sql) = D::NOT_STILL {
            let table = sqlx::query_scalar::<_, String>(sql).fetch_optional(&mut self.conn);
            let table = timeout(ANSWER_MAX, table).await;
            if let Some(table) = self.answered(table)? {
                return Err(CannotCopy::NoSnapshot { place, table });
            }
        }
        Ok(())
    }

    /// Reads one table. Returns whether the pages are still wanted.
    async fn table(&mut self, number: usize, table: &file::Table) -> Result<bool, CannotCopy> {
        let quoted = |name: &str| format!("{0}{name}{0}", D::QUOTE);
        let columns: Vec<String> = table.columns.iter().map(|c| quoted(&c.name)).collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), quoted(&table.name));
        let values_max = PAGE_ROWS_MAX * columns.len();
        let empty = || Page {
            table: number,
            values: Vec::with_capacity(values_max),
        };
        let mut page = empty();
        let place = self.place.clone();
        let read = |error| CannotCopy::Read {
            place: place.clone(),
            why: in_one_line(&error),
        };
        let query = sqlx::query(AssertSqlSafe(sql));
        let mut rows = pin!(query.fetch(&mut self.conn));
        loop {
            let row = match timeout(ANSWER_MAX, rows.next()).await {
                Ok(None) => break,
                Ok(Some(row)) => row.map_err(read)?,
                Err(_) => {
                    return Err(CannotCopy::Silent {
                        place,
                        waited: ANSWER_MAX,
                    });
                }
            };
            for (index, column) in table.columns.iter().enumerate() {
                let value = D::value(&row, index, column).map_err(read)?;
                page.values.push(value.map_err(|found| CannotCopy::Type {
                    place: place.clone(),
                    table: table.name.clone(),
                    column: column.name.clone(),
                    found,
                    expected: column.holds.to_string(),
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

/// An error of the database on one line, each thing said once.
fn in_one_line(error: &sqlx::Error) -> String {
    let text = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
