//! Dialect: the statements of a database and their values, without logic. All decisions are made once, above this
//! trait.
//!
//! The functions use a connection with an open transaction; the caller commits it. If a function is cancelled half-way,
//! its connection is not used again.

use std::future::Future;

use qiang_core::rows::Value;
use sqlx::{Connection, Database, Result, error::DatabaseError};

use crate::{error::contradiction, schema::Schema};

/// Meaning of a database error for the caller's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The transaction was rolled back in favour of another one: retry it.
    Retry,
    /// Rows contradict each other.
    Contradiction,
    /// A number left its range.
    Overflow,
    /// The server or the session is read-only, and the transaction is rolled back. The server may have become a
    /// replica, or the session began while the database was read-only and stays so.
    ReadOnly,
    /// The session ends or has lost its state: a new one may do the same work.
    Session,
    /// Any other error: the server is full, or does not know the table.
    Other,
}

/// Statement in the dialect of each database.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) postgres: &'static str,
    pub(crate) mysql: &'static str,
}

/// Makes a [`Statement`] from the files `postgres/sql/NAME.sql` and `mysql/sql/NAME.sql`. After `both`, takes one text
/// for both databases, with PostgreSQL's placeholders.
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

/// Replaces `$1`, `$2` and so on by `? `, for up to 99 values. Placeholders out of order do not compile.
pub(crate) const fn unnumbered<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let bytes = text.as_bytes();
    let mut unnumbered = [b' '; LENGTH];
    let (mut place, mut number) = (0, 0);
    while place < LENGTH {
        unnumbered[place] = bytes[place];
        if bytes[place] == b'$' {
            unnumbered[place] = b'?';
            place += 1;
            number += 1;
            if number > 9 {
                let is_next = bytes[place] == b'0' + number / 10;
                assert!(is_next, "values are numbered in their order");
                place += 1;
            }
            let is_next = bytes[place] == b'0' + number % 10;
            assert!(is_next, "values are numbered in their order");
        }
        place += 1;
    }
    unnumbered
}

/// Statement with its values.
pub(crate) type Query<D> = sqlx::query::Query<'static, D, <D as Database>::Arguments>;

/// Database whose tables the ledger knows.
pub(crate) trait Dialect: Schema {
    /// Statement that begins a transaction in which each statement sees all committed rows.
    const BEGIN: &'static str;

    /// Parses the connection options of a URL.
    fn at(url: &str) -> Result<<Self::Connection as Connection>::Options>;

    /// Whether two connections share sessions of the database. Connections through PgBouncer do, unless its mode is
    /// `session`. Settings, prepared statements and locks of a session then belong to no connection.
    fn shares_sessions(
        at: &<Self::Connection as Connection>::Options,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Prepares a new connection of the pool.
    fn set_up(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Classifies an error of the database.
    fn class(error: &dyn DatabaseError) -> ErrorClass;

    /// Warnings for the operator about server settings that can lose commits.
    fn durability_warnings(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Runs text without values.
    fn run(
        conn: &mut Self::Connection,
        text: &'static str,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Binds values to a statement.
    fn query(statement: &'static Statement, values: &[Value<'_>]) -> Query<Self>;

    /// Binds a few values and then rows to a statement, at most [`Self::rows_at_once`] rows.
    fn query_of<const N: usize>(
        statement: &'static Statement,
        values: &[Value<'_>],
        rows: &[[Value<'_>; N]],
    ) -> Query<Self>;

    /// Number of rows that the next statement takes if `rows` are left.
    fn rows_at_once(rows: usize) -> usize;

    /// Runs a query. Returns the number of affected rows.
    fn touch(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Runs a query. Returns its rows.
    fn fetch(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<Vec<Self::Row>>> + Send;

    /// Inserts a row. Returns the number that the database gave it.
    fn insert(
        conn: &mut Self::Connection,
        query: Query<Self>,
    ) -> impl Future<Output = Result<i64>> + Send;

    /// Runs a statement. Returns the number of affected rows.
    fn execute(
        conn: &mut Self::Connection,
        statement: &'static Statement,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64>> + Send {
        Self::touch(conn, Self::query(statement, values))
    }

    /// Runs a statement that takes rows. Returns the number of affected rows.
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

    /// Takes the next number for a posting without a log entry. The caller blocks other transactions until its own one
    /// ends, so it takes the number last.
    fn next_direct(conn: &mut Self::Connection) -> impl Future<Output = Result<i64>> + Send;

    /// Number of the `given` shares that were assigned, computed from the affected rows.
    fn assigned(touched: u64, given: u64) -> u64;

    /// Reads a number from a column.
    fn int(row: &Self::Row, column: usize) -> Result<Option<i64>>;
    /// Reads text from a column.
    fn text(row: &Self::Row, column: usize) -> Result<Option<String>>;
    /// Reads bytes from a column.
    fn bytes(row: &Self::Row, column: usize) -> Result<Option<Vec<u8>>>;
}

/// Splits rows into pieces for one statement each.
pub(crate) fn pieces<D: Dialect, T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let (piece, rest) = rows.split_at(D::rows_at_once(rows.len()));
        rows = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Runs a statement and reads its rows.
pub(crate) async fn fetch<D: Dialect, T: FromColumns>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    values: &[Value<'_>],
) -> Result<Vec<T>> {
    let rows = D::fetch(conn, D::query(statement, values)).await?;
    rows.iter().map(read::<D, T>).collect()
}

/// Runs a statement that takes a few values and then rows, and reads its rows.
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
    T::read(&mut RowColumns::<D> { row, next: 0 })
}

/// Reader of the columns of a row, from the first one on.
pub(crate) struct RowColumns<'r, D: Database> {
    row: &'r D::Row,
    next: usize,
}

impl<D: Dialect> RowColumns<'_, D> {
    /// Reads the next column.
    pub(crate) fn next<T: FromColumn>(&mut self) -> Result<T> {
        let column = self.next;
        self.next += 1;
        T::read::<D>(self.row, column)
    }
}

/// Type that one column can be read as.
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

/// Type that the columns of a row can be read as.
pub(crate) trait FromColumns: Sized {
    fn read<D: Dialect>(columns: &mut RowColumns<'_, D>) -> Result<Self>;
}

macro_rules! from_columns {
    ($($type:ident)*) => {
        impl<$($type: FromColumn),*> FromColumns for ($($type,)*) {
            fn read<D: Dialect>(columns: &mut RowColumns<'_, D>) -> Result<Self> {
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
from_columns!(A B C D1 E F G H I J);
from_columns!(A B C D1 E F G H I J K);
from_columns!(A B C D1 E F G H I J K L M N);
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
        const LONG: Statement = sql!(both "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
        let filled = "(? , ? , ? , ? , ? , ? , ? , ? , ? , ?  , ?  )";
        assert_eq!(LONG.mysql, filled);
    }
}
