//! Revoked tokens, refused before they expire: single ones, and all tokens of a user.

use std::{collections::HashSet, path::Path};

use anyhow::Context as _;
use qiang_core::id::UserId;

use crate::config::UsageError;

/// Maximum number of lines of the list, which is kept in memory: about 100 MB.
const ENTRIES_MAX: usize = 1_000_000;

/// Content of the list.
#[derive(Debug, Default)]
pub(super) struct RevokedTokens {
    jti: HashSet<Box<str>>,
    sub: HashSet<UserId>,
}

impl RevokedTokens {
    /// Reads the list; an empty path revokes nothing.
    ///
    /// # Errors
    /// If the file or one of its lines cannot be read.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        if file.as_os_str().is_empty() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("auth.revoked_file: read {}", file.display()))?;
        Ok(Self::parse(&text)?)
    }

    fn parse(text: &str) -> Result<Self, UsageError> {
        let mut revoked = Self::default();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if !line.is_empty() && !line.starts_with('#') && revoked.add(line).is_none() {
                let line = index + 1;
                let text = format!("auth.revoked_file, line {line}: write `jti ID` or `sub USER`");
                return Err(UsageError::new(text));
            }
        }
        match revoked.len() <= ENTRIES_MAX {
            true => Ok(revoked),
            false => Err(UsageError::new(format!(
                "auth.revoked_file has more than {ENTRIES_MAX} lines: remove those of tokens that have expired"
            ))),
        }
    }

    /// Adds a line; `None` if it is invalid.
    fn add(&mut self, line: &str) -> Option<()> {
        let (what, which) = line.split_once(char::is_whitespace)?;
        let which = which.trim_start();
        match what {
            "jti" => self.jti.insert(which.into()),
            "sub" => self.sub.insert(UserId::new(which).ok()?),
            _ => return None,
        };
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.jti.len() + self.sub.len()
    }

    /// Whether a token of that user and that id is revoked.
    pub(super) fn has(&self, sub: &UserId, jti: Option<&str>) -> bool {
        self.sub.contains(sub) || jti.is_some_and(|jti| self.jti.contains(jti))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_tokens_and_users() {
        let text = "# stolen\n\n jti 7f3a \nsub  ann\n\tjti a b\r\n";
        let revoked = RevokedTokens::parse(text).unwrap();
        let has = |sub: &str, jti: Option<&str>| revoked.has(&UserId::new(sub).unwrap(), jti);
        assert!(has("ann", None) && has("ann", Some("x")));
        assert!(has("bob", Some("7f3a")) && has("bob", Some("a b")));
        assert!(!has("bob", None) && !has("bob", Some("ann")) && !has("7f3a", None));
        assert_eq!(revoked.len(), 3);
    }

    #[test]
    fn a_line_that_says_nothing_is_no_list() {
        for (text, line) in [
            ("ann", "line 1"),
            ("jti", "line 1"),
            ("sub ann\nJTI x", "line 2"),
            ("# fine\nsub an n", "line 2"),
            ("user ann", "line 1"),
        ] {
            let error = RevokedTokens::parse(text).unwrap_err().to_string();
            assert!(error.contains(line) && !error.contains("ann"), "{error}");
        }
    }

    #[test]
    fn the_list_is_bounded() {
        let lines = |count: usize| {
            let lines = (0..count).map(|n| format!("jti {n}\n"));
            RevokedTokens::parse(&lines.collect::<String>())
        };
        assert_eq!(lines(ENTRIES_MAX).unwrap().len(), ENTRIES_MAX);
        let error = lines(ENTRIES_MAX + 1).unwrap_err().to_string();
        assert!(error.contains("more than 1000000 lines"), "{error}");
    }
}
