//! Migrations on MySQL and MariaDB. The server commits each statement that changes the schema. A broken migration is
//! run again from its start, so each of its statements can be repeated.

use sqlx::{MySql, MySqlConnection, Result};

use crate::{
    dialect::Dialect as _,
    schema::{MIGRATION_WAIT_S, SCHEMA_VERSION, Schema, TableKey},
};

impl Schema for MySql {
    const MIGRATIONS: [&'static str; SCHEMA_VERSION as usize] =
        [include_str!("../../migrations/mysql/0001_init.sql")];

    const UNIQUE_KEYS: &'static [(&'static str, &'static str)] = &[
        ("orders", "campaign,once_user"),
        ("payments", "campaign,number,pays"),
        ("webhook_places", "only_one"),
    ];

    async fn unique_keys(conn: &mut MySqlConnection) -> Result<Vec<TableKey>> {
        let columns =
            sqlx::query_as::<_, (String, String, String)>(include_str!("sql/unique_keys.sql"));
        let columns = columns.fetch_all(conn).await?;
        let is_same = |a: &(String, String, String), b: &(String, String, String)| {
            (&a.0, &a.1) == (&b.0, &b.1)
        };
        let keys = columns.chunk_by(is_same).map(|columns| {
            let names: Vec<_> = columns.iter().map(|(_, _, column)| &**column).collect();
            (columns[0].0.clone(), names.join(","))
        });
        Ok(keys.collect())
    }

    /// Each table has its own.
    async fn narrow_encoding(_conn: &mut MySqlConnection) -> Result<Option<String>> {
        Ok(None)
    }

    async fn set_up_migration(conn: &mut MySqlConnection) -> Result<()> {
        Self::run(conn, include_str!("sql/migration_session.sql")).await
    }

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
