//! The metadata port of a file.

use async_trait::async_trait;
use qiang_core::{
    id::ShopReference,
    metadata::{Metadata, MetadataChange, MetadataObject, MetadataSubject},
    ports::{Action, LedgerError, MetadataStore},
};
use uuid::Uuid;

use crate::{
    ledger::metadata,
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> MetadataStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn add_metadata(
        &self,
        subject: MetadataSubject,
        of: &Metadata,
    ) -> Result<(), LedgerError> {
        let of = of.clone();
        job(self, 0, move |context| {
            metadata::add(context.conn, subject, &of)
        })
        .await
    }

    async fn change_metadata(
        &self,
        subject: MetadataSubject,
        change: &MetadataChange,
        (by, made): (&Action, Option<Uuid>),
    ) -> Result<Option<Metadata>, LedgerError> {
        let (change, by) = (change.clone(), by.clone());
        job(self, 0, move |context| {
            metadata::change(context.conn, subject, &change, (&by, made))
        })
        .await
    }

    async fn metadata(&self, subjects: &[MetadataSubject]) -> Result<Vec<Metadata>, LedgerError> {
        let subjects = subjects.to_vec();
        query(self.readers(), move |conn| {
            let of = |subject: &MetadataSubject| metadata::of(conn, *subject);
            subjects.iter().map(of).collect()
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
        let (reference, after) = (reference.clone(), after.map(str::to_owned));
        query(self.readers(), move |conn| {
            metadata::with_reference(conn, object, &reference, (after.as_deref(), limit))
        })
        .await
    }
}
