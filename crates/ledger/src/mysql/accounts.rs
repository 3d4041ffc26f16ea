//! Accounts, postings, deposits and keys on MySQL and MariaDB.

use std::collections::HashMap;

use sqlx::{MySql, MySqlConnection, Result};

use super::rows::{pieces, query, query_as};
use crate::{
    dialect::{Accounts, Keys},
    error::all,
    rows::{AccountKey, AccountRow, PostingRow},
};

impl Accounts for MySql {
    async fn credit(
        conn: &mut MySqlConnection,
        accounts: &[(AccountKey<'_>, i64)],
    ) -> Result<Vec<i64>> {
        let mut ids = Vec::with_capacity(accounts.len());
        for accounts in pieces(accounts) {
            let mut credit = query_as::<(i64,)>(include_str!("sql/credit.sql"), accounts.len());
            for (key, amount) in accounts {
                let (owner, purpose, currency) = key.columns();
                credit = credit.bind(owner).bind(purpose).bind(currency).bind(amount);
            }
            ids.extend(
                credit
                    .fetch_all(&mut *conn)
                    .await?
                    .into_iter()
                    .map(|(id,)| id),
            );
        }
        if ids.len() == accounts.len() {
            return Ok(ids);
        }
        // MySQL tells no ids.
        let owners: Vec<_> = accounts.iter().map(|(key, _)| key.owner).collect();
        let rows = Self::accounts_of(conn, &owners).await?;
        let ids: HashMap<_, _> = rows.iter().map(|row| (row.key(), row.id)).collect();
        let id = |(key, _): &(AccountKey<'_>, i64)| ids.get(&key.columns()).copied();
        let ids: Option<Vec<i64>> = accounts.iter().map(id).collect();
        ids.ok_or(sqlx::Error::RowNotFound)
    }

    async fn accounts_of(conn: &mut MySqlConnection, owners: &[&str]) -> Result<Vec<AccountRow>> {
        let mut found = Vec::with_capacity(owners.len());
        for owners in pieces(owners) {
            type Columns = (i64, String, String, String, i64);
            let mut accounts =
                query_as::<Columns>(include_str!("sql/accounts_of.sql"), owners.len());
            for owner in owners {
                accounts = accounts.bind(*owner);
            }
            for (id, owner, purpose, currency, balance) in accounts.fetch_all(&mut *conn).await? {
                found.push(AccountRow {
                    id,
                    owner,
                    purpose,
                    currency,
                    balance,
                });
            }
        }
        Ok(found)
    }

    async fn shift(conn: &mut MySqlConnection, moves: &[(i64, i64)]) -> Result<()> {
        for moves in pieces(moves) {
            if moves.len() > 1 {
                let mut lock = query(include_str!("sql/lock_accounts.sql"), moves.len());
                for (id, _) in moves {
                    lock = lock.bind(id);
                }
                lock.execute(&mut *conn).await?;
            }
            let mut shift = query(include_str!("sql/shift.sql"), moves.len());
            for (id, amount) in moves {
                shift = shift.bind(id).bind(amount);
            }
            all(
                "accounts",
                shift.execute(&mut *conn).await?.rows_affected(),
                moves.len(),
            )?;
        }
        Ok(())
    }

    async fn hold(
        conn: &mut MySqlConnection,
        account: AccountKey<'_>,
    ) -> Result<Option<(i64, i64)>> {
        let (owner, purpose, currency) = account.columns();
        sqlx::query_as(include_str!("sql/hold.sql"))
            .bind(owner)
            .bind(purpose)
            .bind(currency)
            .fetch_optional(conn)
            .await
    }

    async fn post(conn: &mut MySqlConnection, postings: &[PostingRow]) -> Result<()> {
        for postings in pieces(postings) {
            let mut post = query(include_str!("sql/post.sql"), postings.len());
            for posting in postings {
                post = post
                    .bind(posting.source)
                    .bind(posting.seq)
                    .bind(posting.kind)
                    .bind(posting.debit)
                    .bind(posting.credit)
                    .bind(posting.amount)
                    .bind(posting.campaign)
                    .bind(posting.number)
                    .bind(posting.at);
            }
            post.execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn next_direct(conn: &mut MySqlConnection) -> Result<i64> {
        sqlx::query("UPDATE direct_postings SET seq = seq + 1")
            .execute(&mut *conn)
            .await?;
        sqlx::query_scalar("SELECT seq FROM direct_postings")
            .fetch_one(conn)
            .await
    }

    async fn has_deposit(conn: &mut MySqlConnection, id: &str) -> Result<bool> {
        let there = sqlx::query("SELECT 1 FROM deposits WHERE id = ?").bind(id);
        Ok(there.fetch_optional(conn).await?.is_some())
    }

    async fn enter_deposit(conn: &mut MySqlConnection, id: &str, posting: i64) -> Result<()> {
        let enter = sqlx::query("INSERT INTO deposits (id, posting) VALUES (?, ?)")
            .bind(id)
            .bind(posting);
        enter.execute(conn).await?;
        Ok(())
    }
}

impl Keys for MySql {
    async fn bound(
        conn: &mut MySqlConnection,
        scope: &str,
        key: &str,
    ) -> Result<Option<(Vec<u8>, String)>> {
        let sql = "SELECT fingerprint, id FROM idempotency_keys WHERE scope = ? AND `key` = ?";
        sqlx::query_as(sql)
            .bind(scope)
            .bind(key)
            .fetch_optional(conn)
            .await
    }

    async fn bind(
        conn: &mut MySqlConnection,
        scope: &str,
        key: &str,
        fingerprint: &[u8],
        id: &str,
        at: i64,
    ) -> Result<()> {
        let bind = sqlx::query(include_str!("sql/bind.sql"))
            .bind(scope)
            .bind(key)
            .bind(fingerprint)
            .bind(id)
            .bind(at);
        bind.execute(conn).await?;
        Ok(())
    }
}
