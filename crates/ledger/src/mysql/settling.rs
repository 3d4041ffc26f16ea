//! What settlement reads and writes on MySQL and MariaDB.

use sqlx::{MySql, MySqlConnection, Result};

use super::rows::{pieces, query, query_as};
use crate::{
    dialect::Settling,
    error::all,
    rows::{
        CampaignChange, KnownCampaign, KnownCampaignColumns, KnownOrder, NewOrder, OrderChange,
        PartChange, PaymentRow, ShareGrant,
    },
};

impl Settling for MySql {
    async fn positions(
        conn: &mut MySqlConnection,
        partition: Option<i64>,
    ) -> Result<Vec<(i64, i64)>> {
        let (first, last) = partition.map_or((0, i64::MAX), |partition| (partition, partition));
        let positions = sqlx::query_as(include_str!("sql/positions.sql"))
            .bind(first)
            .bind(last);
        positions.fetch_all(conn).await
    }

    async fn hold_position(conn: &mut MySqlConnection, partition: i64) -> Result<i64> {
        let sql = "SELECT seq FROM settled WHERE `partition` = ? FOR UPDATE";
        let hold = || sqlx::query_scalar(sql).bind(partition);
        if let Some(seq) = hold().fetch_optional(&mut *conn).await? {
            return Ok(seq);
        }
        let sql = "INSERT INTO settled (`partition`, seq) VALUES (?, 0) ON DUPLICATE KEY UPDATE seq = seq";
        sqlx::query(sql).bind(partition).execute(&mut *conn).await?;
        hold().fetch_one(conn).await
    }

    async fn move_position(conn: &mut MySqlConnection, partition: i64, seq: i64) -> Result<()> {
        let moved = sqlx::query("UPDATE settled SET seq = ? WHERE `partition` = ?")
            .bind(seq)
            .bind(partition);
        all("positions", moved.execute(conn).await?.rows_affected(), 1)
    }

    async fn known_campaigns(
        conn: &mut MySqlConnection,
        partition: i64,
        ids: &[String],
    ) -> Result<Vec<KnownCampaign>> {
        let mut known = Vec::with_capacity(ids.len());
        for ids in pieces(ids) {
            let file = include_str!("sql/known_campaigns.sql");
            let mut rows = query_as::<KnownCampaignColumns>(file, ids.len()).bind(partition);
            for id in ids {
                rows = rows.bind(id);
            }
            for row in rows.fetch_all(&mut *conn).await? {
                known.push(KnownCampaign::of(row)?);
            }
        }
        Ok(known)
    }

    async fn known_orders(
        conn: &mut MySqlConnection,
        orders: &[(i64, i64)],
    ) -> Result<Vec<KnownOrder>> {
        let mut known = Vec::with_capacity(orders.len());
        for orders in pieces(orders) {
            let mut rows = query_as(include_str!("sql/known_orders.sql"), orders.len());
            for (campaign, number) in orders {
                rows = rows.bind(campaign).bind(number);
            }
            for row in rows.fetch_all(&mut *conn).await? {
                known.push(KnownOrder::of(row)?);
            }
        }
        Ok(known)
    }

    async fn assign_shares(conn: &mut MySqlConnection, shares: &[ShareGrant<'_>]) -> Result<u64> {
        let mut assigned = 0;
        for shares in pieces(shares) {
            let mut assign = query(include_str!("sql/assign_shares.sql"), shares.len());
            for share in shares {
                assign = assign
                    .bind(share.campaign)
                    .bind(share.number)
                    .bind(share.user)
                    .bind(share.amount)
                    .bind(share.at);
            }
            // One that was assigned counts 2, any other 1.
            let counted = assign.execute(&mut *conn).await?.rows_affected();
            assigned += counted.saturating_sub(shares.len() as u64);
        }
        Ok(assigned)
    }

    async fn enter_orders(conn: &mut MySqlConnection, orders: &[NewOrder<'_>]) -> Result<()> {
        for orders in pieces(orders) {
            let mut enter = query(include_str!("sql/enter_orders.sql"), orders.len());
            for order in orders {
                enter = enter
                    .bind(order.campaign)
                    .bind(order.number)
                    .bind(order.user)
                    .bind(order.quantity)
                    .bind(order.amount)
                    .bind(order.state.name())
                    .bind(i16::from(order.one_per_user))
                    .bind(order.granted_at)
                    .bind(order.hold_until)
                    .bind(order.updated_at);
            }
            enter.execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn change_orders(conn: &mut MySqlConnection, orders: &[OrderChange]) -> Result<()> {
        for orders in pieces(orders) {
            let mut change = query(include_str!("sql/change_orders.sql"), orders.len());
            for order in orders {
                let state = order.state.name();
                change = change
                    .bind(order.campaign)
                    .bind(order.number)
                    .bind(state)
                    .bind(order.at);
            }
            all(
                "orders",
                change.execute(&mut *conn).await?.rows_affected(),
                orders.len(),
            )?;
        }
        Ok(())
    }

    async fn enter_payments(conn: &mut MySqlConnection, payments: &[PaymentRow<'_>]) -> Result<()> {
        for payments in pieces(payments) {
            let mut enter = query(include_str!("sql/enter_payments.sql"), payments.len());
            for payment in payments {
                enter = enter
                    .bind(payment.campaign)
                    .bind(payment.number)
                    .bind(payment.payment)
                    .bind(payment.outcome)
                    .bind(payment.amount)
                    .bind(payment.at);
            }
            enter.execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn enter_part(conn: &mut MySqlConnection, campaign: i64, partition: i64) -> Result<()> {
        let sql = "INSERT INTO parts (campaign, `partition`, phase) VALUES (?, ?, 'scheduled')";
        sqlx::query(sql)
            .bind(campaign)
            .bind(partition)
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn change_part(
        conn: &mut MySqlConnection,
        partition: i64,
        change: &PartChange,
    ) -> Result<()> {
        let change = sqlx::query(include_str!("sql/change_part.sql"))
            .bind(change.phase.map(|phase| phase.name()))
            .bind(change.granted)
            .bind(change.returned)
            .bind(change.refunded)
            .bind(change.campaign)
            .bind(partition);
        all("parts", change.execute(conn).await?.rows_affected(), 1)
    }

    async fn part_phases(conn: &mut MySqlConnection, campaign: i64) -> Result<Vec<String>> {
        let phases =
            sqlx::query_scalar("SELECT phase FROM parts WHERE campaign = ?").bind(campaign);
        phases.fetch_all(conn).await
    }

    async fn change_campaigns(
        conn: &mut MySqlConnection,
        changes: &[CampaignChange],
    ) -> Result<()> {
        for changes in pieces(changes) {
            if changes.len() > 1 {
                let mut lock = query(include_str!("sql/lock_campaigns.sql"), changes.len());
                for change in changes {
                    lock = lock.bind(change.campaign);
                }
                lock.execute(&mut *conn).await?;
            }
            let mut update = query(include_str!("sql/change_campaigns.sql"), changes.len());
            for change in changes {
                update = update
                    .bind(change.campaign)
                    .bind(change.phase.map(|phase| phase.name()))
                    .bind(change.parts)
                    .bind(change.granted)
                    .bind(change.returned)
                    .bind(change.refunded);
            }
            all(
                "campaigns",
                update.execute(&mut *conn).await?.rows_affected(),
                changes.len(),
            )?;
        }
        Ok(())
    }
}
