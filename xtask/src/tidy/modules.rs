//! Check for dead files: `mod` must lead from the root of a crate to every `.rs` file below `src/` and `tests/`.

use std::collections::BTreeSet;

use super::Breach;
use super::rust::Crate;
use super::tree::Tree;

/// Finds files in the package at `directory` that no crate of the package compiles.
pub(super) fn check_dead_files(
    tree: &Tree,
    directory: &str,
    crates: &[Crate],
    breaches: &mut Vec<Breach>,
) {
    let reached: BTreeSet<&String> = crates.iter().flat_map(|read| &read.files).collect();
    for (path, error) in crates.iter().flat_map(|read| &read.unreadable) {
        breaches.push(Breach::file(path, format!("is not Rust: {error}")));
    }
    let sources = ["src/", "tests/"].map(|below| format!("{directory}/{below}"));
    for (path, _) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let is_source = sources.iter().any(|source| path.starts_with(source));
        if is_source && !reached.contains(&path.to_owned()) {
            breaches.push(Breach::file(path, "dead file: no `mod` leads to it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects these dead files in package `a` with the given roots of crates.
    fn check(files: &[(&str, &str)], roots: &[&str], dead: &[&str]) {
        let tree = Tree::of(files);
        let crates: Vec<Crate> = roots.iter().map(|root| Crate::read(&tree, root)).collect();
        let mut breaches = Vec::new();
        check_dead_files(&tree, "a", &crates, &mut breaches);
        let paths: Vec<&str> = breaches.iter().map(|breach| breach.path.as_str()).collect();
        assert_eq!(paths, dead, "{breaches:?}");
    }

    #[test]
    fn a_file_without_mod_is_dead_and_so_is_all_below_it() {
        check(
            &[
                (
                    "a/src/lib.rs",
                    "//! mod lost;\n/* mod lost; */ pub mod kept;",
                ),
                (
                    "a/src/kept.rs",
                    "pub(crate) mod deep;\nconst M: &str = \"mod lost;\";",
                ),
                ("a/src/kept/deep/mod.rs", "#[cfg(test)] mod deeper;"),
                ("a/src/kept/deep/deeper.rs", ""),
                ("a/src/lost.rs", "mod below;"),
                ("a/src/lost/below.rs", ""),
            ],
            &["a/src/lib.rs"],
            &["a/src/lost.rs", "a/src/lost/below.rs"],
        );
    }

    #[test]
    fn inline_modules_and_paths_are_followed() {
        check(
            &[
                (
                    "a/src/main.rs",
                    "mod outer { fn f() { {} } mod inner; }\nmod after;",
                ),
                (
                    "a/src/outer/inner.rs",
                    "#[path = \"../odd/name.rs\"]\nmod named;",
                ),
                ("a/src/after.rs", ""),
                ("a/src/odd/name.rs", "mod beside;"),
                ("a/src/odd/beside.rs", ""),
                ("a/src/outer/after.rs", ""),
            ],
            &["a/src/main.rs"],
            &["a/src/outer/after.rs"],
        );
    }

    #[test]
    fn every_target_is_a_root_and_helpers_of_tests_may_be_dead_too() {
        check(
            &[
                ("a/src/lib.rs", ""),
                ("a/src/bin/one.rs", ""),
                ("a/tests/first.rs", "mod common;"),
                ("a/tests/common/mod.rs", "mod used;"),
                ("a/tests/common/used.rs", ""),
                ("a/tests/common/unused.rs", ""),
            ],
            &["a/src/lib.rs", "a/src/bin/one.rs", "a/tests/first.rs"],
            &["a/tests/common/unused.rs"],
        );
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        check(
            &[("a/src/lib.rs", "mod mod;")],
            &["a/src/lib.rs"],
            &["a/src/lib.rs"],
        );
    }
}
