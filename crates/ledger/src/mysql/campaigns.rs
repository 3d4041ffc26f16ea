//! Campaigns, shares and what is listed of them on MySQL and MariaDB.

use qiang_core::campaign::Campaign;
use sqlx::{MySql, MySqlConnection, Result, mysql::MySqlRow};

use super::rows::{pieces, query};
use crate::{
    dialect::Campaigns,
    rows::{CampaignRow, GrantRow, RuleColumns, campaign_row},
};

fn row_of(row: MySqlRow) -> Result<CampaignRow> {
    campaign_row!(row)
}

impl Campaigns for MySql {
    async fn has_campaign(conn: &mut MySqlConnection, id: &str) -> Result<bool> {
        let there = sqlx::query("SELECT 1 FROM campaigns WHERE id = ?").bind(id);
        Ok(there.fetch_optional(conn).await?.is_some())
    }

    async fn enter_campaign(conn: &mut MySqlConnection, campaign: &Campaign) -> Result<i64> {
        let rules = RuleColumns::of(campaign);
        let entered = sqlx::query(include_str!("sql/enter_campaign.sql"))
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
            .execute(conn)
            .await?;
        i64::try_from(entered.last_insert_id()).map_err(|_| sqlx::Error::RowNotFound)
    }

    async fn enter_shares(
        conn: &mut MySqlConnection,
        campaign: i64,
        first: i64,
        amounts: &[Option<i64>],
    ) -> Result<()> {
        let mut number = first;
        for amounts in pieces(amounts) {
            let mut enter = query(include_str!("sql/enter_shares.sql"), amounts.len());
            for amount in amounts {
                enter = enter.bind(campaign).bind(number).bind(amount);
                number += 1;
            }
            enter.execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn campaign(conn: &mut MySqlConnection, id: &str) -> Result<Option<CampaignRow>> {
        let campaign = sqlx::query(include_str!("sql/campaign.sql")).bind(id);
        campaign.fetch_optional(conn).await?.map(row_of).transpose()
    }

    async fn drafts(conn: &mut MySqlConnection) -> Result<Vec<CampaignRow>> {
        let drafts = sqlx::query(include_str!("sql/drafts.sql"))
            .fetch_all(conn)
            .await?;
        drafts.into_iter().map(row_of).collect()
    }

    async fn amounts(conn: &mut MySqlConnection, campaign: i64) -> Result<Vec<Option<i64>>> {
        let amounts =
            sqlx::query_scalar("SELECT amount FROM shares WHERE campaign = ? ORDER BY number");
        amounts.bind(campaign).fetch_all(conn).await
    }

    async fn granted_shares(
        conn: &mut MySqlConnection,
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
        conn: &mut MySqlConnection,
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
