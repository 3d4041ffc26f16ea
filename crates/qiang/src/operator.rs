//! Who changes something beside the API, from the command line: it is written down in the ledger before it is done, and
//! said in the log.

use std::{fmt::Display, sync::Arc};

use qiang_api::id_at;
use qiang_core::{
    id::UserId,
    ports::{Action, ActionKind, Clock, Ledger},
};
use qiang_embedded::SystemClock;
use serde_json::Value;

use crate::{config::Config, logging::Logging};

/// Somebody at the command line who changes something.
pub struct Operator {
    actor: UserId,
    clock: Arc<dyn Clock>,
}

impl Operator {
    /// Somebody by this name. Starts the log of the process, as it is configured, with their changes alone.
    ///
    /// # Errors
    /// When the level of the log is none.
    pub fn new(actor: UserId, config: &Config) -> anyhow::Result<Self> {
        Logging::start_of(&config.log, module_path!())?;
        Ok(Self {
            actor,
            clock: Arc::new(SystemClock),
        })
    }

    /// Writes down what is about to be done to a subject. `detail` is an object with what was asked for.
    ///
    /// # Errors
    /// When the ledger does not take it: then nothing is to be done.
    pub async fn record(
        &self,
        ledger: &dyn Ledger,
        kind: ActionKind,
        subject: impl Display,
        detail: &Value,
    ) -> anyhow::Result<()> {
        let action = self.action(kind, subject, detail);
        ledger.record(&action).await?;
        self.log(&action);
        Ok(())
    }

    /// The record of what is about to be done.
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

    /// Logs what is in the ledger's record.
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
