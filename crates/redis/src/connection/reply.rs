//! Replies of scripts.

use qiang_core::{book::Refusal, campaign::AckLevel, event::Seq, ports::EngineError};
use redis::{ErrorKind, RedisError, Value};

use crate::connection::{error::unavailable, replies::ReplyGuard};

/// Reply of a script.
#[derive(Debug)]
pub(crate) struct ScriptReply {
    /// `ok`, `unknown`, `refused`, …: see the script.
    pub status: String,
    /// The rest of the reply, in a form that the script defines.
    pub text: Vec<u8>,
    /// The last entry of the log; `None` if the caller does not rely on it.
    pub head: Option<Seq>,
    /// Acknowledgement level that the decision has reached.
    pub reached: AckLevel,
    /// Guard that counts the reply as not stored, from its acceptance on.
    pub unkept: Option<ReplyGuard>,
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
                "the reply of a script must have a status and a text",
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

    /// Whether nothing was done because the caller's term is over.
    pub(crate) fn is_refused(&self) -> bool {
        self.status == "term"
    }

    /// Whether the call was carried out before and its stored reply has expired.
    pub(crate) fn is_lost(&self) -> bool {
        self.status == "lost"
    }

    /// Whether the script refused a step because it knows of a later one.
    #[must_use]
    pub(crate) fn is_stale(&self) -> bool {
        self.status == "stale"
    }

    /// Whether the script did what it was called for.
    #[must_use]
    /// Whether the script did not find its campaign, or found it damaged.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == "unknown" && self.text == b"campaign" || self.is_damaged()
    }

    /// Whether the script has found mismatched keys of its campaign.
    pub(crate) fn is_damaged(&self) -> bool {
        self.status == "damaged"
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    /// The text, with invalid UTF-8 replaced.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// The text, or the refusal `unknown` if the script did not find its object.
    ///
    /// # Errors
    /// The refusal; [`EngineError::Unavailable`] for any other status.
    pub(crate) fn found(&self, unknown: Refusal) -> Result<String, EngineError> {
        match self.status.as_str() {
            "ok" => Ok(self.text()),
            "unknown" => Err(unknown.into()),
            status => Err(unavailable(format!(
                "Redis answered {status} {}",
                self.text()
            ))),
        }
    }

    /// Level that a grant is answered with. An error means that the level is too low; a retry replays the grant.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] if replicas had to confirm and did not.
    pub(crate) fn level(&self, asked: AckLevel) -> Result<AckLevel, EngineError> {
        if asked == AckLevel::Replica && self.reached < AckLevel::Replica {
            return Err(EngineError::uncertain(
                "the replicas did not confirm in time",
            ));
        }
        Ok(self.reached)
    }
}
