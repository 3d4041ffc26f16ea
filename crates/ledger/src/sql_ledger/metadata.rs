//! The `MetadataStore` port.

use async_trait::async_trait;
use qiang_core::{
    id::UserId,
    metadata::{Metadata, MetadataChange, MetadataSubject},
    ports::{Action, LedgerError, MetadataResult, MetadataStore, ReferenceQuery},
};
use uuid::Uuid;

use super::SqlLedger;
use crate::{dialect::Dialect, metadata, pool::AccessMode};

#[async_trait]
impl<D: Dialect> MetadataStore for SqlLedger<D> {
    async fn add_metadata(
        &self,
        subject: MetadataSubject,
        owner: &UserId,
        of: &Metadata,
    ) -> Result<(), LedgerError> {
        let args = (owner.clone(), of.clone());
        self.run(AccessMode::Write, args, move |conn, (owner, of)| {
            Box::pin(metadata::add::<D>(conn, subject, owner, of))
        })
        .await
    }

    async fn change_metadata(
        &self,
        subject: MetadataSubject,
        owner: &UserId,
        (change, expected): (&MetadataChange, Option<&Metadata>),
        (by, made): (&Action, Option<Uuid>),
    ) -> Result<MetadataResult, LedgerError> {
        let change = (change.clone(), expected.cloned());
        let args = (owner.clone(), change, by.clone());
        self.run(
            AccessMode::Write,
            args,
            move |conn, (owner, (change, expected), by)| {
                let (change, by) = ((change, expected.as_ref()), (by, made));
                Box::pin(metadata::change::<D>(conn, subject, owner, change, by))
            },
        )
        .await
    }

    async fn metadata(&self, subjects: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError> {
        self.run(AccessMode::Read, subjects.to_vec(), |conn, subjects| {
            Box::pin(metadata::of::<D>(conn, subjects))
        })
        .await
    }

    async fn with_reference(&self, query: &ReferenceQuery) -> Result<Vec<String>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(metadata::with_reference::<D>(conn, query))
        })
        .await
    }
}
