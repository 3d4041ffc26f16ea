//! Real servers for tests. They start on free loopback ports in their own folders and end when their value is dropped.
//!
//! All functions are synchronous and may be shared between threads. An asynchronous test calls them from
//! `spawn_blocking`, or directly if no other task must run at the same time. If a server is not installed or does not
//! start, the call panics with the reason.

mod database;
pub mod mariadb;
pub mod pgbouncer;
mod port;
pub mod postgres;
mod process;
mod program;
pub mod rabbitmq;
pub mod redis;
mod server_process;
mod small_disk;
mod tree;
mod user;
mod wait;

use std::{fs, path::Path, sync::Once, time::Duration};

pub use port::Port;
pub use process::Process;
pub use server_process::{Builder, Resources, ServerProcess};
pub use small_disk::Ballast;
pub use wait::wait_for;

/// Prefix of servers' folders.
const FOLDER: &str = "qiang-test-";
/// Maximum age of a folder in use. No test run takes this long, so older folders are left over.
const FOLDER_AGE_MAX: Duration = Duration::from_secs(3 * 3_600);

/// Creates a server's folder, which is removed with it. Statics hold shared servers and are never dropped, and a killed
/// test removes no folder. So the first server of a later run removes the folders that earlier runs left.
fn folder() -> tempfile::TempDir {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep(&std::env::temp_dir(), FOLDER_AGE_MAX));
    let folder = tempfile::Builder::new().prefix(FOLDER).tempdir();
    folder.expect("a temporary folder")
}

/// Removes servers' folders that have not changed for this time. Other processes may do the same, and some folders
/// belong to other users.
#[expect(
    clippy::disallowed_methods,
    reason = "the age of a file is measured by the machine's clock"
)]
fn sweep(place: &Path, age_max: Duration) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(FOLDER);
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_dir);
        let made = metadata.and_then(|metadata| metadata.modified().ok());
        let age = made.and_then(|made| made.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > age_max) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn old_folders_of_servers_are_removed_and_no_others() {
        let place = tempfile::tempdir().expect("a folder");
        let now = place.path().metadata().and_then(|its| its.modified());
        let now = now.expect("the time of a new folder");
        let hours_ago = |hours: u64| now - Duration::from_secs(hours * 3_600);
        let make = |name: &str, at: SystemTime| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("a folder in it");
            fs::write(path.join("data"), "data").expect("a file in that");
            let opened = fs::File::open(&path).expect("the folder opens");
            opened.set_modified(at).expect("the folder's time is set");
        };
        make("qiang-test-old", hours_ago(4));
        make("qiang-test-young", hours_ago(2));
        make("somebody's", hours_ago(4));
        sweep(place.path(), FOLDER_AGE_MAX);
        let left = fs::read_dir(place.path()).expect("it is read");
        let mut left: Vec<_> = left
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["qiang-test-young", "somebody's"]);
    }
}
