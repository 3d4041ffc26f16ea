//! Checks of Lua scripts: the header with keys, arguments and replies, and luacheck.

use std::path::Path;

use anyhow::{Result, bail};

use super::Breach;
use super::tree::Tree;
use crate::command;
use crate::steps::Done;

/// Words that begin lines of a script's header.
const HEADER: [&str; 3] = ["KEYS", "ARGV", "Replies"];

/// Checks that every script has such a header. Callers need it, because no compiler checks the call.
pub(super) fn check_headers(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (path, text) in scripts(tree) {
        let header: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("--"))
            .collect();
        for word in HEADER {
            let explains = |line: &&str| {
                let rest = line.trim_start().strip_prefix(word);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            if !header.iter().any(explains) {
                let what = format!("no line of the header starts with `-- {word}`");
                breaches.push(Breach::line(path, 1, what));
            }
        }
    }
}

/// Runs luacheck over all scripts. A missing luacheck is an error if it is `required`.
pub(crate) fn lint(root: &Path, required: bool) -> Result<Done> {
    lint_with("luacheck", root, required)
}

fn lint_with(program: &str, root: &Path, required: bool) -> Result<Done> {
    if !command::succeeds(&format!("{program} --version"), root) {
        let missing = format!("{program} is missing: install the Debian package lua-check");
        if required {
            bail!(missing);
        }
        return Ok(Done::Skipped(missing));
    }
    let lint = format!("{program} --quiet --no-color --codes crates");
    command::run(&lint, root).map(|()| Done::Passed)
}

fn scripts(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, _)| path.ends_with(".lua"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::script;

    const GOOD: &str =
        "-- Takes one.\n-- KEYS[1] stock\n-- ARGV[1] user\n-- Replies: 1\nreturn 1\n";

    /// Expects a breach for each word of `missing`.
    fn check(text: &str, missing: &[&str]) {
        let mut breaches = Vec::new();
        check_headers(&Tree::of(&[("a/b.lua", text)]), &mut breaches);
        let found: Vec<&str> = breaches
            .iter()
            .filter_map(|breach| breach.what.rsplit_once("-- "))
            .map(|(_, word)| word.trim_end_matches('`'))
            .collect();
        assert_eq!(found, missing, "{text:?}");
    }

    #[test]
    fn a_header_names_keys_arguments_and_replies() {
        check(GOOD, &[]);
        check("--KEYS: none\n--\n--  ARGV: none\n-- Replies OK.\n", &[]);
        check("", &HEADER);
        check("return 1\n", &HEADER);
        check(&GOOD.replace("ARGV[1]", "the user's ARGV[1]"), &["ARGV"]);
        check(&GOOD.replace("Replies", "Repliesx"), &["Replies"]);
        // Comments after the first line of code are not part of the header.
        check(&format!("local x\n{GOOD}"), &HEADER);
        let mut breaches = Vec::new();
        check_headers(&Tree::of(&[("a/b.rs", "")]), &mut breaches);
        assert!(breaches.is_empty());
    }

    #[test]
    fn a_missing_linter_is_an_error_only_where_it_is_required() {
        let lint = |required| lint_with("no-such-program-here", Path::new("."), required);
        let Ok(Done::Skipped(why)) = lint(false) else {
            panic!("not skipped");
        };
        assert!(why.contains("lua-check"), "{why}");
        let message = lint(true).unwrap_err().to_string();
        assert!(message.contains("lua-check"), "{message}");
    }

    #[test]
    fn what_the_linter_finds_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let linter = root.path().join("linter");
        script(
            &linter,
            "echo $* >> calls; test $1 = --version || test ! -f broken",
        );
        let lint = || lint_with(&linter.display().to_string(), root.path(), true);
        assert_eq!(lint().unwrap(), Done::Passed);
        let calls = std::fs::read_to_string(root.path().join("calls")).unwrap();
        assert!(calls.trim_end().ends_with(" crates"), "{calls}");
        std::fs::write(root.path().join("broken"), "").unwrap();
        assert!(lint().is_err());
    }
}
