//! What settlement reads and writes on PostgreSQL.

use sqlx::{PgConnection, Postgres, Result};

use super::ROWS_MAX;
use crate::{
    dialect::Settling,
    error::all,
    rows::{
        CampaignChange, KnownCampaign, KnownCampaignColumns, KnownOrder, NewOrder, OrderChange,
        PartChange, PaymentRow, ShareGrant,
    },
};

impl Settling for Postgres {
    async fn positions(conn: &mut PgConnection, partition: Option<i64>) -> Result<Vec<(i64, i64)>> {
        let positions = sqlx::query_as(include_str!("sql/positions.sql")).bind(partition);
        positions.fetch_all(conn).await
    }

    async fn hold_position(conn: &mut PgConnection, partition: i64) -> Result<i64> {
        let hold = || sqlx::query_scalar(include_str!("sql/hold_position.sql")).bind(partition);
        if let Some(seq) = hold().fetch_optional(&mut *conn).await? {
            return Ok(seq);
        }
        let sql = "INSERT INTO settled (partition, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING";
        sqlx::query(sql).bind(partition).execute(&mut *conn).await?;
        hold().fetch_one(conn).await
    }

    async fn move_position(conn: &mut PgConnection, partition: i64, seq: i64) -> Result<()> {
        let moved = sqlx::query("UPDATE settled SET seq = $2 WHERE partition = $1")
            .bind(partition)
            .bind(seq);
        all("positions", moved.execute(conn).await?.rows_affected(), 1)
    }

    async fn known_campaigns(
        conn: &mut PgConnection,
        partition: i64,
        ids: &[String],
    ) -> Result<Vec<KnownCampaign>> {
        let known =
            sqlx::query_as::<_, KnownCampaignColumns>(include_str!("sql/known_campaigns.sql"));
        let rows = known.bind(partition).bind(ids).fetch_all(conn).await?;
        rows.into_iter().map(KnownCampaign::of).collect()
    }

    async fn known_orders(
        conn: &mut PgConnection,
        orders: &[(i64, i64)],
    ) -> Result<Vec<KnownOrder>> {
        let mut known = Vec::with_capacity(orders.len());
        for orders in orders.chunks(ROWS_MAX) {
            let (campaigns, numbers): (Vec<i64>, Vec<i64>) = orders.iter().copied().unzip();
            let rows = sqlx::query_as(include_str!("sql/known_orders.sql"))
                .bind(campaigns)
                .bind(numbers);
            for row in rows.fetch_all(&mut *conn).await? {
                known.push(KnownOrder::of(row)?);
            }
        }
        Ok(known)
    }

    async fn assign_shares(conn: &mut PgConnection, shares: &[ShareGrant<'_>]) -> Result<u64> {
        let mut assigned = 0;
        for shares in shares.chunks(ROWS_MAX) {
            let column = |of: fn(&ShareGrant<'_>) -> i64| shares.iter().map(of).collect::<Vec<_>>();
            let users: Vec<_> = shares.iter().map(|share| share.user).collect();
            let assign = sqlx::query(include_str!("sql/assign_shares.sql"))
                .bind(column(|share| share.campaign))
                .bind(column(|share| share.number))
                .bind(users)
                .bind(column(|share| share.amount))
                .bind(column(|share| share.at));
            assigned += assign.execute(&mut *conn).await?.rows_affected();
        }
        Ok(assigned)
    }

    async fn enter_orders(conn: &mut PgConnection, orders: &[NewOrder<'_>]) -> Result<()> {
        for orders in orders.chunks(ROWS_MAX) {
            let column = |of: fn(&NewOrder<'_>) -> i64| orders.iter().map(of).collect::<Vec<_>>();
            let users: Vec<_> = orders.iter().map(|order| order.user).collect();
            let states: Vec<_> = orders.iter().map(|order| order.state.name()).collect();
            let once: Vec<_> = orders
                .iter()
                .map(|order| i16::from(order.one_per_user))
                .collect();
            sqlx::query(include_str!("sql/enter_orders.sql"))
                .bind(column(|order| order.campaign))
                .bind(column(|order| order.number))
                .bind(users)
                .bind(column(|order| order.quantity))
                .bind(column(|order| order.amount))
                .bind(states)
                .bind(once)
                .bind(column(|order| order.granted_at))
                .bind(column(|order| order.hold_until))
                .bind(column(|order| order.updated_at))
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn change_orders(conn: &mut PgConnection, orders: &[OrderChange]) -> Result<()> {
        for orders in orders.chunks(ROWS_MAX) {
            let column = |of: fn(&OrderChange) -> i64| orders.iter().map(of).collect::<Vec<_>>();
            let states: Vec<_> = orders.iter().map(|order| order.state.name()).collect();
            let change = sqlx::query(include_str!("sql/change_orders.sql"))
                .bind(column(|order| order.campaign))
                .bind(column(|order| order.number))
                .bind(states)
                .bind(column(|order| order.at));
            all(
                "orders",
                change.execute(&mut *conn).await?.rows_affected(),
                orders.len(),
            )?;
        }
        Ok(())
    }

    async fn enter_payments(conn: &mut PgConnection, payments: &[PaymentRow<'_>]) -> Result<()> {
        for payments in payments.chunks(ROWS_MAX) {
            let column =
                |of: fn(&PaymentRow<'_>) -> i64| payments.iter().map(of).collect::<Vec<_>>();
            let names: Vec<_> = payments.iter().map(|payment| payment.payment).collect();
            let outcomes: Vec<_> = payments.iter().map(|payment| payment.outcome).collect();
            sqlx::query(include_str!("sql/enter_payments.sql"))
                .bind(column(|payment| payment.campaign))
                .bind(column(|payment| payment.number))
                .bind(names)
                .bind(outcomes)
                .bind(column(|payment| payment.amount))
                .bind(column(|payment| payment.at))
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn enter_part(conn: &mut PgConnection, campaign: i64, partition: i64) -> Result<()> {
        let sql = "INSERT INTO parts (campaign, partition, phase) VALUES ($1, $2, 'scheduled')";
        sqlx::query(sql)
            .bind(campaign)
            .bind(partition)
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn change_part(
        conn: &mut PgConnection,
        partition: i64,
        change: &PartChange,
    ) -> Result<()> {
        let change = sqlx::query(include_str!("sql/change_part.sql"))
            .bind(change.campaign)
            .bind(partition)
            .bind(change.phase.map(|phase| phase.name()))
            .bind(change.granted)
            .bind(change.returned)
            .bind(change.refunded);
        all("parts", change.execute(conn).await?.rows_affected(), 1)
    }

    async fn part_phases(conn: &mut PgConnection, campaign: i64) -> Result<Vec<String>> {
        let phases =
            sqlx::query_scalar("SELECT phase FROM parts WHERE campaign = $1").bind(campaign);
        phases.fetch_all(conn).await
    }

    async fn change_campaigns(conn: &mut PgConnection, changes: &[CampaignChange]) -> Result<()> {
        for changes in changes.chunks(ROWS_MAX) {
            let column =
                |of: fn(&CampaignChange) -> i64| changes.iter().map(of).collect::<Vec<_>>();
            let refs = column(|change| change.campaign);
            if refs.len() > 1 {
                let lock = sqlx::query(include_str!("sql/lock_campaigns.sql")).bind(&refs);
                lock.execute(&mut *conn).await?;
            }
            let phases: Vec<_> = changes
                .iter()
                .map(|change| change.phase.map(|phase| phase.name()))
                .collect();
            let parts: Vec<_> = changes.iter().map(|change| change.parts).collect();
            let change = sqlx::query(include_str!("sql/change_campaigns.sql"))
                .bind(refs)
                .bind(phases)
                .bind(parts)
                .bind(column(|change| change.granted))
                .bind(column(|change| change.returned))
                .bind(column(|change| change.refunded));
            all(
                "campaigns",
                change.execute(&mut *conn).await?.rows_affected(),
                changes.len(),
            )?;
        }
        Ok(())
    }
}
