//! List of the parts of the image, as CycloneDX JSON: crates of the program, and Debian packages with files in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::processor::Processor;
use crate::command;

/// Lists the crates that are linked into the program, with their licences.
const LIST: &str =
    "cargo tree --locked -p qiang --features full -e normal --prefix none --format {p}|{l}";
/// Lists Debian packages whose files are in the image.
const PACKAGES: &str = "dpkg-query --show --showformat=${Package}|${Version}|${Architecture}\\n";

/// The list as text.
pub(super) fn read(root: &Path, processor: Processor) -> Result<String> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let crates = match processor.target() {
        Some(target) => command::read(&format!("{LIST} --target {target}"), root)?,
        None => command::read(LIST, root)?,
    };
    let packages = format!("{PACKAGES} {}", processor.packages());
    let packages =
        command::read(&packages, root).context("the image takes files of Debian packages")?;
    Ok(serde_json::to_string_pretty(&list(
        &crates,
        &checksums(&lock),
        &packages,
    ))?)
}

fn list(crates: &str, checksums: &BTreeMap<(&str, &str), &str>, packages: &str) -> Value {
    let mut components = BTreeMap::new();
    let mut version_of_qiang = "";
    for (package, licence) in crates.lines().filter_map(|line| line.split_once('|')) {
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        let version = version.trim_start_matches('v');
        if name == "qiang" {
            version_of_qiang = version;
            continue;
        }
        let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
        let mut component = json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": licence }],
        });
        if let Some(checksum) = checksums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        components.insert(format!("cargo {name} {version}"), component);
    }
    for line in packages.lines() {
        let mut words = line.split('|');
        if let (Some(name), Some(version), Some(arch)) = (words.next(), words.next(), words.next())
        {
            let component = json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:deb/debian/{name}@{version}?arch={arch}"),
            });
            components.insert(format!("deb {name}"), component);
        }
    }
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "qiang", "version": version_of_qiang } },
        "components": components.into_values().collect::<Vec<_>>(),
    })
}

/// Checksums of a lock file by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let package = |block| {
        let field = |name| -> Option<&str> {
            let lines = str::lines(block).filter_map(|line| line.split_once(" = "));
            let mut lines = lines.filter(|(key, _)| *key == name);
            Some(lines.next()?.1.trim_matches('"'))
        };
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_listed_once_with_version_licence_and_checksum() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.0\"\nchecksum = \"c0ffee\"\n\n\
            [[package]]\nname = \"qiang\"\nversion = \"0.1.0\"\n";
        let crates = "qiang v0.1.0 (/src)|Apache-2.0\na v1.2.0 (proc-macro)|MIT/Apache-2.0\n\
            a v1.2.0|MIT/Apache-2.0 (*)\n\
            qiang-core v0.1.0 (/src/core)|Apache-2.0\n";
        let list = list(crates, &checksums(lock), "libc6|2.36-9|amd64\n");
        assert_eq!(list["metadata"]["component"]["version"], "0.1.0");
        let parts = list["components"].as_array().unwrap();
        let names: Vec<_> = parts
            .iter()
            .map(|part| part["purl"].as_str().unwrap())
            .collect();
        let expected = [
            "pkg:cargo/a@1.2.0",
            "pkg:cargo/qiang-core@0.1.0",
            "pkg:deb/debian/libc6@2.36-9?arch=amd64",
        ];
        assert_eq!(names, expected);
        assert_eq!(parts[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(parts[0]["hashes"][0]["content"], "c0ffee");
        assert!(parts[1].get("hashes").is_none());
    }
}
