//! Metadata of campaigns and orders.

use crate::{
    answers::Metadata,
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{CampaignId, OrderId},
    requests::MetadataChange,
};

fn of_campaign(id: &CampaignId) -> String {
    format!("/v1/campaigns/{id}/metadata")
}

fn of_order(id: &OrderId) -> String {
    format!("/v1/orders/{id}/metadata")
}

impl Client {
    /// Metadata of a campaign. Its owner reads it; others need the scope `read:any`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn campaign_metadata(&self, id: &CampaignId) -> Result<Metadata, Error> {
        self.json(RepeatableCall::get(of_campaign(id))).await
    }

    /// Changes metadata of a campaign. Scope `send` or `campaigns:write`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn change_campaign_metadata(
        &self,
        id: &CampaignId,
        change: &MetadataChange,
    ) -> Result<Metadata, Error> {
        let call = RepeatableCall::patch(of_campaign(id)).json(change)?;
        self.json(call.keyed(self)).await
    }

    /// Metadata of an order. The seller reads it; others need the scope `read:any`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn order_metadata(&self, id: &OrderId) -> Result<Metadata, Error> {
        self.json(RepeatableCall::get(of_order(id))).await
    }

    /// Changes metadata of an order. Scope `campaigns:write`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn change_order_metadata(
        &self,
        id: &OrderId,
        change: &MetadataChange,
    ) -> Result<Metadata, Error> {
        let call = RepeatableCall::patch(of_order(id)).json(change)?;
        self.json(call.keyed(self)).await
    }
}
