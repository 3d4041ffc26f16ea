//! Campaigns, shares and what is listed of them on PostgreSQL.

use qiang_core::campaign::Campaign;
use sqlx::{PgConnection, Postgres, Result, postgres::PgRow};

use crate::{
    dialect::Campaigns,
    rows::{CampaignRow, GrantRow, RuleColumns, campaign_row},
};

fn row_of(row: PgRow) -> Result<CampaignRow> {
    campaign_row!(row)
}

impl Campaigns for Postgres {
    async fn has_campaign(conn: &mut PgConnection, id: &str) -> Result<bool> {
        let there =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM campaigns WHERE id = $1)").bind(id);
        there.fetch_one(conn).await
    }

    async fn enter_campaign(conn: &mut PgConnection, campaign: &Campaign) -> Result<i64> {
        let rules = RuleColumns::of(campaign);
        sqlx::query_scalar(include_str!("sql/enter_campaign.sql"))
            .bind(campaign.id.to_string())
            .bind(campaign.kind().name())
            .bind(campaign.owner.as_str())
            .bind(&campaign.title)
            .bind(campaign.currency().code())
            .bind(campaign.ack.name())
            .bind(campaign.window.starts_at().as_millis())
            .bind(campaign.window.ends_at().as_millis())
            .bind(campaign.created_at.as_millis())
            .bind(i64::from(campaign.supply()))
            .bind(i64::from(campaign.per_user_limit()))
            .bind(rules.total)
            .bind(rules.split_rule)
            .bind(rules.split_min)
            .bind(rules.split_max)
            .bind(rules.split_version)
            .bind(rules.seed)
            .bind(rules.commitment)
            .bind(rules.unit_price)
            .bind(rules.hold_ms)
            .fetch_one(conn)
            .await
    }

    async fn enter_shares(
        conn: &mut PgConnection,
        campaign: i64,
        first: i64,
        amounts: &[Option<i64>],
    ) -> Result<()> {
        let enter = sqlx::query(include_str!("sql/enter_shares.sql"))
            .bind(campaign)
            .bind(first)
            .bind(amounts);
        enter.execute(conn).await?;
        Ok(())
    }

    async fn campaign(conn: &mut PgConnection, id: &str) -> Result<Option<CampaignRow>> {
        let campaign = sqlx::query(include_str!("sql/campaign.sql")).bind(id);
        campaign.fetch_optional(conn).await?.map(row_of).transpose()
    }

    async fn drafts(conn: &mut PgConnection) -> Result<Vec<CampaignRow>> {
        let drafts = sqlx::query(include_str!("sql/drafts.sql"))
            .fetch_all(conn)
            .await?;
        drafts.into_iter().map(row_of).collect()
    }

    async fn amounts(conn: &mut PgConnection, campaign: i64) -> Result<Vec<Option<i64>>> {
        let amounts =
            sqlx::query_scalar("SELECT amount FROM shares WHERE campaign = $1 ORDER BY number");
        amounts.bind(campaign).fetch_all(conn).await
    }

    async fn granted_shares(
        conn: &mut PgConnection,
        campaign: i64,
        after: i64,
        limit: i64,
    ) -> Result<Vec<GrantRow>> {
        let grants = sqlx::query_as(include_str!("sql/granted_shares.sql"));
        grants
            .bind(campaign)
            .bind(after)
            .bind(limit)
            .fetch_all(conn)
            .await
    }

    async fn granted_orders(
        conn: &mut PgConnection,
        campaign: i64,
        after: i64,
        limit: i64,
    ) -> Result<Vec<GrantRow>> {
        let grants = sqlx::query_as(include_str!("sql/granted_orders.sql"));
        grants
            .bind(campaign)
            .bind(after)
            .bind(limit)
            .fetch_all(conn)
            .await
    }
}
