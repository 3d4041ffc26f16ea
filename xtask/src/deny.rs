//! Rules for dependencies: licences, banned crates and sources of all that is compiled for this platform.
//!
//! Security advisories are not checked, because they need an external database.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command;

/// Permissive licences that Apache-2.0 software may include. A licence on this list may be unused today.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    // Data: the root certificates.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Crates that must not be dependencies, not even indirect ones, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("async-std", "use tokio as the runtime"),
    ("chrono", "use jiff for time"),
    (
        "native-tls",
        "use rustls with aws-lc for TLS: one crypto provider",
    ),
    (
        "openssl-sys",
        "use rustls with aws-lc for TLS: one crypto provider",
    ),
    ("ring", "use aws-lc, the only crypto provider"),
    ("rsa", "its decryption leaks timing; use aws-lc for RSA"),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Lists every crate that is compiled with its features. Unlike `cargo metadata`, it omits optional ones.
const LIST: &str = "cargo tree --locked --workspace --all-features --prefix none --format {p}|{l}";

pub(crate) fn run(root: &Path) -> Result<()> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let mut breaches = sources(&lock);
    breaches.extend(crates(&command::read(LIST, root)?));
    if breaches.is_empty() {
        return Ok(());
    }
    breaches.sort();
    breaches.dedup();
    bail!(
        "{}\nuse another crate or fewer features (`cargo tree --invert CRATE` shows its dependents), \
         or change the lists in xtask/src/deny.rs",
        breaches.join("\n")
    )
}

/// Sources in Cargo.lock other than crates.io. The workspace's own crates have no source there.
fn sources(lock: &str) -> Vec<String> {
    lock.lines()
        .filter_map(|line| line.strip_prefix("source = \"")?.strip_suffix('"'))
        .filter(|source| *source != CRATES_IO)
        .map(|source| format!("{source}: not crates.io"))
        .collect()
}

/// Banned crates and licences in lines of `name version|licence`. A repeated crate has a mark at the end.
fn crates(list: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for (package, licence) in list.lines().filter_map(|line| line.split_once('|')) {
        let name = package.split(' ').next().unwrap_or(package);
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            breaches.push(format!("{package}: banned: {why}"));
        }
        let licence = licence.trim_end_matches(" (*)");
        if !is_allowed(licence) {
            breaches.push(format!("{package}: licence not allowed: {licence:?}"));
        }
    }
    breaches
}

/// Whether the allowed licences satisfy an SPDX expression. `/` is an old notation of `OR`.
fn is_allowed(expression: &str) -> bool {
    let mut expression = expression.replace('/', " OR ");
    // Evaluates the innermost brackets first, and replaces them by an allowed or a refused licence.
    while let Some((before, rest)) = expression.rsplit_once('(')
        && let Some((inner, after)) = rest.split_once(')')
    {
        let result = if is_allowed(inner) {
            LICENCES[0]
        } else {
            "none"
        };
        expression = format!("{before}{result}{after}");
    }
    let is_listed = |licence: &str| LICENCES.contains(&licence.trim());
    let mut alternatives = expression.split(" OR ");
    alternatives.any(|licences| licences.split(" AND ").all(is_listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_passes() {
        run(&crate::project_root().unwrap()).unwrap();
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for allowed in [
            "MIT",
            "Apache-2.0 / MIT",
            "GPL-3.0 OR MIT",
            "MIT AND (GPL-3.0 OR ISC)",
            "Apache-2.0 WITH LLVM-exception OR MIT",
            "ISC AND (Apache-2.0 OR ISC) AND Apache-2.0",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "(MIT OR ISC) AND GPL-3.0",
            "GPL-3.0 OR MIT AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn a_banned_crate_and_a_refused_licence_are_found() {
        assert!(crates("a v1.0.0|MIT\n\na v1.0.0|MIT (*)\nb v2 (proc-macro)|ISC").is_empty());
        assert!(crates("ring v0.17.0|MIT")[0].contains("aws-lc"));
        assert!(crates("a v1.0.0|GPL-3.0 (*)")[0].contains("\"GPL-3.0\""));
        assert_eq!(crates("a v1.0.0|").len(), 1);
    }

    #[test]
    fn a_source_other_than_crates_io_is_found() {
        let lock = |source: &str| format!("name = \"a\"\nsource = \"{source}\"\n");
        assert!(sources(&lock(CRATES_IO)).is_empty());
        assert_eq!(sources(&lock("git+https://a.example/a#0")).len(), 1);
    }
}
