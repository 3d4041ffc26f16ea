//! Metadata of campaigns, orders and deposits.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    id::{ShopReference, UserId},
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
};

/// Filter and page of objects with a reference, in the order of their ids' text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceQuery {
    /// Kind of the objects.
    pub object: MetadataObject,
    /// Sender or seller of the campaign; `None` for all.
    pub owner: Option<UserId>,
    /// Reference of the objects.
    pub reference: ShopReference,
    /// Id after which the page begins.
    pub after: Option<String>,
    /// Maximum number of objects.
    pub limit: u32,
}

/// Result of a change of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataResult {
    /// The metadata afterwards.
    Changed(Metadata),
    /// The object would have too many names. Nothing changed.
    TooManyNames,
    /// The object has other metadata than the change expects. Nothing changed.
    Differs,
}

/// Store of metadata. Whether an object exists is not checked here.
#[async_trait]
pub trait MetadataStore: Send + Sync + 'static {
    /// Stores the metadata of a new object of this owner. If some was stored before, nothing changes: a retry of its
    /// creation does not undo later changes.
    async fn add_metadata(
        &self,
        subject: MetadataSubject,
        owner: &UserId,
        metadata: &Metadata,
    ) -> Result<(), LedgerError>;

    /// Changes the metadata of an object and records the action, in one transaction. With expected metadata, an object
    /// with other metadata does not change. If the change has a key, it also records the id to which the key was bound:
    /// see [`KeyStore::is_change_made`](super::KeyStore::is_change_made).
    ///
    /// # Errors
    /// [`LedgerError::ReferenceTaken`] if another object of this kind and owner has the reference, and it is unique for
    /// both. Nothing changed.
    async fn change_metadata(
        &self,
        subject: MetadataSubject,
        owner: &UserId,
        change: (&MetadataChange, Option<&Metadata>),
        by: (&Action, Option<Uuid>),
    ) -> Result<MetadataResult, LedgerError>;

    /// Metadata of these objects, in their order; empty for those without.
    async fn metadata(&self, subjects: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError>;

    /// Ids of objects with a reference.
    async fn with_reference(&self, query: &ReferenceQuery) -> Result<Vec<String>, LedgerError>;
}
