//! Check of the tables' unique keys: compares them with the keys of the migrations.
//!
//! Unique keys detect retries. If an operator drops one, or a copy of a table lacks it, the same deposit or order can
//! be entered twice without an error of the database. Then nothing is written until the key exists again.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::ports::LedgerError;
use sqlx::Result;

use crate::{
    dialect::Dialect,
    error::{OpenError, WorkError},
    schema::{Schema, TableKey},
};

/// Longest time between two comparisons while something is written.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Tables and the columns of their unique keys, on both databases. [`Schema::UNIQUE_KEYS`] has the keys that differ.
const UNIQUE_KEYS: [(&str, &str); 40] = [
    ("accounts", "id"),
    ("accounts", "owner,purpose,currency"),
    ("actions", "id"),
    ("audiences", "campaign"),
    ("campaigns", "id"),
    ("campaigns", "ref"),
    ("deposits", "id"),
    ("deposits", "posting"),
    ("deposits", "reference"),
    ("details", "campaign"),
    ("direct_postings", "source"),
    ("engine", "id"),
    ("idempotency_keys", "scope,key"),
    ("made_changes", "id"),
    ("metadata", "object,id,name"),
    ("order_returns", "campaign,number,key"),
    ("orders", "campaign,number"),
    ("parts", "campaign,partition"),
    ("payment_refusals", "action"),
    ("payments", "campaign,number,payment"),
    ("payouts", "kind,reference"),
    ("payouts", "posting"),
    ("postings", "source,seq"),
    ("repair_attempts", "partition"),
    ("repairs", "partition,epoch"),
    ("sale_terms", "campaign,revision"),
    ("schema_version", "version"),
    ("set_aside", "partition,seq"),
    ("settled", "partition"),
    ("shares", "campaign,number"),
    ("shares", "campaign,user"),
    ("shop_references", "object,id"),
    ("shop_references", "object,unique_owner,reference"),
    ("waiting_rooms", "campaign"),
    ("webhook_attempts", "id"),
    ("webhook_events", "place"),
    ("webhook_retries", "webhook,place"),
    ("webhooks", "id"),
    ("withheld", "partition,epoch,campaign"),
    ("withheld_numbers", "partition,epoch,campaign,first_number"),
];

/// Names what tables lack, if they lack anything: `deposits (id), orders (campaign,number)`.
async fn missing<D: Schema>(conn: &mut D::Connection) -> Result<Option<String>> {
    let found: BTreeSet<TableKey> = D::unique_keys(conn).await?.into_iter().collect();
    let keys = [&UNIQUE_KEYS[..], D::UNIQUE_KEYS].concat();
    let lacks = |(table, columns): &(&str, &str)| {
        !found.contains(&((*table).to_owned(), (*columns).to_owned()))
    };
    let lacking = keys.into_iter().filter(lacks);
    let names: Vec<_> = lacking
        .map(|(table, columns)| format!("{table} ({columns})"))
        .collect();
    Ok((!names.is_empty()).then(|| names.join(", ")))
}

/// Refuses tables that lack unique keys.
pub(crate) async fn check<D: Schema>(conn: &mut D::Connection) -> Result<(), OpenError> {
    match missing::<D>(conn).await.map_err(OpenError::from_error)? {
        None => Ok(()),
        Some(missing) => Err(OpenError::Keys { missing }),
    }
}

/// The last comparison of a pool; shared by all that write.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyCheck(Arc<Mutex<ComparedKeys>>);

#[derive(Debug, Default)]
struct ComparedKeys {
    at: Option<Instant>,
    missing: Option<String>,
}

impl KeyCheck {
    /// Refuses work that writes, while tables lack unique keys. Compares them first if that was longer ago than
    /// [`CHECK_EVERY`].
    pub(crate) async fn before_writing<D: Dialect>(
        &self,
        conn: &mut D::Connection,
    ) -> Result<(), WorkError> {
        if self.is_due() {
            let compared = missing::<D>(conn).await;
            let missing = compared.inspect_err(|_| self.0.lock().at = None)?;
            self.note(missing);
        }
        match &self.0.lock().missing {
            None => Ok(()),
            Some(missing) => {
                let reason = OpenError::Keys {
                    missing: missing.clone(),
                };
                let reason = reason.to_string();
                Err(LedgerError::Unavailable { reason }.into())
            }
        }
    }

    /// Whether the caller compares now. Others go by the last result until it has.
    fn is_due(&self) -> bool {
        let mut compared = self.0.lock();
        let is_due = compared.at.is_none_or(|at| at.elapsed() >= CHECK_EVERY);
        if is_due {
            compared.at = Some(Instant::now());
        }
        is_due
    }

    fn note(&self, missing: Option<String>) {
        let mut compared = self.0.lock();
        match (&compared.missing, &missing) {
            (before, Some(missing)) if before.as_ref() != Some(missing) => tracing::error!(
                missing,
                "the ledger's tables lack unique keys: nothing is written until they exist again"
            ),
            (Some(_), None) => tracing::info!("the ledger's tables have all unique keys again"),
            _ => {}
        }
        compared.missing = missing;
    }
}
