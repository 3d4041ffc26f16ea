//! The metadata port of a file.

use async_trait::async_trait;
use qiang_core::{
    id::UserId,
    metadata::{Metadata, MetadataChange, MetadataSubject},
    ports::{Action, LedgerError, MetadataResult, MetadataStore, ReferenceQuery},
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
        owner: &UserId,
        of: &Metadata,
    ) -> Result<(), LedgerError> {
        let (owner, of) = (owner.clone(), of.clone());
        job(self, 0, move |context| {
            metadata::add(context.conn, subject, &owner, &of)
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
        let (owner, by) = (owner.clone(), by.clone());
        let (change, expected) = (change.clone(), expected.cloned());
        job(self, 0, move |context| {
            let change = (&change, expected.as_ref());
            metadata::change(context.conn, subject, &owner, change, (&by, made))
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

    async fn with_reference(&self, wanted: &ReferenceQuery) -> Result<Vec<String>, LedgerError> {
        let wanted = wanted.clone();
        query(self.readers(), move |conn| {
            metadata::with_reference(conn, &wanted)
        })
        .await
    }
}
