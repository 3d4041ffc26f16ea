//! Installation of Valkey 8, on which the tests of the Redis engine also run.
//!
//! Debian has it in its backports. The packages are unpacked to the user's cache instead of installed, because an
//! installation would start a service beside Redis. The tests look for Valkey on the search path and then in that
//! cache: see `valkey.rs` of the testkit.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command;
use crate::steps::Done;

/// The server, and the package with its program.
const PACKAGES: [&str; 2] = ["valkey-server", "valkey-tools"];
const OLDEST: u32 = 8;

/// Unpacks Valkey, unless it is on the search path or unpacked already.
pub(crate) fn install() -> Result<Done> {
    let folder = folder()?;
    if is_new_enough("valkey-server", &folder) || is_new_enough(&server(&folder), &folder) {
        return Ok(Done::Passed);
    }
    let machine = Machine {
        os_release: fs::read_to_string("/etc/os-release").unwrap_or_default(),
        sources: sources(Path::new("/etc/apt")),
    };
    machine.unpack(&folder).with_context(|| {
        format!(
            "tests of the Redis engine need Valkey {OLDEST} or later: put its valkey-server on the search path, or add \
             Debian's backports to the machine's apt sources"
        )
    })?;
    if !is_new_enough(&server(&folder), &folder) {
        bail!(
            "{} was unpacked but does not run as Valkey {OLDEST}: check for a missing library",
            server(&folder)
        );
    }
    Ok(Done::Passed)
}

/// Folder of Valkey in the user's cache.
fn folder() -> Result<PathBuf> {
    Ok(cache()?.join("valkey"))
}

/// Folder of the project in the user's cache.
pub(crate) fn cache() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache
        .or(home)
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("qiang"))
}

fn server(folder: &Path) -> String {
    folder.join("usr/bin/valkey-server").display().to_string()
}

/// Whether the program runs and prints a recent version: `Valkey server v=8.1.1 …`.
fn is_new_enough(program: &str, folder: &Path) -> bool {
    let here = if folder.is_dir() {
        folder
    } else {
        Path::new("/")
    };
    let line = format!("{program} --version");
    if !command::succeeds(&line, here) {
        return false;
    }
    let text = command::read(&line, here).unwrap_or_default();
    let version = text
        .split("v=")
        .nth(1)
        .and_then(|text| text.split('.').next());
    text.starts_with("Valkey") && version.and_then(|text| text.parse().ok()) >= Some(OLDEST)
}

/// Properties of the machine that affect unpacking.
struct Machine {
    os_release: String,
    /// Texts of apt's own sources.
    sources: Vec<String>,
}

impl Machine {
    fn unpack(&self, folder: &Path) -> Result<()> {
        let release = self
            .os_release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let release = release.context("/etc/os-release has no Debian release name")?;
        let mirrors = mirrors(&self.sources, release);
        if mirrors.is_empty() {
            bail!("apt's sources have no mirror of {release}");
        }
        if !command::succeeds("apt-get --version", Path::new("/"))
            || !command::succeeds("dpkg-deb --version", Path::new("/"))
        {
            bail!("apt-get or dpkg-deb is missing");
        }
        // Uses separate lists and sources; those of the machine stay as they are.
        let staging = folder.with_extension(format!("new-{}", std::process::id()));
        fs::create_dir_all(staging.join("lists/partial"))?;
        fs::create_dir_all(staging.join("cache/archives/partial"))?;
        let unpacked = fetch(&staging, &backports(&mirrors, release)).and_then(|()| {
            drop(fs::remove_dir_all(folder));
            fs::rename(staging.join("root"), folder).context("cannot move the unpacked files")
        });
        drop(fs::remove_dir_all(&staging));
        unpacked
    }
}

fn fetch(staging: &Path, list: &str) -> Result<()> {
    let at = staging.display();
    fs::write(staging.join("sources.list"), list)?;
    let apt = format!(
        "apt-get --quiet -o Dir::Etc::SourceList={at}/sources.list -o Dir::Etc::SourceParts=- \
         -o Dir::State::Lists={at}/lists -o Dir::Cache={at}/cache -o APT::Sandbox::User="
    );
    println!("unpacking: {}", PACKAGES.join(" "));
    command::run(&format!("{apt} update"), staging)?;
    command::run(&format!("{apt} download {}", PACKAGES.join(" ")), staging)?;
    for file in fs::read_dir(staging)? {
        let path = file?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            command::run(&format!("dpkg-deb -x {} root", path.display()), staging)?;
        }
    }
    Ok(())
}

/// Texts of `sources.list` and of all files beside it.
pub(crate) fn sources(apt: &Path) -> Vec<String> {
    let parts = fs::read_dir(apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten();
    let files = parts.map(|part| part.path()).filter(|path| {
        path.extension()
            .is_some_and(|it| it == "list" || it == "sources")
    });
    let files = files.chain([apt.join("sources.list")]);
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect()
}

/// Sources of the release's packages, each with its options in brackets, as in `sources.list`.
pub(crate) fn mirrors(sources: &[String], release: &str) -> Vec<String> {
    let mut mirrors: Vec<String> = sources
        .iter()
        .flat_map(|text| one_line(text, release))
        .collect();
    mirrors.extend(sources.iter().flat_map(|text| stanzas(text, release)));
    mirrors.sort();
    mirrors.dedup();
    mirrors
}

/// Mirrors in lines of the form `deb [options] URI suite component …`.
fn one_line(text: &str, release: &str) -> Vec<String> {
    let mirror = |line: &str| {
        let rest = line.strip_prefix("deb ")?.trim();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let fits = words.get(1) == Some(&release) && words.contains(&"main");
        fits.then(|| format!("[{options}] {}", words[0]).replace("[] ", ""))
    };
    text.lines().filter_map(mirror).collect()
}

/// Mirrors in stanzas of `Types: deb`, `URIs: …`, `Suites: …`, `Components: …`, `Signed-By: …`.
fn stanzas(text: &str, release: &str) -> Vec<String> {
    let mut mirrors = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            let line = stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().split_whitespace()
        };
        let fits = field("Types").any(|it| it == "deb")
            && field("Suites").any(|it| it == release)
            && field("Components").any(|it| it == "main");
        if fits {
            let key = field("Signed-By").find(|key| key.starts_with('/'));
            let options = key.map_or_else(String::new, |key| format!("[signed-by={key}] "));
            mirrors.extend(field("URIs").map(|uri| format!("{options}{uri}")));
        }
    }
    mirrors
}

fn backports(mirrors: &[String], release: &str) -> String {
    let line = |mirror: &String| format!("deb {mirror} {release}-backports main\n");
    mirrors.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_come_from_where_the_release_comes_from() {
        let one_line = "# a comment\n\
            deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm main contrib\n\
            deb http://mirror.example/debian-security bookworm-security main\n\
            deb-src http://mirror.example/debian bookworm main\n";
        let stanzas = "Types: deb\n# a comment\nURIs: http://other.example/debian\nSuites: bookworm bookworm-updates\n\
            Components: main\nSigned-By: /usr/share/keyrings/k.gpg\n\n\
            Types: deb\nURIs: http://other.example/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
            Types: deb\nURIs: https://third.example\nSuites: nodistro\nComponents: main\n";
        let mirrors = mirrors(&[one_line.to_owned(), stanzas.to_owned()], "bookworm");
        assert_eq!(
            backports(&mirrors, "bookworm"),
            "deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm-backports main\n\
             deb [signed-by=/usr/share/keyrings/k.gpg] http://other.example/debian bookworm-backports main\n"
        );
    }

    #[test]
    fn an_unknown_machine_is_an_error_that_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let unpack = |os_release: &str, sources: &[&str]| {
            let machine = Machine {
                os_release: os_release.to_owned(),
                sources: sources.iter().map(|text| (*text).to_owned()).collect(),
            };
            let unpacked = machine.unpack(&folder.path().join("valkey"));
            format!("{:#}", unpacked.unwrap_err())
        };
        assert!(unpack("ID=arch\n", &[]).contains("no Debian release name"));
        let release = "VERSION_CODENAME=bookworm\n";
        assert!(unpack(release, &[]).contains("no mirror of bookworm"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
