//! Checks of Markdown: relative links lead somewhere, decisions are numbered and listed.

use std::collections::BTreeMap;

use super::Breach;
use super::modules::join;
use super::tree::Tree;

const DECISIONS: &str = "docs/decisions/";

/// Every relative link of a Markdown file names a file or directory of the repository. Sections
/// behind `#` are not looked at.
pub(super) fn check_links(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for (line, target) in targets(text) {
            let file = target.split(['#', '?']).next().unwrap_or("");
            let resolved = match file.strip_prefix('/') {
                Some(from_root) => join("", from_root),
                None => join(directory, file),
            };
            if !file.is_empty() && !tree.has(&resolved) {
                breaches.push(Breach::line(
                    path,
                    line,
                    format!("link to nowhere: {target}"),
                ));
            }
        }
    }
}

/// Decisions are `NNNN-title.md`, no number is used twice, and the index in README.md links each.
pub(super) fn check_decisions(tree: &Tree, breaches: &mut Vec<Breach>) {
    let index = tree.text(&format!("{DECISIONS}README.md")).unwrap_or("");
    let mut numbers = BTreeMap::new();
    for (path, _) in tree.texts() {
        let Some(name) = path
            .strip_prefix(DECISIONS)
            .filter(|name| name.ends_with(".md"))
        else {
            continue;
        };
        if name == "README.md" {
            continue;
        }
        match name.split_once('-') {
            Some((number, _))
                if number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()) =>
            {
                if let Some(other) = numbers.insert(number, name) {
                    breaches.push(Breach::file(
                        path,
                        format!("number {number} is taken by {other}"),
                    ));
                }
            }
            _ => breaches.push(Breach::file(path, "not named NNNN-title.md")),
        }
        if !targets(index).iter().any(|(_, target)| *target == name) {
            breaches.push(Breach::file(
                path,
                "not linked in the index, docs/decisions/README.md",
            ));
        }
    }
}

/// The targets of links and images, and of `[name]: target` lines, outside code, with their lines; no outside address.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => in_line(line, |target| targets.push((index + 1, target))),
            _ => {}
        }
    }
    targets.retain(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    targets
}

fn in_line<'a>(line: &'a str, mut found: impl FnMut(&'a str)) {
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
        && !name.starts_with("[^")
    {
        found(bare(target));
    }
    // Every second piece between backquotes is code; a target never has one.
    let mut code = false;
    for piece in line.split('`') {
        // The text of a link may be code: its target then starts the next piece, with the bracket.
        let links = piece.match_indices("](").map(|(at, _)| &piece[at + 2..]);
        for target in links.filter(|_| !code) {
            if let Some((target, _)) = target.split_once(')') {
                found(bare(target));
            }
        }
        code = !code;
    }
}

/// The target without its title and angle brackets.
fn bare(target: &str) -> &str {
    let target = target.split_whitespace().next().unwrap_or("");
    target
        .strip_prefix('<')
        .and_then(|t| t.strip_suffix('>'))
        .unwrap_or(target)
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
        check("[out](../../README.md)", &[1]);
        check("```\n```\n[a](<none.md>)", &[3]);
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
