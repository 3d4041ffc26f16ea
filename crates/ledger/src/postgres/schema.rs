//! Migrations on PostgreSQL: each is one transaction with its version.

use sqlx::{PgConnection, Postgres, Result};

use super::run_settings;
use crate::{
    dialect::Dialect as _,
    schema::{MIGRATION_WAIT_S, SCHEMA_VERSION, Schema, TableKey},
};

/// Advisory lock of the process that migrates; "qiang" in ASCII.
const LOCK: i64 = 0x71_69_61_6e_67;

impl Schema for Postgres {
    const MIGRATIONS: [&'static str; SCHEMA_VERSION as usize] =
        [include_str!("../../migrations/postgres/0001_init.sql")];

    const UNIQUE_KEYS: &'static [(&'static str, &'static str)] =
        &[("orders", "campaign,user"), ("payments", "campaign,number")];

    async fn unique_keys(conn: &mut PgConnection) -> Result<Vec<TableKey>> {
        let keys = sqlx::query_as(include_str!("sql/unique_keys.sql"));
        keys.fetch_all(conn).await
    }

    async fn narrow_encoding(conn: &mut PgConnection) -> Result<Option<String>> {
        let encoding = sqlx::query_scalar::<_, String>("SELECT current_setting('server_encoding')");
        let encoding = encoding.fetch_one(conn).await?;
        // SQL_ASCII takes bytes as they are.
        Ok((encoding != "UTF8" && encoding != "SQL_ASCII").then_some(encoding))
    }

    async fn set_up_migration(conn: &mut PgConnection) -> Result<()> {
        run_settings(conn, include_str!("sql/migration_session.sql")).await
    }

    async fn version(conn: &mut PgConnection) -> Result<i64> {
        let there = sqlx::query_scalar("SELECT to_regclass('schema_version') IS NOT NULL");
        if !there.fetch_one(&mut *conn).await? {
            return Ok(0);
        }
        let version = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM schema_version");
        version.fetch_one(&mut *conn).await
    }

    async fn lock(conn: &mut PgConnection) -> Result<bool> {
        let wait = format!("{MIGRATION_WAIT_S}s");
        let bound = sqlx::query("SELECT set_config('lock_timeout', $1, false)").bind(wait);
        bound.execute(&mut *conn).await?;
        let locked = sqlx::query("SELECT pg_advisory_lock($1)")
            .bind(LOCK)
            .execute(&mut *conn)
            .await;
        match locked {
            Ok(_) => Ok(true),
            // The wait for the lock was given up.
            Err(sqlx::Error::Database(error))
                if error.code().is_some_and(|code| code == "55P03") =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn prepare(conn: &mut PgConnection) -> Result<()> {
        Self::run(conn, include_str!("sql/schema_version.sql")).await
    }

    async fn apply(conn: &mut PgConnection, version: i64, migration: &'static str) -> Result<()> {
        Self::run(conn, Self::BEGIN).await?;
        Self::run(conn, migration).await?;
        let done = sqlx::query("INSERT INTO schema_version (version) VALUES ($1)").bind(version);
        done.execute(&mut *conn).await?;
        Self::run(conn, "COMMIT").await?;
        Ok(())
    }
}
