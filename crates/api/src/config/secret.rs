//! Secrets of the configuration, given by themselves or in files.

use std::{fmt, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

use super::UsageError;

/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 32;

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "Secret(not set)"
        } else {
            "Secret(redacted)"
        })
    }
}

/// Refuses a secret that can be guessed. `what` names it.
pub(crate) fn check_secret(what: &str, secret: &[u8]) -> Result<(), UsageError> {
    let bytes = secret.len();
    if bytes < SECRET_BYTES_MIN {
        let advice = "make one with `openssl rand -hex 32`";
        let text =
            format!("{what} has at least {SECRET_BYTES_MIN} bytes, and this one {bytes}: {advice}");
        return Err(UsageError::new(text));
    }
    Ok(())
}

/// A secret that is given by itself or in a file; none where neither is. `key` names the first, and ends in `_file` for
/// the second.
pub(crate) fn secret_of(secret: &Secret, file: &Path, key: &str) -> anyhow::Result<Option<Secret>> {
    match (secret.is_empty(), file.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Ok(Some(secret.clone())),
        (true, false) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{key}_file: read {}", file.display()))?;
            Ok(Some(Secret::new(text.trim())))
        }
        (false, false) => {
            Err(UsageError::new(format!("set only one of {key} and {key}_file")).into())
        }
    }
}
