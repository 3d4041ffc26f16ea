//! The repository's files, read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Never part of the project, whatever lists the files.
const SKIPPED_DIRECTORIES: &[&str] = &[".git", "target", "node_modules"];

/// Files by their path below the root, with `/` between the parts. A file that is not text has no content.
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads what git knows or would take; outside a git checkout (a source archive) everything there is.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let file = root.join(&path);
            // Links are followed where they point to; a file that git remembers may be gone from the disk.
            if !fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file()) {
                continue;
            }
            let bytes = fs::read(&file).with_context(|| format!("read {path}"))?;
            let text = String::from_utf8(bytes)
                .ok()
                .filter(|text| !text.contains('\0'));
            files.insert(path, text);
        }
        Ok(Self { files })
    }

    /// Every file that is text.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is such a file or a directory that holds one; the empty path is the root.
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

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let list = String::from_utf8(output.stdout).ok()?;
    Some(
        list.split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

fn walk(root: &Path, directory: &str, paths: &mut Vec<String>) -> Result<()> {
    let entries =
        fs::read_dir(root.join(directory)).with_context(|| format!("list {directory}"))?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if directory.is_empty() {
            name.clone()
        } else {
            format!("{directory}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_file() {
            paths.push(path);
        } else if kind.is_dir() && !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_git_the_directory_is_walked_without_build_output() {
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
    fn a_directory_is_there_only_by_its_full_name() {
        let tree = Tree::of(&[("docs-old/a", ""), ("docs.md", "")]);
        assert!(tree.has("docs-old") && !tree.has("docs"));
    }
}
