//! Metadata of campaigns and orders.

use hyper::header::IF_MATCH;

use crate::{
    answers::Metadata,
    call::RepeatableCall,
    campaigns::Tagged,
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

    /// As [`Client::campaign_metadata`], with its entity tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tagged_campaign_metadata(
        &self,
        id: &CampaignId,
    ) -> Result<Tagged<Metadata>, Error> {
        self.tagged(RepeatableCall::get(of_campaign(id))).await
    }

    /// As [`Client::change_campaign_metadata`], if the metadata still has this entity tag.
    ///
    /// # Errors
    /// `precondition-failed` if it was changed since; see [`Error`].
    pub async fn change_campaign_metadata_if(
        &self,
        id: &CampaignId,
        change: &MetadataChange,
        etag: &str,
    ) -> Result<Tagged<Metadata>, Error> {
        let call = RepeatableCall::patch(of_campaign(id)).json(change)?;
        self.tagged(call.header(IF_MATCH, etag)?.keyed(self)).await
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

    /// As [`Client::order_metadata`], with its entity tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tagged_order_metadata(&self, id: &OrderId) -> Result<Tagged<Metadata>, Error> {
        self.tagged(RepeatableCall::get(of_order(id))).await
    }

    /// As [`Client::change_order_metadata`], if the metadata still has this entity tag.
    ///
    /// # Errors
    /// `precondition-failed` if it was changed since; see [`Error`].
    pub async fn change_order_metadata_if(
        &self,
        id: &OrderId,
        change: &MetadataChange,
        etag: &str,
    ) -> Result<Tagged<Metadata>, Error> {
        let call = RepeatableCall::patch(of_order(id)).json(change)?;
        self.tagged(call.header(IF_MATCH, etag)?.keyed(self)).await
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
