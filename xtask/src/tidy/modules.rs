//! Dead files: every `.rs` file below `src/` and `tests/` is reached by `mod` from the root of its crate.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::{Tree, join, parent};

/// Finds the files that no crate compiles. The reading of Rust is rough: it knows comments, literals,
/// `mod`, `#[path]` and `include!`, and takes every `cfg` as set.
pub(super) fn check_dead_files(tree: &Tree, breaches: &mut Vec<Breach>) {
    let packages = tree.texts().filter_map(|(path, text)| {
        let directory = path.strip_suffix("Cargo.toml")?;
        text.lines()
            .any(|line| line == "[package]")
            .then_some((directory, text))
    });
    for (directory, manifest) in packages {
        let mut reached = BTreeSet::new();
        for root in roots(tree, directory, manifest) {
            let home = parent(&root).to_owned();
            reach(tree, root, home, &mut reached);
        }
        for (path, _) in tree.texts().filter(|(path, _)| is_source(directory, path)) {
            if !reached.contains(path) {
                breaches.push(Breach::file(path, "dead file: no `mod` leads to it"));
            }
        }
    }
}

fn is_source(directory: &str, path: &str) -> bool {
    let Some(path) = path
        .strip_prefix(directory)
        .filter(|path| path.ends_with(".rs"))
    else {
        return false;
    };
    path.starts_with("src/") || path.starts_with("tests/")
}

/// Where the compiler starts: the files cargo takes by their place, and those the manifest names.
fn roots(tree: &Tree, directory: &str, manifest: &str) -> Vec<String> {
    let by_place = |path: &&str| {
        let below = path.strip_prefix(directory).unwrap_or("");
        let parts: Vec<&str> = below.split('/').collect();
        match parts.as_slice() {
            ["src", "lib.rs" | "main.rs"] => true,
            ["src", "bin", file] | ["tests", file] => file.ends_with(".rs"),
            ["src", "bin", _, "main.rs"] | ["tests", _, "main.rs"] => true,
            _ => false,
        }
    };
    let named = manifest.lines().filter_map(|line| {
        let path = line
            .trim()
            .strip_prefix("path = \"")?
            .strip_suffix(".rs\"")?;
        Some(format!("{directory}{path}.rs"))
    });
    tree.texts()
        .map(|(path, _)| path)
        .filter(by_place)
        .map(str::to_owned)
        .chain(named)
        .collect()
}

/// Marks `path` and all below it; `home` is the directory in which its child modules live.
fn reach(tree: &Tree, path: String, home: String, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(&path) else { return };
    let directory = parent(&path).to_owned();
    if !reached.insert(path) {
        return;
    }
    for child in children(text) {
        if let Some(file) = child.file {
            let file = join(&directory, &file);
            let home = parent(&file).to_owned();
            reach(tree, file, home, reached);
            continue;
        }
        let home = child
            .way
            .iter()
            .fold(home.clone(), |home, name| join(&home, name));
        reach(tree, format!("{home}.rs"), home.clone(), reached);
        reach(tree, join(&home, "mod.rs"), home, reached);
    }
}

/// A module declared in another file.
#[derive(Debug, PartialEq, Eq)]
struct Child {
    /// The inline modules it is declared in, then its own name.
    way: Vec<String>,
    /// The file that `#[path]` or `include!` names.
    file: Option<String>,
}

fn children(text: &str) -> Vec<Child> {
    use Token::{Mark, Text, Word};
    let tokens = tokens(text);
    let mut children = Vec::new();
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut file = None;
    for at in 0..tokens.len() {
        match tokens[at..] {
            [Word("path"), Mark('='), Text(path), Mark(']'), ..] => file = Some(path.to_owned()),
            [Word("include"), Mark('!'), Mark('('), Text(path), ..] if path.ends_with(".rs") => {
                children.push(Child {
                    way: Vec::new(),
                    file: Some(path.to_owned()),
                });
            }
            [Word("mod"), Word(name), Mark(';'), ..] => {
                let way = inline.iter().map(|(name, _)| name.clone());
                let way = way.chain([name.to_owned()]).collect();
                children.push(Child {
                    way,
                    file: file.take(),
                });
            }
            [Word("mod"), Word(name), Mark('{'), ..] => inline.push((name.to_owned(), depth)),
            [Mark('{'), ..] => depth += 1,
            [Mark('}'), ..] => {
                depth = depth.saturating_sub(1);
                inline.pop_if(|(_, opened)| *opened == depth);
            }
            _ => {}
        }
    }
    children
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// What stands between the quotes of a string literal.
    Text(&'a str),
    Mark(char),
}

/// Words, strings and marks, without comments and characters.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some((start, hashes)) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let length = rest[start..].find(&close).unwrap_or(rest.len() - start);
            tokens.push(Token::Text(&rest[start..start + length]));
            (start + length + close.len()).min(rest.len())
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let end = end.unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            end
        } else if first == '"' {
            let end = closing(rest, '"');
            tokens.push(Token::Text(rest[1..end].trim_end_matches('"')));
            end
        } else if first == '\'' {
            character(rest)
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    tokens
}

/// The length of the block comment at the start of `rest`; they nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Where the text of a raw string at the start of `rest` begins, and how many `#` it has.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let opening = ["r", "br", "cr"]
        .into_iter()
        .find_map(|prefix| rest.strip_prefix(prefix))?;
    let text = opening.trim_start_matches('#').strip_prefix('"')?;
    let hashes = opening.len() - text.len() - 1;
    Some((rest.len() - text.len(), hashes))
}

/// The length of the literal at the start of `rest`, up to and with the `quote` that no backslash escapes.
fn closing(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of the character at the start of `rest`, or of the quote alone if it opens a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => closing(rest, '\''),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("a/Cargo.toml", "[package]\nname = \"a\"\n");

    fn check(files: &[(&str, &str)], dead: &[&str]) {
        let files: Vec<_> = [MANIFEST].iter().chain(files).copied().collect();
        let mut breaches = Vec::new();
        check_dead_files(&Tree::of(&files), &mut breaches);
        let paths: Vec<&str> = breaches.iter().map(|breach| breach.path.as_str()).collect();
        assert_eq!(paths, dead);
    }

    #[test]
    fn a_file_without_mod_is_dead_and_so_is_all_below_it() {
        check(
            &[
                (
                    "a/src/lib.rs",
                    "//! mod lost;\n/* mod lost; /* */ mod lost; */ pub mod kept;",
                ),
                (
                    "a/src/kept.rs",
                    "pub(crate) mod deep;\nconst M: &str = \"mod lost;\";",
                ),
                ("a/src/kept/deep/mod.rs", "mod deeper;"),
                (
                    "a/src/kept/deep/deeper.rs",
                    "let c = '\"'; mod x; fn f<'a>() {}",
                ),
                (
                    "a/src/kept/deep/deeper/x.rs",
                    "const R: &str = r#\"\" mod lost;\"#;",
                ),
                ("a/src/lost.rs", "mod below;"),
                ("a/src/lost/below.rs", ""),
            ],
            &["a/src/lost.rs", "a/src/lost/below.rs"],
        );
    }

    #[test]
    fn inline_modules_paths_and_includes_are_followed() {
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
                ("a/src/after.rs", "include!(\"../src/table.rs\");"),
                ("a/src/odd/name.rs", "mod beside;"),
                ("a/src/odd/beside.rs", ""),
                ("a/src/table.rs", ""),
                ("a/src/outer/after.rs", ""),
            ],
            &["a/src/outer/after.rs"],
        );
    }

    #[test]
    fn every_target_is_a_root_and_helpers_of_tests_may_be_dead_too() {
        check(
            &[
                ("a/src/lib.rs", ""),
                ("a/src/bin/one.rs", "mod helper;"),
                ("a/src/bin/two/main.rs", "mod part;"),
                ("a/src/bin/two/part.rs", ""),
                ("a/tests/first.rs", "mod common;"),
                ("a/tests/common/mod.rs", "mod used;"),
                ("a/tests/common/used.rs", ""),
                ("a/tests/common/unused.rs", ""),
            ],
            &["a/tests/common/unused.rs"],
        );
    }

    #[test]
    fn a_root_named_by_the_manifest_is_a_root() {
        let manifest = "[package]\n[[bin]]\nname = \"b\"\npath = \"src/odd.rs\"\n";
        let tree = Tree::of(&[
            ("b/Cargo.toml", manifest),
            ("b/src/odd.rs", "mod c;"),
            ("b/src/c.rs", ""),
        ]);
        let mut breaches = Vec::new();
        check_dead_files(&tree, &mut breaches);
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}
