//! Operators who change data from the command line, outside the API. The ledger records each change before it happens,
//! and the log reports it.

use std::{fmt::Display, sync::Arc};

use qiang_api::id_at;
use qiang_core::{
    id::UserId,
    ports::{Action, ActionKind, Clock, Ledger},
};
use qiang_embedded::SystemClock;
use serde_json::Value;
use uuid::Uuid;

use crate::{config::NodeConfig, logging::Logging};

/// An operator at the command line.
pub struct Operator {
    actor: UserId,
    clock: Arc<dyn Clock>,
}

impl Operator {
    /// An operator with this name. Starts the log of the process with this module's messages alone, as configured.
    ///
    /// # Errors
    /// If `log.level` is not valid.
    pub fn new(actor: UserId, config: &NodeConfig) -> anyhow::Result<Self> {
        Logging::start_of(&config.log, module_path!())?;
        Ok(Self {
            actor,
            clock: Arc::new(SystemClock),
        })
    }

    /// Records a change of a subject before it happens, and returns the record's id. `detail` is an object with the
    /// request's parameters.
    ///
    /// # Errors
    /// If the ledger does not record it. The caller must not make the change then.
    pub async fn record(
        &self,
        ledger: &dyn Ledger,
        kind: ActionKind,
        subject: impl Display,
        detail: &Value,
    ) -> anyhow::Result<Uuid> {
        let action = self.action(kind, subject, detail);
        ledger.record(&action).await?;
        self.log(&action);
        Ok(action.id)
    }

    /// Removes the record of a change that was not made. If that fails, the list still has it.
    pub async fn strike(&self, ledger: &dyn Ledger, action: Uuid) {
        if let Err(error) = ledger.strike(action).await {
            tracing::warn!(%error, %action, "cannot remove the record of a change that was not made");
        }
    }

    /// The record of a change that is about to happen.
    pub(crate) fn action(&self, kind: ActionKind, subject: impl Display, detail: &Value) -> Action {
        let at = self.clock.now();
        Action {
            id: id_at(at),
            at,
            actor: self.actor.clone(),
            kind,
            subject: subject.to_string(),
            request_id: String::new(),
            detail: detail.to_string(),
        }
    }

    /// Logs a change that the ledger has recorded.
    pub(crate) fn log(&self, action: &Action) {
        tracing::info!(
            actor = %action.actor,
            action = action.kind.name(),
            subject = action.subject,
            detail = action.detail,
            "a change was asked for"
        );
    }
}
