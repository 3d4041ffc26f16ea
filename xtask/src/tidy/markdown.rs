//! Checks of Markdown: targets of relative links, numbers and index of decisions, and the page of configuration keys.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::Breach;
use super::tree::{Tree, join, parent};
use crate::configuration::{PAGE, SOURCE, page};

const DECISIONS: &str = "docs/decisions/";

/// Checks that the target of every relative link is a file or directory of the repository. Fragments after `#` are not
/// checked.
pub(super) fn check_links(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in targets(text) {
            let file = target.split(['#', '?']).next().unwrap_or("");
            let resolved = match file.strip_prefix('/') {
                Some(from_root) => join("", from_root),
                None => join(parent(path), file),
            };
            if !file.is_empty() && !tree.has(&resolved) {
                breaches.push(Breach::line(
                    path,
                    line,
                    format!("link to a missing file: {target}"),
                ));
            }
        }
    }
}

/// Checks that decisions are named `NNNN-title.md`, that numbers are unique, and that the index in README.md links
/// each.
pub(super) fn check_decisions(tree: &Tree, breaches: &mut Vec<Breach>) {
    let index = tree.text(&format!("{DECISIONS}README.md"));
    let listed = targets(index.unwrap_or(""));
    let mut numbers = BTreeMap::new();
    for (path, _) in tree.texts() {
        let name = path.strip_prefix(DECISIONS).unwrap_or("README.md");
        if name == "README.md" || !name.ends_with(".md") {
            continue;
        }
        let mut breach = |what: String| breaches.push(Breach::file(path, what));
        match name.split_once('-') {
            Some((number, _)) if number.len() == 4 && number.parse::<u16>().is_ok() => {
                if let Some(other) = numbers.insert(number, name) {
                    breach(format!("number {number} is taken by {other}"));
                }
            }
            _ => breach("not named NNNN-title.md".to_owned()),
        }
        if !listed.iter().any(|(_, target)| target == name) {
            breach(format!("not linked in the index, {DECISIONS}README.md"));
        }
    }
}

/// Checks that the page of configuration keys follows from the default configuration.
pub(super) fn check_configuration(tree: &Tree, breaches: &mut Vec<Breach>) {
    let expected = tree.text(SOURCE).map(page);
    if tree.text(PAGE) != expected.as_deref() {
        let what = format!("differs from {SOURCE}: run `cargo xtask docs`");
        breaches.push(Breach::file(PAGE, what));
    }
}

/// Targets of links, images and `[name]: target` lines with their line numbers, except web addresses.
fn targets(text: &str) -> Vec<(usize, String)> {
    let parser = Parser::new_ext(text, Options::ENABLE_FOOTNOTES | Options::ENABLE_TABLES);
    let mut targets: Vec<(usize, String)> = parser
        .reference_definitions()
        .iter()
        .map(|(_, definition)| (definition.span.start, definition.dest.to_string()))
        .collect();
    targets.extend(
        parser
            .into_offset_iter()
            .filter_map(|(event, place)| match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    // The target of a link by name is its definition, which is in the list already.
                    let is_inline = text[place.clone()].ends_with(')');
                    is_inline.then(|| (place.start, dest_url.to_string()))
                }
                _ => None,
            }),
    );
    targets.retain(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    for (place, _) in &mut targets {
        *place = text[..*place].matches('\n').count() + 1;
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, lines: &[usize]) {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b/c.md", ""), ("README.md", "")]);
        let mut breaches = Vec::new();
        check_links(&tree, &mut breaches);
        let found: Vec<usize> = breaches.iter().filter_map(|breach| breach.line).collect();
        assert_eq!(found, lines, "{text}: {breaches:?}");
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        check(
            "[a](b/c.md) [b](b/) [c](../README.md#part) [d](#here) [e](/docs/b/c.md \"title\")",
            &[],
        );
        check("[x](https://a.example/none) [y](mailto:a@b.example)", &[]);
        check("`[x](none.md)`\n```\n[x](none.md)\n```\n", &[]);
        check("[^1]: none at all\n[n]: b/c.md\n", &[]);
    }

    #[test]
    fn links_to_nowhere_are_found() {
        check("fine\n[a](none.md)", &[2]);
        check("![a](b/none.svg) and [b](c.md)", &[1, 1]);
        check("[`code`](none.md)", &[1]);
        check("[n]: none.md", &[1]);
        check("fine\n\n[a][n] and [n]\n\n[n]: none.md", &[5]);
        check("[text over\ntwo lines](none.md)", &[1]);
        check("[out](../../README.md)", &[1]);
        check("```\n```\n[a](<none.md>)", &[3]);
    }

    #[test]
    fn a_page_of_keys_that_is_not_up_to_date_is_found() {
        let source = "[a]\n# One.\nx = 1\n";
        for (text, count) in [(page(source), 0), (page(""), 1)] {
            let mut breaches = Vec::new();
            let tree = Tree::of(&[(SOURCE, source), (PAGE, text.as_str())]);
            check_configuration(&tree, &mut breaches);
            assert_eq!(breaches.len(), count, "{breaches:?}");
        }
    }

    fn check_numbers(names: &[&str], index: &str, what: &[&str]) {
        let paths: Vec<String> = names
            .iter()
            .map(|name| format!("{DECISIONS}{name}"))
            .collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        files.push(("docs/decisions/README.md", index));
        let mut breaches = Vec::new();
        check_decisions(&Tree::of(&files), &mut breaches);
        assert_eq!(breaches.len(), what.len(), "{breaches:?}");
        for (breach, what) in breaches.iter().zip(what) {
            assert!(breach.what.contains(what), "{breach}");
        }
    }

    #[test]
    fn decisions_are_numbered_once_and_listed() {
        let index = "[1](0001-a.md) [2](0001-b.md) [3](2-c.md) [4](0002-d.md)";
        check_numbers(&["0001-a.md", "0002-d.md"], index, &[]);
        check_numbers(&["0001-a.md", "0001-b.md"], index, &["taken by 0001-a.md"]);
        check_numbers(&["2-c.md"], index, &["NNNN"]);
        check_numbers(&["0003-e.md"], index, &["index"]);
    }
}
