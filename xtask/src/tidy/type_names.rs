//! Check for homonyms: in the product, one type name means one thing.
//!
//! Test crates and benchmarks are exempt. Their types are fixtures that one module uses.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use super::rust::Crate;

/// Crates whose types are fixtures of one module.
const EXEMPT: &[&str] = &[
    "crates/bench/",
    "crates/checks/",
    "crates/testkit/",
    "xtask/",
];

/// Names with several definitions, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "Audience",
        "the client's requests mirror the API's document",
    ),
    ("Currency", "bodies depend on no crate of ours"),
    ("Money", "bodies depend on no crate of ours"),
    ("SplitRule", "bodies depend on no crate of ours"),
    ("Timestamp", "bodies depend on no crate of ours"),
    (
        "Exporting",
        "a build without the feature `traces` has an empty one",
    ),
];

/// Files that define each type of the product.
#[derive(Default)]
pub(super) struct TypeNames {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl TypeNames {
    pub(super) fn add(&mut self, read: &Crate) {
        if EXEMPT.iter().any(|exempt| read.root.starts_with(exempt)) {
            return;
        }
        for module in read.modules.values() {
            for name in &module.types {
                let files = self.files.entry(name.clone()).or_default();
                files.insert(module.file.clone());
            }
        }
    }

    /// Finds names that several files define, and exceptions that are not needed.
    pub(super) fn check(&self, breaches: &mut Vec<Breach>) {
        let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
        for (name, files) in &self.files {
            let [first, others @ ..] = &*files.iter().collect::<Vec<_>>() else {
                continue;
            };
            if others.is_empty() || is_allowed(name) {
                continue;
            }
            for file in others {
                let what = format!("`{name}` is also a type in {first}: one name per type");
                breaches.push(Breach::file(file, what));
            }
        }
        for (name, _) in ALLOWED {
            let count = self.files.get(*name).map_or(0, BTreeSet::len);
            if count < 2 {
                let what = format!("exception `{name}` is not needed");
                breaches.push(Breach::file("xtask/src/tidy/type_names.rs", what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    /// Breaches of these files, without the unused exceptions.
    fn check(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let tree = Tree::of(files);
        let mut names = TypeNames::default();
        for root in roots {
            names.add(&Crate::read(&tree, root));
        }
        let mut breaches = Vec::new();
        names.check(&mut breaches);
        let is_homonym = |breach: &&Breach| breach.what.contains("one name per type");
        breaches
            .iter()
            .filter(is_homonym)
            .map(Breach::to_string)
            .collect()
    }

    #[test]
    fn two_types_of_one_name_in_two_crates_are_a_breach() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "struct Report; fn f() { enum Line {} }",
            ),
            ("crates/b/src/lib.rs", "mod m;"),
            ("crates/b/src/m.rs", "trait Report {} union Line { a: u8 }"),
        ];
        let roots = ["crates/a/src/lib.rs", "crates/b/src/lib.rs"];
        assert_eq!(
            check(&files, &roots),
            [
                "crates/b/src/m.rs: `Line` is also a type in crates/a/src/lib.rs: one name per type",
                "crates/b/src/m.rs: `Report` is also a type in crates/a/src/lib.rs: one name per type",
            ]
        );
    }

    #[test]
    fn fixtures_of_tests_and_functions_of_the_same_name_are_none() {
        let files = [
            ("crates/a/src/lib.rs", "struct World; fn report() {}"),
            (
                "crates/b/src/lib.rs",
                "#[cfg(test)] mod tests { struct World; } fn report() {}",
            ),
            ("crates/testkit/src/lib.rs", "pub struct World;"),
        ];
        let roots = [
            "crates/a/src/lib.rs",
            "crates/b/src/lib.rs",
            "crates/testkit/src/lib.rs",
        ];
        assert!(check(&files, &roots).is_empty());
    }
}
