//! docs/operate/disasters.md names existing tests, and each of its rows names one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::test_names::{crates, files, functions};

/// The file of a test, from its name `crate::module::module`.
fn file_of(crates: &Path, crate_name: &str, modules: &[&str]) -> Option<PathBuf> {
    if let ("web", ["browser", name]) = (crate_name, modules) {
        let page = crates.join(format!("web/browser/{name}.test.mjs"));
        return page.is_file().then_some(page);
    }
    let folders: &[_] = match crate_name {
        "testkit" => &["src"],
        "checks" => &["tests"],
        _ => &["tests/it", "src"],
    };
    let files = folders.iter().flat_map(|folder| {
        let folder = crates.join(crate_name).join(folder);
        let module = modules.iter().fold(folder, |at, name| at.join(name));
        [module.with_extension("rs"), module.join("mod.rs")]
    });
    files.into_iter().find(|file| file.is_file())
}

/// Whether a file has this function as a test: with the attribute, or named once more in the crate, by a macro that
/// makes a test of it for each server or engine.
fn is_test(crates: &Path, crate_name: &str, file: &Path, test: &str) -> bool {
    let text = fs::read_to_string(file).unwrap();
    if !functions(&text).any(|name| name == test) {
        return false;
    }
    let before = text.split(&format!("fn {test}")).next().unwrap();
    let item = before.rsplit("\n\n").next().unwrap();
    item.contains("test]")
        || item.contains("test(")
        || files(&crates.join(crate_name), &["rs"])
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .flat_map(|text| {
                let is_word = |it: char| it.is_alphanumeric() || it == '_';
                let words = text.split(move |it| !is_word(it)).map(str::to_owned);
                words.collect::<Vec<_>>()
            })
            .filter(|word| word == test)
            .count()
            > 1
}

#[test]
fn the_tests_that_the_page_names_are_there() {
    let crates = &crates();
    let page = fs::read_to_string(crates.join("../docs/operate/disasters.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| what happens");
    let rows: Vec<_> = page.lines().filter(is_row).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 5, "{row}");
        let named: Vec<_> = cells[4].split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            let parts: Vec<_> = name.split("::").collect();
            let (crate_name, rest) = parts.split_first().unwrap();
            let (test, modules) = rest.split_last().unwrap();
            // Some names are of a whole module of tests.
            let is_there = file_of(crates, crate_name, rest).is_some()
                || file_of(crates, crate_name, modules)
                    .is_some_and(|file| is_test(crates, crate_name, &file, test));
            if !is_there {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
