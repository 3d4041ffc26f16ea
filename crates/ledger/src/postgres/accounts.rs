//! Accounts, postings, deposits and keys on PostgreSQL.

use sqlx::{PgConnection, Postgres, Result};

use super::ROWS_MAX;
use crate::{
    dialect::{Accounts, Keys},
    error::{all, contradiction},
    rows::{AccountKey, AccountRow, PostingRow},
};

impl Accounts for Postgres {
    async fn credit(
        conn: &mut PgConnection,
        accounts: &[(AccountKey<'_>, i64)],
    ) -> Result<Vec<i64>> {
        let mut ids = Vec::with_capacity(accounts.len());
        for accounts in accounts.chunks(ROWS_MAX) {
            let (mut owners, mut purposes, mut currencies, mut amounts) =
                (vec![], vec![], vec![], vec![]);
            for (key, amount) in accounts {
                let (owner, purpose, currency) = key.columns();
                owners.push(owner);
                purposes.push(purpose);
                currencies.push(currency);
                amounts.push(*amount);
            }
            let credit = sqlx::query_as::<_, (i64, String)>(include_str!("sql/credit.sql"))
                .bind(&owners)
                .bind(purposes)
                .bind(currencies)
                .bind(amounts);
            let rows = credit.fetch_all(&mut *conn).await?;
            // Rows come back in the order in which they went in; that is not taken on trust.
            if !rows.iter().map(|(_, owner)| owner).eq(owners) {
                return Err(contradiction(
                    "accounts came back in another order".to_owned(),
                ));
            }
            ids.extend(rows.into_iter().map(|(id, _)| id));
        }
        Ok(ids)
    }

    async fn accounts_of(conn: &mut PgConnection, owners: &[&str]) -> Result<Vec<AccountRow>> {
        type Columns = (i64, String, String, String, i64);
        let rows = sqlx::query_as::<_, Columns>(include_str!("sql/accounts_of.sql")).bind(owners);
        let row = |(id, owner, purpose, currency, balance)| AccountRow {
            id,
            owner,
            purpose,
            currency,
            balance,
        };
        Ok(rows.fetch_all(conn).await?.into_iter().map(row).collect())
    }

    async fn shift(conn: &mut PgConnection, moves: &[(i64, i64)]) -> Result<()> {
        let (ids, amounts): (Vec<i64>, Vec<i64>) = moves.iter().copied().unzip();
        if ids.len() > 1 {
            let lock = sqlx::query(include_str!("sql/lock_accounts.sql")).bind(&ids);
            lock.execute(&mut *conn).await?;
        }
        let shift = sqlx::query(include_str!("sql/shift.sql"))
            .bind(&ids)
            .bind(amounts);
        let shifted = shift.execute(conn).await?.rows_affected();
        all("accounts", shifted, moves.len())
    }

    async fn hold(conn: &mut PgConnection, account: AccountKey<'_>) -> Result<Option<(i64, i64)>> {
        let (owner, purpose, currency) = account.columns();
        sqlx::query_as(include_str!("sql/hold.sql"))
            .bind(owner)
            .bind(purpose)
            .bind(currency)
            .fetch_optional(conn)
            .await
    }

    async fn post(conn: &mut PgConnection, postings: &[PostingRow]) -> Result<()> {
        for postings in postings.chunks(ROWS_MAX) {
            let column = |of: fn(&PostingRow) -> i64| postings.iter().map(of).collect::<Vec<_>>();
            let nullable =
                |of: fn(&PostingRow) -> Option<i64>| postings.iter().map(of).collect::<Vec<_>>();
            let kinds: Vec<_> = postings.iter().map(|posting| posting.kind).collect();
            sqlx::query(include_str!("sql/post.sql"))
                .bind(column(|posting| posting.source))
                .bind(column(|posting| posting.seq))
                .bind(kinds)
                .bind(column(|posting| posting.debit))
                .bind(column(|posting| posting.credit))
                .bind(column(|posting| posting.amount))
                .bind(nullable(|posting| posting.campaign))
                .bind(nullable(|posting| posting.number))
                .bind(column(|posting| posting.at))
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn next_direct(conn: &mut PgConnection) -> Result<i64> {
        sqlx::query_scalar(include_str!("sql/next_direct.sql"))
            .fetch_one(conn)
            .await
    }

    async fn has_deposit(conn: &mut PgConnection, id: &str) -> Result<bool> {
        let there =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM deposits WHERE id = $1)").bind(id);
        there.fetch_one(conn).await
    }

    async fn enter_deposit(conn: &mut PgConnection, id: &str, posting: i64) -> Result<()> {
        let enter = sqlx::query("INSERT INTO deposits (id, posting) VALUES ($1, $2)")
            .bind(id)
            .bind(posting);
        enter.execute(conn).await?;
        Ok(())
    }
}

impl Keys for Postgres {
    async fn bound(
        conn: &mut PgConnection,
        scope: &str,
        key: &str,
    ) -> Result<Option<(Vec<u8>, String)>> {
        let sql = "SELECT fingerprint, id FROM idempotency_keys WHERE scope = $1 AND key = $2";
        sqlx::query_as(sql)
            .bind(scope)
            .bind(key)
            .fetch_optional(conn)
            .await
    }

    async fn bind(
        conn: &mut PgConnection,
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
