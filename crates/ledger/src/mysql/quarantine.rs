//! Entries that are set quarantine, on MySQL and MariaDB.

use sqlx::{MySql, MySqlConnection, Result};

use super::rows::{pieces, query, query_as};
use crate::{
    dialect::Quarantine,
    error::all,
    rows::{AsideColumns, AsideRow},
};

impl Quarantine for MySql {
    async fn any_quarantined(conn: &mut MySqlConnection, partition: i64) -> Result<bool> {
        let any = sqlx::query("SELECT 1 FROM set_aside WHERE `partition` = ? LIMIT 1");
        Ok(any.bind(partition).fetch_optional(conn).await?.is_some())
    }

    async fn first_quarantined(
        conn: &mut MySqlConnection,
        partition: i64,
        campaigns: &[String],
    ) -> Result<Vec<(String, i64)>> {
        let mut found = Vec::new();
        for campaigns in pieces(campaigns) {
            let file = include_str!("sql/first_quarantined.sql");
            let mut first = query_as(file, campaigns.len()).bind(partition);
            for campaign in campaigns {
                first = first.bind(campaign);
            }
            found.extend(first.fetch_all(&mut *conn).await?);
        }
        Ok(found)
    }

    async fn quarantined_of(
        conn: &mut MySqlConnection,
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
        conn: &mut MySqlConnection,
        partition: i64,
        seq: i64,
    ) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT entry FROM set_aside WHERE `partition` = ? AND seq = ?")
            .bind(partition)
            .bind(seq)
            .fetch_optional(conn)
            .await
    }

    async fn put_quarantined(
        conn: &mut MySqlConnection,
        partition: i64,
        rows: &[AsideRow],
    ) -> Result<()> {
        for rows in pieces(rows) {
            let mut put = query(include_str!("sql/put_quarantined.sql"), rows.len());
            for row in rows {
                put = put
                    .bind(partition)
                    .bind(row.seq)
                    .bind(&row.campaign)
                    .bind(&row.entry)
                    .bind(&row.reason)
                    .bind(row.waits_for)
                    .bind(row.at);
            }
            put.execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn take_back(conn: &mut MySqlConnection, partition: i64, seq: i64) -> Result<()> {
        let taken = sqlx::query("DELETE FROM set_aside WHERE `partition` = ? AND seq = ?")
            .bind(partition)
            .bind(seq);
        all(
            "entries that are set aside",
            taken.execute(conn).await?.rows_affected(),
            1,
        )
    }

    async fn count_quarantined(conn: &mut MySqlConnection, partition: i64) -> Result<(i64, i64)> {
        let count = sqlx::query_as(include_str!("sql/count_quarantined.sql"));
        count.bind(partition).fetch_one(conn).await
    }

    async fn list_quarantined(
        conn: &mut MySqlConnection,
        (partition, seq): (i64, i64),
        limit: i64,
    ) -> Result<Vec<AsideColumns>> {
        sqlx::query_as(include_str!("sql/list_quarantined.sql"))
            .bind(partition)
            .bind(partition)
            .bind(seq)
            .bind(limit)
            .fetch_all(conn)
            .await
    }
}
