//! Real servers for tests: started on free loopback ports in folders of their own, and ended when their
//! value is dropped.
//!
//! Everything here is synchronous and may be shared between threads; in an asynchronous test call it from
//! `spawn_blocking`, or directly where nothing else has to go on meanwhile. A server that is missing on the machine
//! or does not come up is a panic that says why.

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

/// What the names of servers' folders begin with.
const FOLDER: &str = "qiang-test-";
/// No run of tests takes that long: a folder of this age is nobody's any more.
const FOLDER_AGE_MAX: Duration = Duration::from_secs(3 * 3_600);

/// A folder of a server's own, removed with it. Servers that cases share live in statics, which nobody drops, and a
/// killed test removes nothing either: what earlier runs have left is removed by the first server of a later one.
fn folder() -> tempfile::TempDir {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep(&std::env::temp_dir(), FOLDER_AGE_MAX));
    let folder = tempfile::Builder::new().prefix(FOLDER).tempdir();
    folder.expect("a temporary folder")
}

/// Removes servers' folders in which nothing was made for so long. Others may do the same, and some are not ours.
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
        let now = now.expect("a new folder's time");
        let hours_ago = |hours: u64| now - Duration::from_secs(hours * 3_600);
        let make = |name: &str, at: SystemTime| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("a folder in it");
            fs::write(path.join("data"), "data").expect("a file in that");
            let opened = fs::File::open(&path).expect("it is opened");
            opened.set_modified(at).expect("it is made old");
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
