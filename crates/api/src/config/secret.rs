//! Secrets of the configuration, given as values or in files.

use std::{fmt, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

use super::UsageError;

/// Minimum length, because shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 32;

/// String that Debug never shows.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is empty.
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
    check_mark(what, secret)?;
    let bytes = secret.len();
    if bytes < SECRET_BYTES_MIN {
        let advice = "make one with `openssl rand -hex 32`";
        let text =
            format!("{what} has at least {SECRET_BYTES_MIN} bytes, and this one {bytes}: {advice}");
        return Err(UsageError::new(text));
    }
    Ok(())
}

/// Secret from its value or its file; `None` if neither is given. `key` is the key of the value; the file's key ends
/// in `_file`.
pub(crate) fn secret_of(secret: &Secret, file: &Path, key: &str) -> anyhow::Result<Option<Secret>> {
    match (secret.is_empty(), file.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Ok(Some(secret.clone())),
        (true, false) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{key}_file: read {}", file.display()))?;
            check_mark(&format!("{key}_file"), text.as_bytes())?;
            Ok(Some(Secret::new(text.trim())))
        }
        (false, false) => {
            Err(UsageError::new(format!("set only one of {key} and {key}_file")).into())
        }
    }
}

/// Refuses a text that starts with a byte order mark. Editors add it invisibly, and other programs have the secret
/// without it.
fn check_mark(what: &str, text: &[u8]) -> Result<(), UsageError> {
    match text.starts_with("\u{feff}".as_bytes()) {
        true => Err(UsageError::new(format!(
            "{what} begins with a byte order mark (U+FEFF): save it as UTF-8 without one"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_named() {
        let long = "s".repeat(40);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, format!("\u{feff}{long}\n")).unwrap();
        let marked = secret_of(&Secret::default(), &file, "auth.x").unwrap_err();
        let marked = marked.to_string();
        assert!(
            marked.starts_with("auth.x_file begins with a byte order mark"),
            "{marked}"
        );
        assert!(!marked.contains("sss"), "{marked}");
        let given = check_secret("auth.x", format!("\u{feff}{long}").as_bytes());
        assert!(given.unwrap_err().to_string().contains("byte order mark"));
        std::fs::write(&file, format!("{long}\n")).unwrap();
        let plain = secret_of(&Secret::default(), &file, "auth.x").unwrap();
        assert_eq!(plain, Some(Secret::new(long.clone())));
        assert!(check_secret("auth.x", long.as_bytes()).is_ok());
    }
}
