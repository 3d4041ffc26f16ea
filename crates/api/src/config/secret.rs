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

/// A secret that is given by itself or in a file; none where neither is. `key` names the first, and ends in `_file` for
/// the second.
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

/// Refuses a text that editors have put a byte order mark before: nobody sees it, and others have the secret without.
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
