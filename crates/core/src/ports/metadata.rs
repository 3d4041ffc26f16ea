//! Metadata of campaigns, orders and deposits.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    id::ShopReference,
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
};

/// Store of metadata. Whether an object exists is not checked here.
#[async_trait]
pub trait MetadataStore: Send + Sync + 'static {
    /// Stores the metadata of a new object. If the object has some, nothing changes: a retry of its creation does not
    /// undo later changes.
    async fn add_metadata(
        &self,
        subject: MetadataSubject,
        metadata: &Metadata,
    ) -> Result<(), LedgerError>;

    /// Changes the metadata of an object and records the action, in one transaction. If the change has a key, it also
    /// records the id to which the key was bound: see [`KeyStore::is_change_made`](super::KeyStore::is_change_made).
    /// Returns the metadata afterwards; `None` if it would have too many names, and then nothing changes.
    async fn change_metadata(
        &self,
        subject: MetadataSubject,
        change: &MetadataChange,
        by: (&Action, Option<Uuid>),
    ) -> Result<Option<Metadata>, LedgerError>;

    /// Metadata of these objects, in their order; empty for those without.
    async fn metadata(&self, subjects: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError>;

    /// Ids of up to `limit` objects of a kind with this reference, in the order of their text, after `after`.
    async fn with_reference(
        &self,
        object: MetadataObject,
        reference: &ShopReference,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, LedgerError>;
}
