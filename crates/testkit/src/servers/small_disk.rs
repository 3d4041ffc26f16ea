//! A disk of a few megabytes for a server's data, which a test fills.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::program;

/// Shell command that copies the prepared folder to a file system in memory and mounts that over it, for this process
/// only.
const MOUNT: &str = "mkdir -p small && mount -t tmpfs -o size=$0 tmpfs small && cp -a data/. small/ \
                     && touch small/ballast && mount --bind small data && exec \"$@\"";
/// Bytes per write.
const CHUNK_BYTES: usize = 64 << 10;

/// The command, with `data` in its folder on a disk of this many bytes. The data is lost with the process.
pub(super) fn on_small_disk(command: &Command, bytes: u64) -> Command {
    let mut wrapped = Command::new(program::find("unshare", "util-linux"));
    wrapped.args(["--user", "--map-current-user", "--keep-caps", "--mount"]);
    wrapped.args(["--", "sh", "-c", MOUNT, &bytes.to_string()]);
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}

/// A file that fills a server's small disk.
#[derive(Debug)]
pub struct Ballast(File);

impl Ballast {
    /// Fills the disk of a running server to its last byte.
    ///
    /// # Panics
    /// If the server has no small disk, or if its files cannot be read.
    #[must_use]
    pub fn fill(pid: u32, folder: &Path) -> Self {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let folder = folder.strip_prefix("/").expect("an absolute folder");
        let path = root.join(folder).join("small").join("ballast");
        // The file exists already, because a process outside cannot create a file there.
        let file = File::options().write(true).open(path);
        let mut file = file.expect("open the ballast");
        let mut chunk = vec![0; CHUNK_BYTES];
        while !chunk.is_empty() {
            if file.write_all(&chunk).is_err() {
                chunk.truncate(chunk.len() / 2);
            }
        }
        Self(file)
    }

    /// Frees the space.
    ///
    /// # Panics
    /// If that fails.
    pub fn remove(self) {
        self.0.set_len(0).expect("empty the ballast");
    }
}
