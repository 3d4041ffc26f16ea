//! What scripts reply.

use qiang_core::{book::Refusal, campaign::AckLevel, event::Seq, ports::EngineError};
use redis::{ErrorKind, RedisError, Value};

use crate::{error::unavailable, replies::Unkept};

/// What a script has replied.
#[derive(Debug)]
pub struct ScriptReply {
    /// `ok`, `unknown`, `refused`, …: see the script.
    pub status: String,
    /// What it says besides; its form is the script's.
    pub text: Vec<u8>,
    /// The last entry of the log, where whoever gets the reply relies on it.
    pub head: Option<Seq>,
    /// What the decision survives.
    pub reached: AckLevel,
    /// That it is not kept yet, from its acceptance on.
    pub unkept: Option<Unkept>,
}

impl ScriptReply {
    pub(crate) fn read(value: Value) -> Result<Self, RedisError> {
        let parts = match value {
            Value::Array(parts) => parts,
            _ => Vec::new(),
        };
        let mut parts = parts.into_iter().map(|part| match part {
            Value::BulkString(text) => Some(text),
            _ => None,
        });
        let (status, text, head) = (parts.next(), parts.next(), parts.next());
        let (Some(Some(status)), Some(Some(text))) = (status, text) else {
            return Err(RedisError::from((
                ErrorKind::UnexpectedReturnType,
                "a script's reply is a status and a text",
            )));
        };
        let head = head.flatten();
        Ok(Self {
            status: String::from_utf8_lossy(&status).into_owned(),
            text,
            head: head.and_then(|head| std::str::from_utf8(&head).ok()?.parse().ok()),
            reached: AckLevel::Memory,
            unkept: None,
        })
    }

    /// Whether nothing was done, because the caller's term is over.
    pub(crate) fn is_refused(&self) -> bool {
        self.status == "term"
    }

    /// Whether the call was carried out before, and what it replied is not kept any longer.
    pub(crate) fn is_lost(&self) -> bool {
        self.status == "lost"
    }

    /// Whether the script did what it was called for.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    /// The text, without what is not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// The text, or this refusal where the script did not find what it was asked about.
    ///
    /// # Errors
    /// The refusal; [`EngineError::Unavailable`] for any other status.
    pub fn found(&self, unknown: Refusal) -> Result<String, EngineError> {
        match self.status.as_str() {
            "ok" => Ok(self.text()),
            "unknown" => Err(unknown.into()),
            status => Err(unavailable(format!(
                "Redis answered {status} {}",
                self.text()
            ))),
        }
    }

    /// The level that a grant is answered with, or the error that stands for one that does not suffice: a retry
    /// replays the grant.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] when replicas were to confirm and did not.
    pub fn level(&self, asked: AckLevel) -> Result<AckLevel, EngineError> {
        if asked == AckLevel::Replica && self.reached < AckLevel::Replica {
            return Err(EngineError::uncertain(
                "the replicas did not confirm in time",
            ));
        }
        Ok(self.reached)
    }
}
