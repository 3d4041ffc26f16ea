//! Checks an image: its settings and its files, and a node in it that sells a unit and stops.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::node::{Node, PROGRAM, USER};
use super::processor::Processor;
use super::{IMAGE, Store};

/// List of the image's parts.
const SBOM: &str = "usr/share/doc/qiang/sbom.cdx.json";

/// Files that must be there.
const FILES: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "usr/share/doc/qiang/LICENSE",
    SBOM,
    "usr/local/bin/qiang",
];

pub(super) fn run(store: &Store, processor: Processor) -> Result<()> {
    store.read("rm --all")?;
    let arch = processor.name()?;
    let container = store.read(&format!("from --pull-never --arch {arch} {IMAGE}"))?;
    let config = store.read(&format!("inspect --type image {IMAGE}"))?;
    settings(&serde_json::from_str(&config)?, arch)?;
    let mounted = PathBuf::from(store.read(&format!("mount {container}"))?);
    for file in FILES {
        let there = fs::metadata(mounted.join(file));
        ensure!(there.is_ok_and(|it| it.len() > 0), "the image lacks {file}");
    }
    owned(&mounted, &mounted)?;
    zones(&mounted)?;
    sbom(&fs::read_to_string(mounted.join(SBOM))?)?;
    // Buildah has no emulator. It sometimes loses the output of a program on a busy machine, so its exit code counts.
    if processor.runner().is_none() {
        store.read(&format!(
            "run --isolation chroot {container} -- {PROGRAM} --version"
        ))?;
    }
    let node = Node::start(store.folder.join("node"), &mounted, processor)?;
    let served = node.sell().and_then(|()| node.check_health());
    if served.is_err() {
        println!("{}", node.log());
    }
    served?;
    node.stop()
}

/// Time zones are whole: each of a few far apart has the magic number of its format.
fn zones(root: &Path) -> Result<()> {
    for zone in ["Asia/Shanghai", "America/Sao_Paulo", "UTC"] {
        let file = root.join("usr/share/zoneinfo").join(zone);
        let bytes = fs::read(&file).with_context(|| format!("the image lacks zone {zone}"))?;
        ensure!(bytes.starts_with(b"TZif"), "zone {zone} is no time zone");
    }
    Ok(())
}

/// The list of parts names the crates that make connections, and the packages whose files are there.
fn sbom(text: &str) -> Result<()> {
    let list: Value = serde_json::from_str(text).context("the list of parts is no JSON")?;
    ensure!(
        list["bomFormat"] == "CycloneDX",
        "the list of parts has the format {}",
        list["bomFormat"]
    );
    let parts = list["components"].as_array().context("no components")?;
    for part in ["rustls", "libsqlite3-sys", "tzdata", "ca-certificates"] {
        let found = parts.iter().find(|it| it["name"] == part);
        let version = found.and_then(|it| it["version"].as_str());
        ensure!(
            version.is_some_and(|it| !it.is_empty()),
            "the list of parts lacks {part}"
        );
    }
    Ok(())
}

/// The image's own settings.
fn settings(inspected: &Value, processor: &str) -> Result<()> {
    let found = &inspected["OCIv1"]["architecture"];
    ensure!(found == processor, "the image is for {found}");
    let config = &inspected["OCIv1"]["config"];
    let expected = json!({
        "User": "65532:65532",
        "WorkingDir": "/var/lib/qiang",
        "StopSignal": "SIGTERM",
        "Entrypoint": ["/usr/local/bin/qiang"],
    });
    for (key, value) in expected.as_object().into_iter().flatten() {
        ensure!(
            config[key] == *value,
            "{key} of the image is {}",
            config[key]
        );
    }
    for label in ["title", "version", "revision", "licenses"] {
        let text = config["Labels"][format!("org.opencontainers.image.{label}")].as_str();
        ensure!(
            text.is_some_and(|it| !it.is_empty()),
            "the image has no label {label}"
        );
    }
    Ok(())
}

/// Only the data's folder belongs to the program's user, and nothing else can be written by it.
fn owned(root: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        let inside = path.strip_prefix(root)?.display().to_string();
        let is_data = inside == "var/lib/qiang";
        let is_own = metadata.uid() == USER || metadata.gid() == USER;
        ensure!(
            is_own == is_data,
            "/{inside} belongs to {}:{}",
            metadata.uid(),
            metadata.gid()
        );
        let mode = metadata.permissions().mode();
        let is_open = !metadata.is_symlink() && mode & 0o6002 != 0;
        ensure!(!is_open, "/{inside} has mode {mode:o}");
        if metadata.is_dir() {
            owned(root, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_user_may_write_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("open"), "").unwrap();
        let set = |mode| fs::set_permissions(root.join("open"), fs::Permissions::from_mode(mode));
        set(0o644).unwrap();
        assert!(owned(root, root).is_ok());
        for mode in [0o666, 0o4755] {
            set(mode).unwrap();
            let error = owned(root, root).unwrap_err().to_string();
            assert!(error.contains("/open has mode"), "{error}");
        }
    }

    #[test]
    fn settings_of_another_image_are_refused() {
        let mut config = json!({
            "User": "65532:65532",
            "WorkingDir": "/var/lib/qiang",
            "StopSignal": "SIGTERM",
            "Entrypoint": ["/usr/local/bin/qiang"],
            "Labels": {},
        });
        for label in ["title", "version", "revision", "licenses"] {
            config["Labels"][format!("org.opencontainers.image.{label}")] = json!("x");
        }
        let check = |config: &Value| {
            let image = json!({ "OCIv1": { "architecture": "arm64", "config": config } });
            assert!(settings(&image, "amd64").is_err());
            settings(&image, "arm64")
        };
        check(&config).unwrap();
        for (key, value) in [
            ("User", json!("0")),
            ("Labels", json!({})),
            ("Entrypoint", json!(null)),
        ] {
            let mut other = config.clone();
            other[key] = value;
            assert!(check(&other).is_err(), "{key}");
        }
    }

    #[test]
    fn a_list_of_parts_without_a_part_is_refused() {
        let part = |name: &str| json!({ "name": name, "version": "1" });
        let mut parts = ["rustls", "libsqlite3-sys", "tzdata", "ca-certificates"].map(part);
        let check = |parts: &[Value]| {
            sbom(&json!({ "bomFormat": "CycloneDX", "components": parts }).to_string())
        };
        check(&parts).unwrap();
        parts[2]["version"] = json!("");
        assert!(check(&parts).unwrap_err().to_string().contains("tzdata"));
    }

    #[test]
    fn an_empty_time_zone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for zone in ["Asia/Shanghai", "America/Sao_Paulo", "UTC"] {
            let file = folder.path().join("usr/share/zoneinfo").join(zone);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "TZif2").unwrap();
        }
        zones(folder.path()).unwrap();
        fs::write(folder.path().join("usr/share/zoneinfo/UTC"), "").unwrap();
        assert!(zones(folder.path()).is_err());
    }
}
