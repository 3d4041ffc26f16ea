//! What the tests need from the machine beside Rust, and how it is installed on Debian.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::steps::{Call, Done};

/// Something outside Rust that a build or a test uses.
#[derive(Debug)]
pub(crate) struct Need {
    probe: Probe,
    /// The Debian package that brings it.
    package: &'static str,
    why: &'static str,
    needed_by: &'static str,
}

/// How to see that a need is met.
#[derive(Debug)]
enum Probe {
    /// A program to be found on the search path.
    Command(&'static str),
    /// A file.
    Path(&'static str),
    /// A program of PostgreSQL: on the search path, or where Debian keeps it, by version.
    Postgres(&'static str),
}

/// The table. A test that starts to use another program adds a row.
///
/// Some packages start a service when they are installed. Nothing here uses it, and the tests' own servers listen
/// where it does not.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        probe: Probe::Command("cc"),
        package: "gcc",
        why: "links, and compiles the C in SQLite, mimalloc and aws-lc",
        needed_by: "every build",
    },
    Need {
        probe: Probe::Path("/usr/include/stdio.h"),
        package: "libc6-dev",
        why: "headers for that C",
        needed_by: "every build",
    },
    Need {
        probe: Probe::Command("unshare"),
        package: "util-linux",
        why: "a mount namespace for a disk of a few kilobytes",
        needed_by: "full-disk tests",
    },
    Need {
        probe: Probe::Command("mount"),
        package: "mount",
        why: "mounts that disk",
        needed_by: "full-disk tests",
    },
    Need {
        probe: Probe::Command("setpriv"),
        package: "util-linux",
        why: "has servers die with the test that started them, and run as another user than root",
        needed_by: "every test with a server",
    },
    Need {
        probe: Probe::Command("redis-server"),
        package: "redis-server",
        why: "alone, as Sentinel and as cluster",
        needed_by: "tests of the Redis engine",
    },
    Need {
        probe: Probe::Command("luacheck"),
        package: "lua-check",
        why: "lints the scripts that run inside Redis",
        needed_by: "tidy",
    },
    Need {
        probe: Probe::Postgres("initdb"),
        package: "postgresql",
        why: "makes a folder for a server",
        needed_by: "tests of the ledger",
    },
    Need {
        probe: Probe::Postgres("postgres"),
        package: "postgresql",
        why: "is that server",
        needed_by: "tests of the ledger",
    },
    // Without `-core` it would come as a service that is started at once.
    Need {
        probe: Probe::Command("mariadb-install-db"),
        package: "mariadb-server-core",
        why: "makes a folder for a server",
        needed_by: "tests of the ledger",
    },
    Need {
        probe: Probe::Command("my_print_defaults"),
        package: "mariadb-client-core",
        why: "is called by mariadb-install-db",
        needed_by: "tests of the ledger",
    },
    Need {
        probe: Probe::Command("mariadbd"),
        package: "mariadb-server-core",
        why: "is that server",
        needed_by: "tests of the ledger",
    },
    Need {
        probe: Probe::Command("rabbitmq-server"),
        package: "rabbitmq-server",
        why: "carries a log to the ledger",
        needed_by: "tests of the broker",
    },
];

/// Installs the packages of all unmet needs, without a question to anybody; where that is not
/// allowed, says what to install.
pub(crate) fn install(needs: &[Need]) -> Result<Done> {
    install_on(&Machine::here(), needs)
}

/// What installing depends on.
struct Machine {
    search: Vec<PathBuf>,
    /// Where the versions of PostgreSQL are.
    postgres: PathBuf,
    root: bool,
}

impl Machine {
    fn here() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut search: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // Servers live here, and a user's search path often leaves it out.
        search.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        Self {
            search,
            postgres: PathBuf::from("/usr/lib/postgresql"),
            root,
        }
    }

    fn find(&self, command: impl AsRef<OsStr>) -> Option<PathBuf> {
        let command = Path::new(command.as_ref());
        self.search
            .iter()
            .map(|directory| directory.join(command))
            .find(|file| is_executable(file))
    }

    fn meets(&self, need: &Need) -> bool {
        match need.probe {
            Probe::Command(command) => self.find(command).is_some(),
            Probe::Path(path) => Path::new(path).exists(),
            Probe::Postgres(command) => {
                self.find(command).is_some() || by_version(&self.postgres, command)
            }
        }
    }

    fn unmet<'n>(&self, needs: &'n [Need]) -> Vec<&'n Need> {
        needs.iter().filter(|need| !self.meets(need)).collect()
    }
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether a version below `directory` has the command.
fn by_version(directory: &Path, command: &str) -> bool {
    let versions = fs::read_dir(directory).into_iter().flatten().flatten();
    versions
        .map(|version| version.path().join("bin").join(command))
        .any(|file| is_executable(&file))
}

fn install_on(machine: &Machine, needs: &[Need]) -> Result<Done> {
    let unmet = machine.unmet(needs);
    if unmet.is_empty() {
        return Ok(Done::Passed);
    }
    let Some(apt) = machine.find("apt-get") else {
        bail!("there is no apt-get here; {}", wanted(&unmet));
    };
    if !machine.root {
        bail!("only root may install; {}", wanted(&unmet));
    }
    println!("installing: {}", packages(&unmet).join(" "));
    for call in apt_calls(&apt, &packages(&unmet)) {
        call.run(Path::new("/"))?;
    }
    let still = machine.unmet(needs);
    if !still.is_empty() {
        bail!(
            "apt-get went through, yet something is missing; {}",
            wanted(&still)
        );
    }
    Ok(Done::Passed)
}

fn apt_calls(apt: &Path, packages: &[&str]) -> [Call; 2] {
    // Another apt (a daily timer) may hold the lock for a while.
    let apt = format!("{} -o DPkg::Lock::Timeout=120", apt.display());
    let install = format!(
        "{apt} install --yes --no-install-recommends {}",
        packages.join(" ")
    );
    [format!("{apt} update --quiet"), install].map(|line| {
        let environment = vec![("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned())];
        Call {
            environment,
            ..Call::new(&line)
        }
    })
}

/// The packages, each once, in the order of the table.
fn packages(unmet: &[&Need]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for need in unmet {
        if !packages.contains(&need.package) {
            packages.push(need.package);
        }
    }
    packages
}

fn wanted(unmet: &[&Need]) -> String {
    let mut text = format!(
        "install these packages (their Debian names):\n    apt-get install {}",
        packages(unmet).join(" ")
    );
    for Need {
        probe,
        package,
        why,
        needed_by,
    } in unmet
    {
        let what = match probe {
            Probe::Command(command) | Probe::Postgres(command) => command,
            Probe::Path(path) => path,
        };
        text.push_str(&format!("\n  {what} ({package}): {why}; for {needed_by}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::script;

    /// A machine that has nothing but what is in `bin`.
    fn machine(bin: &Path, root: bool) -> Machine {
        Machine {
            search: vec![bin.to_owned()],
            postgres: bin.join("postgresql"),
            root,
        }
    }

    const TWO: &[Need] = &[
        Need {
            probe: Probe::Command("qiang-test-tool"),
            package: "tool-package",
            why: "turns",
            needed_by: "the turning test",
        },
        Need {
            probe: Probe::Path("/no/such/file"),
            package: "file-package",
            why: "is read",
            needed_by: "the reading test",
        },
    ];

    fn refusal(machine: &Machine) -> String {
        install_on(machine, TWO).unwrap_err().to_string()
    }

    #[test]
    fn without_apt_it_says_exactly_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        let machine = machine(empty.path(), true);
        let message = refusal(&machine);
        assert!(message.contains("no apt-get"), "{message}");
        assert!(
            message.contains("apt-get install tool-package file-package"),
            "{message}"
        );
        assert!(message.contains("qiang-test-tool (tool-package): turns; for the turning test"));
    }

    #[test]
    fn anybody_but_root_is_told_and_apt_is_not_run() {
        let bin = tempfile::tempdir().unwrap();
        script(&bin.path().join("apt-get"), "touch $(dirname $0)/ran");
        let message = refusal(&machine(bin.path(), false));
        assert!(message.contains("only root"), "{message}");
        assert!(!bin.path().join("ran").exists());
    }

    #[test]
    fn root_installs_only_what_is_missing_without_a_question_and_looks_again() {
        let bin = tempfile::tempdir().unwrap();
        // An apt that installs the tool: the second call's last argument is the package.
        script(
            &bin.path().join("apt-get"),
            "d=$(dirname $0); echo \"$DEBIAN_FRONTEND $@\" >> $d/log\n\
             case \"$*\" in *install*) cp $0 $d/qiang-test-tool;; esac",
        );
        let machine = machine(bin.path(), true);
        assert_eq!(install_on(&machine, &TWO[..1]).unwrap(), Done::Passed);
        let log = fs::read_to_string(bin.path().join("log")).unwrap();
        let calls: Vec<&str> = log.lines().collect();
        assert_eq!(calls.len(), 2, "{log}");
        assert!(
            calls[0].starts_with("noninteractive") && calls[0].contains("update"),
            "{log}"
        );
        assert!(
            calls[1].ends_with("install --yes --no-install-recommends tool-package"),
            "{log}"
        );

        // Met now: apt is not asked again.
        assert_eq!(install_on(&machine, &TWO[..1]).unwrap(), Done::Passed);
        let again = fs::read_to_string(bin.path().join("log")).unwrap();
        assert_eq!(again, log);

        // The file never comes, and that is said.
        let message = refusal(&machine);
        assert!(message.contains("yet something is missing"), "{message}");
        assert!(
            message.contains("file-package") && !message.contains("tool-package"),
            "{message}"
        );
    }

    #[test]
    fn a_failing_apt_is_a_failure() {
        let bin = tempfile::tempdir().unwrap();
        script(&bin.path().join("apt-get"), "exit 100");
        let message = refusal(&machine(bin.path(), true));
        assert!(message.contains("exit status: 100"), "{message}");
    }

    #[test]
    fn a_file_that_may_not_be_executed_is_no_command() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("qiang-test-tool"), "").unwrap();
        let machine = machine(bin.path(), true);
        assert!(machine.find("qiang-test-tool").is_none());
    }

    #[test]
    fn a_postgres_is_found_on_the_path_or_by_version() {
        const POSTGRES: Need = Need {
            probe: Probe::Postgres("postgres"),
            package: "postgresql",
            why: "is a server",
            needed_by: "a test",
        };
        let bin = tempfile::tempdir().unwrap();
        let machine = machine(bin.path(), false);
        assert!(!machine.meets(&POSTGRES));
        script(&bin.path().join("postgres"), "");
        assert!(machine.meets(&POSTGRES));
        fs::remove_file(bin.path().join("postgres")).unwrap();
        let version = bin.path().join("postgresql/15/bin");
        fs::create_dir_all(&version).unwrap();
        assert!(!machine.meets(&POSTGRES));
        script(&version.join("postgres"), "");
        assert!(machine.meets(&POSTGRES));
    }

    #[test]
    fn a_package_wanted_twice_is_installed_once() {
        assert_eq!(
            packages(&[&TWO[0], &TWO[1], &TWO[0]]),
            ["tool-package", "file-package"]
        );
    }
}
