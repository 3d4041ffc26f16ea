//! The `MetadataStore` port.

use async_trait::async_trait;
use qiang_core::{
    id::ShopReference,
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
    ports::{Action, LedgerError, MetadataStore},
};
use uuid::Uuid;

use super::SqlLedger;
use crate::{dialect::Dialect, metadata, pool::AccessMode};

#[async_trait]
impl<D: Dialect> MetadataStore for SqlLedger<D> {
    async fn add_metadata(
        &self,
        subject: MetadataSubject,
        of: &Metadata,
    ) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, of.clone(), move |conn, of| {
            Box::pin(metadata::add::<D>(conn, subject, of))
        })
        .await
    }

    async fn change_metadata(
        &self,
        subject: MetadataSubject,
        change: &MetadataChange,
        (by, made): (&Action, Option<Uuid>),
    ) -> Result<Option<Metadata>, LedgerError> {
        let args = (change.clone(), by.clone());
        self.run(AccessMode::Write, args, move |conn, (change, by)| {
            Box::pin(metadata::change::<D>(conn, subject, change, (by, made)))
        })
        .await
    }

    async fn metadata(&self, subjects: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError> {
        self.run(AccessMode::Read, subjects.to_vec(), |conn, subjects| {
            Box::pin(metadata::of::<D>(conn, subjects))
        })
        .await
    }

    async fn with_reference(
        &self,
        object: MetadataObject,
        reference: &ShopReference,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, LedgerError> {
        let args = (reference.clone(), after.map(str::to_owned));
        self.run(AccessMode::Read, args, move |conn, (reference, after)| {
            let page = (after.as_deref(), limit);
            Box::pin(metadata::with_reference::<D>(conn, object, reference, page))
        })
        .await
    }
}
