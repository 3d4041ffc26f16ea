//! Findings about the machine: open files, waiting connections, disk space, secrets that other users may read.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use qiang_api::Disk;
use rustix::process::{Resource, getrlimit};

use super::Findings;
use crate::{
    config::{EngineKind, NodeConfig},
    machine::{FILES_KEPT_BACK, disk_of},
};

const SUBJECT: &str = "machine";
/// Connections that listeners ask the kernel to keep until they are accepted.
const BACKLOG: u64 = 1_024;
const BACKLOG_FILE: &str = "/proc/sys/net/core/somaxconn";
/// A disk is nearly full if less than a tenth and less than this is available.
const DISK_BYTES_MIN: u64 = 1 << 30;

pub(super) fn examine(config: &NodeConfig, findings: &mut Findings) {
    let files_max = getrlimit(Resource::Nofile).maximum;
    files(config.server.connections_max, files_max, findings);
    // Other systems have no such file.
    backlog(
        &fs::read_to_string(BACKLOG_FILE).unwrap_or_default(),
        findings,
    );
    let archives = &config.engine.archive_dir;
    let archive = archives.join("archive");
    let has_archives = !archives.as_os_str().is_empty();
    let has_file = config.engine.kind == EngineKind::Embedded || config.ledger.url().is_none();
    for (file, is_used) in [(&config.engine.data, has_file), (&archive, has_archives)] {
        if let Some(found) = disk_of(file).filter(|_| is_used) {
            disk(file, found, findings);
        }
    }
    for file in [
        &config.auth.hs256_secret_file,
        &config.auth.ticket_secret_file,
    ] {
        secret(file, findings);
    }
}

fn files(connections_max: u32, files_max: Option<u64>, findings: &mut Findings) {
    let needed = u64::from(connections_max) + FILES_KEPT_BACK;
    if let Some(files_max) = files_max.filter(|max| *max < needed) {
        findings.wrong(
            SUBJECT,
            format!(
                "a process may open {files_max} files: raise the limit to {needed} (LimitNOFILE of the unit, \
                 ulimit -n), or lower server.connections_max = {connections_max}"
            ),
        );
    }
}

fn backlog(text: &str, findings: &mut Findings) {
    let kept = text.trim().parse::<u64>();
    if let Ok(kept) = kept
        && kept < BACKLOG
    {
        findings.wrong(
            SUBJECT,
            format!("the kernel keeps {kept} connections until they are accepted: sysctl -w net.core.somaxconn=4096"),
        );
    }
}

fn disk(file: &Path, disk: Disk, findings: &mut Findings) {
    if disk.available < DISK_BYTES_MIN && disk.available < disk.size / 10 {
        findings.wrong(
            SUBJECT,
            format!(
                "the disk of {} has {} MiB left of {}: make room, or move the file",
                file.display(),
                disk.available >> 20,
                disk.size >> 20
            ),
        );
    }
}

fn secret(file: &Path, findings: &mut Findings) {
    if file.as_os_str().is_empty() {
        return;
    }
    // A missing file is a finding of the configuration.
    let mode = fs::metadata(file).map_or(0, |it| it.permissions().mode());
    if mode & 0o007 != 0 {
        findings.wrong(
            SUBJECT,
            format!(
                "every user may use the secret in {}: chmod o= {}",
                file.display(),
                file.display()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(examine: impl FnOnce(&mut Findings)) -> String {
        let mut findings = Findings::default();
        examine(&mut findings);
        let texts = findings.0.into_iter().map(|finding| finding.text);
        texts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_low_limit_of_files_names_the_number_that_is_needed() {
        assert_eq!(found(|it| files(10_000, Some(10_512), it)), "");
        assert_eq!(found(|it| files(10_000, None, it)), "");
        let text = found(|it| files(10_000, Some(1_024), it));
        assert!(
            text.contains("may open 1024 files") && text.contains("10512"),
            "{text}"
        );
    }

    #[test]
    fn a_short_queue_of_connections_names_the_setting() {
        assert_eq!(found(|it| backlog("4096\n", it)), "");
        assert_eq!(found(|it| backlog("", it)), "");
        let text = found(|it| backlog("128\n", it));
        assert!(
            text.contains("keeps 128") && text.contains("somaxconn=4096"),
            "{text}"
        );
    }

    #[test]
    fn a_disk_is_nearly_full_if_a_small_part_and_little_are_left() {
        let file = Path::new("/data/qiang.db");
        let check = |available, size| found(|it| disk(file, Disk { available, size }, it));
        assert_eq!(check(2 << 30, 100 << 30), "");
        assert_eq!(check(1 << 29, 4 << 30), "");
        let text = check(1 << 29, 100 << 30);
        assert!(text.contains("/data/qiang.db has 512 MiB left"), "{text}");
    }
}
