//! Migrations on MySQL and MariaDB. The server commits each statement that changes the schema by itself: what a
//! broken migration left is gone over again, so each of its statements can be repeated.

use sqlx::{MySql, MySqlConnection, Result};

use crate::{
    dialect::Dialect as _,
    schema::{MIGRATION_WAIT_S, SCHEMA_VERSION, Schema},
};

impl Schema for MySql {
    const MIGRATIONS: [&'static str; SCHEMA_VERSION as usize] = [
        include_str!("../../migrations/mysql/0001_init.sql"),
        include_str!("../../migrations/mysql/0002_set_aside.sql"),
        include_str!("../../migrations/mysql/0003_keys_and_repairs.sql"),
        include_str!("../../migrations/mysql/0004_returns.sql"),
        include_str!("../../migrations/mysql/0005_stock_changed.sql"),
        include_str!("../../migrations/mysql/0006_requirements.sql"),
        include_str!("../../migrations/mysql/0007_admission.sql"),
        include_str!("../../migrations/mysql/0008_audiences.sql"),
        include_str!("../../migrations/mysql/0009_waiting_rooms.sql"),
        include_str!("../../migrations/mysql/0010_discards.sql"),
        include_str!("../../migrations/mysql/0011_details.sql"),
        include_str!("../../migrations/mysql/0012_terms_changed.sql"),
        include_str!("../../migrations/mysql/0013_payouts.sql"),
        include_str!("../../migrations/mysql/0014_actions.sql"),
        include_str!("../../migrations/mysql/0015_keys_purged.sql"),
        include_str!("../../migrations/mysql/0016_webhooks.sql"),
        include_str!("../../migrations/mysql/0017_histories.sql"),
        include_str!("../../migrations/mysql/0018_owed.sql"),
        include_str!("../../migrations/mysql/0019_origin_of_seeds.sql"),
        include_str!("../../migrations/mysql/0020_claimed_and_live.sql"),
        include_str!("../../migrations/mysql/0021_engine.sql"),
        include_str!("../../migrations/mysql/0022_key_answers.sql"),
        include_str!("../../migrations/mysql/0023_deposit_references.sql"),
        include_str!("../../migrations/mysql/0024_admission_of_terms.sql"),
        include_str!("../../migrations/mysql/0025_updated_at.sql"),
        include_str!("../../migrations/mysql/0026_other_amounts.sql"),
        include_str!("../../migrations/mysql/0027_payment_policy.sql"),
    ];

    async fn version(conn: &mut MySqlConnection) -> Result<i64> {
        let there = sqlx::query_scalar::<_, i64>(include_str!("sql/has_version.sql"));
        if there.fetch_one(&mut *conn).await? == 0 {
            return Ok(0);
        }
        let version = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM schema_version");
        version.fetch_one(&mut *conn).await
    }

    async fn lock(conn: &mut MySqlConnection) -> Result<bool> {
        // Names of locks belong to the whole server, and are short.
        let sql = "SELECT CAST(GET_LOCK(CONCAT('qiang:', MD5(DATABASE())), ?) AS SIGNED)";
        let locked = sqlx::query_scalar::<_, Option<i64>>(sql).bind(MIGRATION_WAIT_S as i64);
        Ok(locked.fetch_one(&mut *conn).await? == Some(1))
    }

    async fn prepare(conn: &mut MySqlConnection) -> Result<()> {
        Self::set_up(conn).await?;
        Self::run(conn, include_str!("sql/schema_version.sql")).await
    }

    async fn apply(
        conn: &mut MySqlConnection,
        version: i64,
        migration: &'static str,
    ) -> Result<()> {
        Self::run(conn, migration).await?;
        let done = sqlx::query("INSERT INTO schema_version (version) VALUES (?)").bind(version);
        done.execute(&mut *conn).await?;
        Ok(())
    }
}
