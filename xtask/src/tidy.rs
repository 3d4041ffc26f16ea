//! Tidy: checks of layout rules that neither the compiler nor clippy covers, as functions of the repository's text.
//!
//! Each check gets files in memory and returns breaches. Each has a test with a planted breach.

mod circles;
mod formatting;
mod lua;
mod manifests;
mod markdown;
mod modules;
mod prose;
mod rust;
mod text;
mod tree;
mod type_names;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

pub(crate) use lua::lint as lint_lua;
use manifests::Metadata;
use tree::{Tree, parent};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    path: String,
    /// Line number, from 1; `None` for the whole file.
    line: Option<usize>,
    what: String,
}

impl Breach {
    fn file(path: &str, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            what: what.into(),
        }
    }

    fn line(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: Some(line),
            what: what.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// Runs all checks, on a machine with all necessary programs.
pub(crate) fn run(root: &Path) -> Result<()> {
    check(root)?;
    lua::lint(root, true).map(drop)
}

pub(crate) fn check(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let long = tree
        .texts()
        .filter_map(|(path, text)| text::long_file(path, text));
    for warning in long {
        println!("warning: {warning}");
    }
    let breaches = breaches(root)?;
    for breach in &breaches {
        println!("{breach}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => bail!("breaches of the rules in CONTRIBUTING.md: {count}"),
    }
}

fn breaches(root: &Path) -> Result<Vec<Breach>> {
    let tree = Tree::read(root)?;
    let metadata = Metadata::read(root)?;
    let mut breaches = Vec::new();
    for (path, text) in tree.texts() {
        text::check(path, text, &mut breaches);
        prose::check(path, text, &mut breaches);
        formatting::check(path, text, &mut breaches);
    }
    lua::check_headers(&tree, &mut breaches);
    manifests::check_dependencies(&metadata, &mut breaches);
    manifests::check_core(&metadata, &mut breaches);
    manifests::check_test_binaries(&metadata, &mut breaches);
    manifests::check_lints(&tree, &metadata, &mut breaches);
    let mut names = type_names::TypeNames::default();
    for package in &metadata.packages {
        let directory = parent(&package.manifest_path);
        let crates = package.crates(&tree);
        modules::check_dead_files(&tree, directory, &crates, &mut breaches);
        let sources = format!("{directory}/src/");
        for read in crates.iter().filter(|read| read.root.starts_with(&sources)) {
            circles::check(read, &mut breaches);
            names.add(read);
        }
    }
    names.check(&mut breaches);
    markdown::check_links(&tree, &mut breaches);
    markdown::check_decisions(&tree, &mut breaches);
    markdown::check_configuration(&tree, &mut breaches);
    breaches.sort();
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let breaches = breaches(&crate::project_root().unwrap()).unwrap();
        let lines: Vec<String> = breaches.iter().map(Breach::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn a_breach_is_printed_the_way_editors_follow() {
        assert_eq!(
            Breach::line("a/b.rs", 3, "odd").to_string(),
            "a/b.rs:3: odd"
        );
        assert_eq!(Breach::file("a/b.rs", "odd").to_string(), "a/b.rs: odd");
    }
}
