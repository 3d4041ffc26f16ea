//! Migrations on MySQL and MariaDB. The server commits each statement that changes the schema by itself: what a
//! broken migration left is gone over again, so each of its statements can be repeated.

use sqlx::{MySql, MySqlConnection, Result};

use crate::{
    dialect::Dialect as _,
    schema::{MIGRATION_WAIT_S, SCHEMA_VERSION, Schema},
};

impl Schema for MySql {
    const MIGRATIONS: [&'static str; SCHEMA_VERSION as usize] =
        [include_str!("../../migrations/mysql/0001_init.sql")];

    async fn version(conn: &mut MySqlConnection) -> Result<i64> {
        let there = sqlx::query_scalar::<_, i64>(include_str!("sql/has_version.sql"));
        if there.fetch_one(&mut *conn).await? == 0 {
            return Ok(0);
        }
        let version = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM schema_version");
        version.fetch_one(&mut *conn).await
    }

    async fn lock(conn: &mut MySqlConnection) -> Result<bool> {
        // A lock's name has at most 64 characters and belongs to the whole server. MySQL 9 has no MD5().
        let sql =
            "SELECT CAST(GET_LOCK(CONCAT('qiang:', LEFT(SHA2(DATABASE(), 256), 32)), ?) AS SIGNED)";
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
