//! Entries that are set quarantine, on PostgreSQL.

use sqlx::{PgConnection, Postgres, Result};

use super::ROWS_MAX;
use crate::{
    dialect::Quarantine,
    error::all,
    rows::{AsideColumns, AsideRow},
};

impl Quarantine for Postgres {
    async fn any_quarantined(conn: &mut PgConnection, partition: i64) -> Result<bool> {
        let any = sqlx::query_scalar("SELECT EXISTS (SELECT FROM set_aside WHERE partition = $1)");
        any.bind(partition).fetch_one(conn).await
    }

    async fn first_quarantined(
        conn: &mut PgConnection,
        partition: i64,
        campaigns: &[String],
    ) -> Result<Vec<(String, i64)>> {
        let first = sqlx::query_as(include_str!("sql/first_quarantined.sql"));
        first.bind(partition).bind(campaigns).fetch_all(conn).await
    }

    async fn quarantined_of(
        conn: &mut PgConnection,
        partition: i64,
        campaign: &str,
        before: i64,
    ) -> Result<Vec<(i64, String)>> {
        sqlx::query_as(include_str!("sql/quarantined_of.sql"))
            .bind(partition)
            .bind(campaign)
            .bind(before)
            .fetch_all(conn)
            .await
    }

    async fn quarantined_at(
        conn: &mut PgConnection,
        partition: i64,
        seq: i64,
    ) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT entry FROM set_aside WHERE partition = $1 AND seq = $2")
            .bind(partition)
            .bind(seq)
            .fetch_optional(conn)
            .await
    }

    async fn put_quarantined(
        conn: &mut PgConnection,
        partition: i64,
        rows: &[AsideRow],
    ) -> Result<()> {
        for rows in rows.chunks(ROWS_MAX) {
            let numbers = |of: fn(&AsideRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
            let texts = |of: fn(&AsideRow) -> &str| rows.iter().map(of).collect::<Vec<_>>();
            let waits_for: Vec<_> = rows.iter().map(|row| row.waits_for).collect();
            sqlx::query(include_str!("sql/put_quarantined.sql"))
                .bind(partition)
                .bind(numbers(|row| row.seq))
                .bind(texts(|row| &row.campaign))
                .bind(texts(|row| &row.entry))
                .bind(texts(|row| &row.reason))
                .bind(waits_for)
                .bind(numbers(|row| row.at))
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn take_back(conn: &mut PgConnection, partition: i64, seq: i64) -> Result<()> {
        let taken = sqlx::query("DELETE FROM set_aside WHERE partition = $1 AND seq = $2")
            .bind(partition)
            .bind(seq);
        all(
            "entries that are set aside",
            taken.execute(conn).await?.rows_affected(),
            1,
        )
    }

    async fn count_quarantined(conn: &mut PgConnection, partition: i64) -> Result<(i64, i64)> {
        let count = sqlx::query_as(include_str!("sql/count_quarantined.sql"));
        count.bind(partition).fetch_one(conn).await
    }

    async fn list_quarantined(
        conn: &mut PgConnection,
        (partition, seq): (i64, i64),
        limit: i64,
    ) -> Result<Vec<AsideColumns>> {
        sqlx::query_as(include_str!("sql/list_quarantined.sql"))
            .bind(partition)
            .bind(seq)
            .bind(limit)
            .fetch_all(conn)
            .await
    }
}
