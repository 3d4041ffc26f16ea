//! What a database has to offer: statements with values, and no logic. Whatever decides what is written is written
//! once, above this trait.
//!
//! The functions work on a connection whose transaction somebody else began and will commit. None of them is ever
//! cancelled half way on a connection that is used again.

use std::future::Future;

use qiang_core::rows::Value;
use sqlx::{Connection, Database, Result, error::DatabaseError};

use crate::{error::contradiction, schema::Schema};

/// What a database's error means for the work that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The transaction was undone to let another one go on: once again.
    Retry,
    /// The rows refuse each other.
    Contradiction,
    /// A number left its range.
    Overflow,
    /// Server or session take no writes, and the transaction is undone: the server may be a replica by now, or the
    /// session began while the database was read-only and keeps that.
    ReadOnly,
    /// The session ends, or has lost its state: a new one may do the same work.
    Session,
    /// Anything else: the server is full, or does not know the table.
    Other,
}

/// A statement, as each database writes it.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) postgres: &'static str,
    pub(crate) mysql: &'static str,
}

/// The statement in the files `postgres/sql/NAME.sql` and `mysql/sql/NAME.sql`; or, after `both`, a text that both
/// databases take, with values as PostgreSQL writes them.
macro_rules! sql {
    (both $text:expr) => {{
        const TEXT: &str = $text;
        const UNNUMBERED: [u8; TEXT.len()] = $crate::dialect::unnumbered(TEXT);
        $crate::dialect::Statement {
            postgres: TEXT,
            mysql: match std::str::from_utf8(&UNNUMBERED) {
                Ok(text) => text,
                Err(_) => panic!("only ASCII was replaced"),
            },
        }
    }};
    ($name:literal) => {
        $crate::dialect::Statement {
            postgres: include_str!(concat!("postgres/sql/", $name, ".sql")),
            mysql: include_str!(concat!("mysql/sql/", $name, ".sql")),
        }
    };
}
pub(crate) use sql;

/// A statement with `? ` in place of `$1`, `$2` and so on, up to 9 values. Any other order does not compile.
pub(crate) const fn unnumbered<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let bytes = text.as_bytes();
    let mut unnumbered = [b' '; LENGTH];
    let (mut place, mut number) = (0, b'0');
    while place < LENGTH {
        unnumbered[place] = bytes[place];
        if bytes[place] == b'$' {
            unnumbered[place] = b'?';
            place += 1;
            number += 1;
            assert!(bytes[place] == number, "values are numbered in their order");
        }
        place += 1;
    }
    unnumbered
}

/// A statement with its values.
pub(crate) type Query<D> = sqlx::query::Query<'static, D, <D as Database>::Arguments>;

/// A database whose tables the ledger knows.
pub(crate) trait Dialect: Schema {
    /// Begins a transaction in which each statement sees what is committed.
    const BEGIN: &'static str;

    /// How to connect to the database at a URL.
    fn at(url: &str) -> Result<<Self::Connection as Connection>::Options>;

    /// Whether two connections share sessions of the database, as those through PgBouncer do unless its mode is
    /// `session`: what a session is set to, has prepared or has locked belongs to no connection then.
    fn shares_sessions(
        at: &<Self::Connection as Connection>::Options,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Prepares a new connection of the pool for its work.
    fn set_up(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// What an error of the database means.
    fn class(error: &dyn DatabaseError) -> Class;

    /// Which of the server's settings could lose commits, in words for the operator.
    fn durability_warnings(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Runs text without values.
    fn run(
        conn: &mut Self::Connection,
        text: &'static str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// A statement that takes values.
    fn query(statement: &'static Statement, values: &[Value<'_>]) -> Query<Self>;

    /// A statement that takes a few values and then rows, as many as [`Self::rows_at_once`] allows.
    fn query_of<const N: usize>(
        statement: &'static Statement,
        values: &[Value<'_>],
        rows: &[[Value<'_>; N]],
    ) -> Query<Self>;

    /// How many of so many rows the next statement takes.
    fn rows_at_once(rows: usize) -> usize;

    /// Runs a query; returns how many rows it touched.
    fn touch(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Runs a query, and returns its rows.
    fn fetch(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<Vec<Self::Row>>> + Send;

    /// Inserts a row, and returns the number that the database gave it.
    fn insert(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<i64>> + Send;

    /// Runs a statement; returns how many rows it touched.
    fn execute(
        conn: &mut Self::Connection,
        statement: &'static Statement,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64>> + Send {
        Self::touch(conn, Self::query(statement, values))
    }

    /// Runs a statement that takes rows; returns how many rows it touched.
    fn execute_rows<const N: usize>(
        conn: &mut Self::Connection,
        statement: &'static Statement,
        rows: &[[Value<'_>; N]],
    ) -> impl Future<Output = Result<u64>> + Send {
        async move {
            let mut touched = 0;
            for rows in pieces::<Self, _>(rows) {
                let query = Self::query_of(statement, &[], rows);
                touched += Self::touch(&mut *conn, query).await?;
            }
            Ok(touched)
        }
    }

    /// Takes the next number for a posting that follows from no log entry. Whoever has it holds up the others until its
    /// transaction ends: it is taken last.
    fn next_direct(conn: &mut Self::Connection) -> impl Future<Output = Result<i64>> + Send;

    /// How many of `given` shares were assigned, where the statement touched so many rows.
    fn assigned(touched: u64, given: u64) -> u64;

    /// The number in a column.
    fn int(row: &Self::Row, column: usize) -> Result<Option<i64>>;
    /// The text in a column.
    fn text(row: &Self::Row, column: usize) -> Result<Option<String>>;
    /// The bytes in a column.
    fn bytes(row: &Self::Row, column: usize) -> Result<Option<Vec<u8>>>;
}

/// Cuts a run of rows into pieces that one statement takes.
pub(crate) fn pieces<D: Dialect, T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let (piece, rest) = rows.split_at(D::rows_at_once(rows.len()));
        rows = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Runs a statement, and reads its rows.
pub(crate) async fn fetch<D: Dialect, T: FromColumns>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    values: &[Value<'_>],
) -> Result<Vec<T>> {
    let rows = D::fetch(conn, D::query(statement, values)).await?;
    rows.iter().map(read::<D, T>).collect()
}

/// The same for a statement that takes a few values and then rows.
pub(crate) async fn fetch_of<D: Dialect, T: FromColumns, const N: usize>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    values: &[Value<'_>],
    rows: &[[Value<'_>; N]],
) -> Result<Vec<T>> {
    let mut found = Vec::with_capacity(rows.len());
    for rows in pieces::<D, _>(rows) {
        let rows = D::fetch(&mut *conn, D::query_of(statement, values, rows)).await?;
        for row in &rows {
            found.push(read::<D, T>(row)?);
        }
    }
    Ok(found)
}

/// Runs a statement that returns at most one row.
pub(crate) async fn fetch_one<D: Dialect, T: FromColumns>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    values: &[Value<'_>],
) -> Result<Option<T>> {
    let rows = D::fetch(conn, D::query(statement, values)).await?;
    rows.first().map(read::<D, T>).transpose()
}

fn read<D: Dialect, T: FromColumns>(row: &D::Row) -> Result<T> {
    T::read(&mut Columns::<D> { row, next: 0 })
}

/// The columns of a row, from the first one on.
pub(crate) struct Columns<'r, D: Database> {
    row: &'r D::Row,
    next: usize,
}

impl<D: Dialect> Columns<'_, D> {
    /// The next column.
    pub(crate) fn next<T: FromColumn>(&mut self) -> Result<T> {
        let column = self.next;
        self.next += 1;
        T::read::<D>(self.row, column)
    }
}

/// What a column can be read as.
pub(crate) trait FromColumn: Sized {
    fn read<D: Dialect>(row: &D::Row, column: usize) -> Result<Self>;
}

macro_rules! from_column {
    ($type:ty, $read:ident) => {
        impl FromColumn for Option<$type> {
            fn read<D: Dialect>(row: &D::Row, column: usize) -> Result<Self> {
                D::$read(row, column)
            }
        }

        impl FromColumn for $type {
            fn read<D: Dialect>(row: &D::Row, column: usize) -> Result<Self> {
                let value = D::$read(row, column)?;
                value.ok_or_else(|| contradiction(format!("column {column} of a row is null")))
            }
        }
    };
}
from_column!(i64, int);
from_column!(String, text);
from_column!(Vec<u8>, bytes);

/// What a row can be read as.
pub(crate) trait FromColumns: Sized {
    fn read<D: Dialect>(columns: &mut Columns<'_, D>) -> Result<Self>;
}

macro_rules! from_columns {
    ($($type:ident)*) => {
        impl<$($type: FromColumn),*> FromColumns for ($($type,)*) {
            fn read<D: Dialect>(columns: &mut Columns<'_, D>) -> Result<Self> {
                Ok(($(columns.next::<$type>()?,)*))
            }
        }
    };
}
from_columns!(A);
from_columns!(A B);
from_columns!(A B C);
from_columns!(A B C D1);
from_columns!(A B C D1 E);
from_columns!(A B C D1 E F);
from_columns!(A B C D1 E F G);
from_columns!(A B C D1 E F G H);
from_columns!(A B C D1 E F G H I);
from_columns!(A B C D1 E F G H I J K);
from_columns!(A B C D1 E F G H I J K L M N O);
from_columns!(A B C D1 E F G H I J K L M N O P);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_take_a_common_text() {
        const COMMON: Statement = sql!(both r#"UPDATE a SET b = $1 WHERE "key" = $2"#);
        assert_eq!(COMMON.postgres, r#"UPDATE a SET b = $1 WHERE "key" = $2"#);
        assert_eq!(COMMON.mysql, r#"UPDATE a SET b = ?  WHERE "key" = ? "#);
    }
}
