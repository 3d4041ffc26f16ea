//! The repository's files, read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command;

/// Lists files that git tracks or would add.
const BY_GIT: &str = "git ls-files -z --cached --others --exclude-standard";

/// Lists the files of a source archive, which has no git data.
const BY_FIND: &str =
    "find . ( -name target -o -name node_modules ) -prune -o -type f -printf %P\\0";

/// Files by their path below the root, with `/` as the separator. A file that is not text has no content.
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let in_checkout = command::succeeds("git ls-files", root);
        let list = command::read(if in_checkout { BY_GIT } else { BY_FIND }, root)?;
        let mut files = BTreeMap::new();
        for path in list.split_terminator('\0') {
            let file = root.join(path);
            // Symbolic links are not followed. A tracked file may be missing on the disk.
            if !fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file()) {
                continue;
            }
            let bytes = fs::read(&file).with_context(|| format!("cannot read {path}"))?;
            let text = String::from_utf8(bytes)
                .ok()
                .filter(|text| !text.contains('\0'));
            files.insert(path.to_owned(), text);
        }
        Ok(Self { files })
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is such a file, or a directory with a file; the empty path is the root.
    pub(super) fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(below.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&below))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let entry = |(path, text): &(&str, &str)| (path.to_string(), Some(text.to_string()));
        Self {
            files: files.iter().map(entry).collect(),
        }
    }
}

/// Directory of a path, without a final `/`.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Joins `directory/below`, and resolves `.` and `..` in `below`.
pub(super) fn join(directory: &str, below: &str) -> String {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_git_everything_but_build_output_is_read() {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            ("a/b.rs", &b"text"[..]),
            ("target/c.rs", b"built"),
            ("d.bin", b"\0\xff"),
        ] {
            fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            fs::write(root.path().join(path), bytes).unwrap();
        }
        let tree = Tree::read(root.path()).unwrap();
        assert_eq!(tree.texts().collect::<Vec<_>>(), [("a/b.rs", "text")]);
        assert!(tree.has("d.bin") && tree.has("a") && tree.has("") && !tree.has("target"));
    }

    #[test]
    fn paths_are_joined_with_their_dots_followed() {
        assert_eq!(join("a/b", "../c/./d"), "a/c/d");
        assert_eq!(join("", "c"), "c");
        assert_eq!(join("a", "../../c"), "../c");
    }

    #[test]
    fn a_directory_is_there_only_by_its_full_name() {
        let tree = Tree::of(&[("docs-old/a", ""), ("docs.md", "")]);
        assert!(tree.has("docs-old") && !tree.has("docs"));
    }
}
