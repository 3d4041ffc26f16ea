//! Programs of the servers: their files, and runs of programs that end on their own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Servers are installed here, and a user's search path often omits it.
const SBIN: [&str; 2] = ["/usr/sbin", "/sbin"];

/// File of a program: on the search path, or in the usual folders of servers.
///
/// # Panics
/// If there is none. A missing server fails a test and never skips it.
pub(super) fn find(program: &str, package: &str) -> PathBuf {
    find_in(&search_path(), program).unwrap_or_else(|| {
        panic!("{program} is missing: install the package {package}, or run `cargo xtask test`")
    })
}

/// File of Valkey's server: on the search path, or where `cargo xtask test` unpacks it. It is not installed, because
/// its package would start a service beside Redis.
///
/// # Panics
/// If there is none.
pub(super) fn find_valkey() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let unpacked = cache
        .or(home)
        .map(|cache| cache.join("qiang/valkey/usr/bin"));
    let directories: Vec<_> = search_path().into_iter().chain(unpacked).collect();
    let message = "valkey-server is missing: run `cargo xtask test`, which unpacks it";
    find_in(&directories, "valkey-server").unwrap_or_else(|| panic!("{message}"))
}

/// File of a PostgreSQL program: Debian's newest version, or else from the search path.
pub(super) fn find_postgres(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<PathBuf> = versions.flatten().map(|version| version.path()).collect();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    let bins: Vec<PathBuf> = versions.iter().map(|path| path.join("bin")).collect();
    find_in(&bins, program).unwrap_or_else(|| find(program, "postgresql"))
}

/// Runs a program to its end and returns its standard output.
///
/// # Panics
/// With `what` and the program's standard error, if it fails.
pub(super) fn run(what: &str, command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SBIN.map(PathBuf::from))
        .collect()
}

fn find_in(directories: &[PathBuf], program: &str) -> Option<PathBuf> {
    directories
        .iter()
        .map(|directory| directory.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
