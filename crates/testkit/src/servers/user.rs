//! User for servers that refuse to run as root.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// An ordinary user of this machine.
#[derive(Clone, Debug)]
pub(super) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The first of `names` that exists on this machine, if the test runs as root. `None` if it does not.
    pub(super) fn instead_of_root(names: &[&str]) -> Option<Self> {
        let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        root.then(|| {
            let users = fs::read_to_string("/etc/passwd").expect("read the list of users");
            let known = names.iter().find_map(|name| Self::parse(&users, name));
            known.unwrap_or_else(|| panic!("this machine knows no user of {names:?}"))
        })
    }

    fn parse(users: &str, name: &str) -> Option<Self> {
        let line = users
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { uid, gid })
    }

    /// Arguments that make setpriv switch to this user.
    pub(super) fn setpriv(&self) -> [String; 3] {
        [
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.gid),
            "--clear-groups".to_owned(),
        ]
    }

    /// Makes this user the owner of a folder.
    pub(super) fn own(&self, path: &Path) {
        chown(path, Some(self.uid), Some(self.gid)).expect("root can change the owner");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_the_whole_name() {
        let users =
            "root:x:0:0:root:/r:/bin/sh\npostgresql:x:1:2::/:\npostgres:x:105:112:,,,:/v:/bin/sh\n";
        let user = User::parse(users, "postgres").unwrap();
        assert_eq!((user.uid, user.gid), (105, 112));
        assert!(User::parse(users, "nobody").is_none());
    }
}
