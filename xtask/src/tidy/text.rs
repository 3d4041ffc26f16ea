//! Checks of single text files: lines, endings, headers, length, and text that must not be committed.

use super::Breach;

/// Maximum length of a line of any text. rustfmt wraps code at 100; comments and prose may be longer.
const LINE_CHARS_MAX: usize = 120;

/// Length of a code file from which there is a warning.
const FILE_LINES_MAX: usize = 500;

/// Extensions of code files.
const CODE: &[&str] = &["css", "html", "js", "lua", "mjs", "rs", "sh", "sql", "ts"];

/// Extensions of generated files and data, whose format is not checked.
const GENERATED: &[&str] = &[
    "csv",
    "json",
    "jsonl",
    "lock",
    "patch",
    "proptest-regressions",
    "snap",
    "svg",
];

pub(super) fn check(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    check_committable(path, text, breaches);
    if is_generated(path) {
        return;
    }
    check_lines(path, text, breaches);
    check_header(path, text, breaches);
}

fn is_generated(path: &str) -> bool {
    GENERATED.contains(&extension(path))
        || path
            .split('/')
            .any(|part| ["generated", "vendor"].contains(&part))
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Checks for merge-conflict markers and for paths of a developer's machine. The patterns are assembled here, so that
/// this file does not match them.
fn check_committable(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    let markers = ['<', '|', '>'].map(|mark| mark.to_string().repeat(7));
    let homes = ["root", "home", "Users"].map(|name| format!("/{name}/"));
    for (number, line) in numbered(text) {
        let conflict = |marker: &String| {
            line.strip_prefix(marker.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if markers.iter().any(conflict) {
            breaches.push(Breach::line(path, number, "merge-conflict marker"));
        }
        if homes.iter().any(|home| names_absolute(line, home)) {
            breaches.push(Breach::line(
                path,
                number,
                "a path of a developer's machine",
            ));
        }
    }
}

/// Whether `line` has the absolute path `prefix`, but not as a later part of a longer path or address.
fn names_absolute(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}*".contains(c))
    })
}

fn check_lines(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    for (number, line) in numbered(text) {
        if line.chars().next_back().is_some_and(char::is_whitespace) {
            breaches.push(Breach::line(path, number, "whitespace at the end"));
        }
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX && !is_unbreakable(path, line) {
            let what = format!("{chars} characters, more than {LINE_CHARS_MAX}");
            breaches.push(Breach::line(path, number, what));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        breaches.push(Breach::file(path, "no newline at the end"));
    }
}

/// Whether a line is a row of a Markdown table or a user of Redis' ACL, or has an address.
fn is_unbreakable(path: &str, line: &str) -> bool {
    let is_row = extension(path) == "md" && line.starts_with('|');
    is_row || extension(path) == "acl" || line.contains("https://")
}

/// Warning for a code file that is longer than most. Files are cut by idea, so length alone is no breach.
pub(super) fn long_file(path: &str, text: &str) -> Option<Breach> {
    let lines = text.lines().count();
    let is_long = CODE.contains(&extension(path)) && !is_generated(path) && lines > FILE_LINES_MAX;
    is_long.then(|| {
        let what = format!("{lines} lines, more than {FILE_LINES_MAX}: look for a seam");
        Breach::file(path, what)
    })
}

/// Checks that a Rust file begins with a module comment, without exceptions for tests and benchmarks.
fn check_header(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let documented = first.and_then(|line| line.strip_prefix("//!"));
    if extension(path) == "rs" && documented.is_none_or(|words| words.trim().is_empty()) {
        breaches.push(Breach::line(
            path,
            1,
            "does not start with `//!` and the purpose of the file",
        ));
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // `lines` would hide a carriage return.
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.split('\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects exactly one breach in `line` (0: the whole file) with the text `what`; an empty `what` means no breach.
    fn check_one(path: &str, text: &str, line: usize, what: &str) {
        let mut breaches = Vec::new();
        check(path, text, &mut breaches);
        match breaches.as_slice() {
            [] => assert_eq!(what, "", "{path}: not caught in {text:?}"),
            [one] => {
                assert!(
                    !what.is_empty() && one.what.contains(what),
                    "{one} in {text:?}"
                );
                assert_eq!(one.line.unwrap_or(0), line, "{one}");
            }
            many => panic!("{many:?} in {text:?}"),
        }
    }

    #[test]
    fn lines_and_endings() {
        check_one("a.rs", "//! Doc.\nfn f() {}\n", 0, "");
        check_one("a.rs", "//! Doc.\nfn f() {} \n", 2, "whitespace");
        check_one("a.toml", "a = 1\t\n", 1, "whitespace");
        check_one("a.md", "text\r\n", 1, "whitespace");
        check_one("a.toml", "a = 1", 0, "no newline");
        check_one("a.toml", "", 0, "");
        check_one("a.snap", "x \n", 0, "");
    }

    #[test]
    fn long_lines_by_characters_and_not_bytes() {
        let at_most = "抢".repeat(120);
        check_one("a.md", &format!("{at_most}\n"), 0, "");
        check_one("a.md", &format!("{at_most}x\n"), 1, "121 characters");
        check_one("a.md", &format!("|{at_most}|\n"), 0, "");
        check_one(
            "a.rs",
            &format!("//! Doc.\n// |{at_most}|\n"),
            2,
            "characters",
        );
        check_one("Cargo.lock", &format!("{at_most}x\n"), 0, "");
        check_one("docs/openapi.json", &format!("{at_most}x\n"), 0, "");
        check_one("crates/server/vendor/a.js", &format!("{at_most}x\n"), 0, "");
    }

    #[test]
    fn long_files() {
        let long = format!("--\n{}", "select 1;\n".repeat(500));
        let warning = long_file("a.sql", &long).unwrap();
        assert!(warning.what.contains("501 lines"), "{warning}");
        assert_eq!(long_file("a.md", &long), None);
        let short = &long[..long.len() - "select 1;\n".len()];
        assert_eq!(long_file("a.sql", short), None);
    }

    #[test]
    fn files_without_a_header() {
        check_one("a.rs", "fn f() {}\n", 1, "//!");
        check_one("tests/a.rs", "use a;\n//! Late.\n", 1, "//!");
        check_one("a.rs", "//!\nfn f() {}\n", 1, "//!");
        check_one("a.rs", "", 1, "//!");
        check_one("a.rs", "\n//! Doc.\n", 0, "");
    }

    #[test]
    fn merge_conflicts() {
        for mark in ["<", "|", ">"] {
            let marker = mark.repeat(7);
            check_one(
                "a.toml",
                &format!("a = 1\n{marker} theirs\n"),
                2,
                "merge-conflict",
            );
            check_one("a.json", &format!("{marker}\n"), 1, "merge-conflict");
            check_one("a.toml", &format!("{marker}{mark}\n"), 0, "");
        }
    }

    #[test]
    fn machine_paths() {
        let home = |name: &str| format!("/{name}/");
        check_one(
            "a.md",
            &format!("see `{}me/x`\n", home("home")),
            1,
            "machine",
        );
        check_one("a.json", &format!("\"{}x\"\n", home("root")), 1, "machine");
        check_one("a.toml", &format!("{}x\n", home("Users")), 1, "machine");
        check_one("a.md", &format!("crates/x{}y\n", home("root")), 0, "");
        check_one(
            "a.md",
            &format!("https://a.example{}y\n", home("home")),
            0,
            "",
        );
    }
}
