//! Debian packages that the tests need besides Rust, and their installation.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::command;
use crate::steps::Done;

/// Debian package that a build or a test uses.
#[derive(Debug)]
struct Need {
    package: &'static str,
    /// Files that prove that it is installed: names of programs, absolute paths of other files, and Python modules as
    /// `program:module`.
    files: Vec<&'static str>,
    why: &'static str,
}

/// Table of packages: package, its files, reason. A test that uses another program needs a new row.
///
/// Some packages start a service when they are installed. No test uses it; the tests' servers listen on other ports.
/// `mariadb-server` without `-core` would install a running service.
const NEEDS: &str = "
    gcc | cc | every build: links, and compiles the C code of SQLite and aws-lc
    libc6-dev | /usr/include/stdio.h | every build: headers for that C code
    util-linux | setpriv unshare | tests with servers: stop servers with their test and run them as another user \
        than root; tests of full disks: a mount namespace
    mount | mount | tests of full disks: mounts a disk of a few kilobytes
    redis-server | redis-server | tests of the Redis engine: standalone, as Sentinel and as cluster
    lua-check | luacheck | tidy: lints the scripts that run inside Redis
    postgresql | initdb postgres | tests of the ledger
    pgbouncer | pgbouncer | tests of the ledger: a pooler in front of it
    mariadb-server-core | mariadb-install-db mariadbd | tests of the ledger
    mariadb-client-core | my_print_defaults | tests of the ledger: mariadb-install-db calls it
    mariadb-client | mariadb-dump | tests that back a ledger up and restore it
    rabbitmq-server | rabbitmq-server | tests of the broker
    nginx-light | nginx | tests of deploy/nginx.conf and of the compose file
    prometheus | promtool | the same, and tests of the alarms
    systemd | systemd-analyze systemd-sysusers | tests of deploy/systemd and of the Debian package
    curl | curl | tests of the commands in docs/guide and docs/integrate
    jq | jq | the same
    openssl | openssl | the same
    python3-venv | python3:ensurepip | the tools that check the API and the Helm chart
    nodejs | node | the client of the API in TypeScript; tests of docs/integrate/tokens.md
    npm | npm | the same
    default-jdk-headless | javac java | the client in Java, and the generated one
    libjackson2-databind-java | /usr/share/java/jackson-databind.jar | the same: JSON
    libgeronimo-annotation-1.3-spec-java | /usr/share/java/geronimo-annotation-1.3-spec.jar | the generated one: \
        annotations
    libhttpmime-java | /usr/share/java/httpmime.jar | the same: forms of several parts
    chromium | chromium | tests of the pages
    buildah | buildah | the image
    binutils | strip objdump | the same
    ca-certificates | /etc/ssl/certs/ca-certificates.crt | the same: trusted certificates inside
    tzdata | /usr/share/zoneinfo/Asia/Shanghai | the same: time zones inside
    fonts-wqy-microhei | /usr/share/fonts/truetype/wqy/wqy-microhei.ttc | the same: Chinese in their pictures
";

/// Packages of `cargo xtask matrix`, in the same form.
const MATRIX_NEEDS: &str = "
    mmdebstrap | mmdebstrap | installs another Debian release into a folder
    util-linux | unshare | a mount namespace for each run
";

/// Packages of `cargo xtask container --arm64`, in the same form.
const ARM64_NEEDS: &str = "
    gcc-aarch64-linux-gnu | aarch64-linux-gnu-gcc | compiles C and links for 64-bit ARM
    libc6-dev-arm64-cross | /usr/aarch64-linux-gnu/include/stdio.h | headers and shared libraries for it
    qemu-user-static | qemu-aarch64-static | runs its programs
    buildah | buildah | the image
    ca-certificates | /etc/ssl/certs/ca-certificates.crt | the same
    tzdata | /usr/share/zoneinfo/Asia/Shanghai | the same
";

/// Installs the missing packages of `cargo xtask container --arm64`.
pub(crate) fn install_for_arm64() -> Result<()> {
    install_on(&Machine::here(), &rows(ARM64_NEEDS)).map(drop)
}

/// Installs the missing packages of `cargo xtask matrix`.
pub(crate) fn install_for_matrix() -> Result<()> {
    install_on(&Machine::here(), &rows(MATRIX_NEEDS)).map(drop)
}

/// Installs the missing packages without questions. If that is impossible, the error lists them.
pub(crate) fn install() -> Result<Done> {
    install_on(&Machine::here(), &rows(NEEDS))
}

fn rows(table: &'static str) -> Vec<Need> {
    let row = |line: &'static str| {
        let mut columns = line.trim().split(" | ");
        Some(Need {
            package: columns.next()?,
            files: columns.next()?.split(' ').collect(),
            why: columns.next()?,
        })
    };
    table.lines().filter_map(row).collect()
}

/// Properties of the machine that affect the installation.
struct Machine {
    search: Vec<PathBuf>,
    root: bool,
}

impl Machine {
    fn here() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut search: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // Servers are in these folders, but users' search paths often lack them.
        search.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        search.extend(versions(Path::new("/usr/lib/postgresql")));
        let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        Self { search, root }
    }

    /// Path of a program, or the file itself if its path is absolute.
    fn find(&self, file: &str) -> Option<PathBuf> {
        if file.starts_with('/') {
            return Some(PathBuf::from(file)).filter(|file| file.exists());
        }
        if let Some((program, module)) = file.split_once(':') {
            let python = self.find(program)?;
            let line = format!("{} -m {module} --help", python.display());
            return command::succeeds(&line, Path::new("/")).then_some(python);
        }
        let mut found = self.search.iter().map(|directory| directory.join(file));
        found.find(|file| {
            fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
    }

    fn missing<'n>(&self, needs: &'n [Need]) -> Vec<&'n Need> {
        let is_missing = |need: &&Need| need.files.iter().any(|file| self.find(file).is_none());
        needs.iter().filter(is_missing).collect()
    }
}

/// Folders of PostgreSQL's programs on Debian, one per version.
fn versions(directory: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(directory).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

fn install_on(machine: &Machine, needs: &[Need]) -> Result<Done> {
    let missing = machine.missing(needs);
    if missing.is_empty() {
        return Ok(Done::Passed);
    }
    let Some(apt) = machine.find("apt-get") else {
        bail!("no apt-get found; {}", request(&missing));
    };
    if !machine.root {
        bail!("only root can install packages; {}", request(&missing));
    }
    println!("installing: {}", packages(&missing));
    // Another apt (a daily timer) may hold the lock for a while.
    let apt = format!(
        "env DEBIAN_FRONTEND=noninteractive {} -o DPkg::Lock::Timeout=120",
        apt.display()
    );
    let install = format!(
        "install --yes --no-install-recommends {}",
        packages(&missing)
    );
    for task in ["update --quiet", &install] {
        command::run(&format!("{apt} {task}"), Path::new("/"))?;
    }
    let still = machine.missing(needs);
    if !still.is_empty() {
        bail!(
            "apt-get succeeded, but files are still missing; {}",
            request(&still)
        );
    }
    Ok(Done::Passed)
}

fn packages(needs: &[&Need]) -> String {
    let packages: Vec<&str> = needs.iter().map(|need| need.package).collect();
    packages.join(" ")
}

fn request(missing: &[&Need]) -> String {
    let mut text = format!(
        "install these packages (their Debian names):\n    apt-get install {}",
        packages(missing)
    );
    for need in missing {
        let files = need.files.join(", ");
        text.push_str(&format!("\n  {} ({files}), for {}", need.package, need.why));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::script;

    /// Machine whose programs are all in `bin`.
    fn machine(bin: &Path, root: bool) -> Machine {
        Machine {
            search: vec![bin.to_owned()],
            root,
        }
    }

    const TWO: &str = "tool-package | qiang-test-tool | the turning test
        file-package | /no/such/file | the reading test";

    fn refusal(machine: &Machine) -> String {
        install_on(machine, &rows(TWO)).unwrap_err().to_string()
    }

    #[test]
    fn without_apt_it_says_exactly_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        let message = refusal(&machine(empty.path(), true));
        assert!(message.contains("no apt-get"), "{message}");
        assert!(
            message.contains("apt-get install tool-package file-package"),
            "{message}"
        );
        assert!(message.contains("tool-package (qiang-test-tool), for the turning test"));
    }

    #[test]
    fn a_user_other_than_root_gets_an_error_and_apt_does_not_run() {
        let bin = tempfile::tempdir().unwrap();
        script(&bin.path().join("apt-get"), "touch $(dirname $0)/ran");
        let message = refusal(&machine(bin.path(), false));
        assert!(message.contains("only root"), "{message}");
        assert!(!bin.path().join("ran").exists());
    }

    #[test]
    fn root_installs_only_what_is_missing_without_a_question_and_checks_again() {
        let bin = tempfile::tempdir().unwrap();
        // An apt that installs the tool.
        script(
            &bin.path().join("apt-get"),
            "d=$(dirname $0); echo \"$DEBIAN_FRONTEND $@\" >> $d/log\n\
             case \"$*\" in *install*) cp $0 $d/qiang-test-tool;; esac",
        );
        let machine = machine(bin.path(), true);
        assert_eq!(install_on(&machine, &rows(TWO)[..1]).unwrap(), Done::Passed);
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

        // The tool is installed, so apt does not run again.
        assert_eq!(install_on(&machine, &rows(TWO)[..1]).unwrap(), Done::Passed);
        let again = fs::read_to_string(bin.path().join("log")).unwrap();
        assert_eq!(again, log);

        // The file is never installed, and the error reports it.
        let message = refusal(&machine);
        assert!(message.contains("still missing"), "{message}");
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
    fn a_file_without_permission_to_execute_is_not_a_program() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("qiang-test-tool"), "").unwrap();
        assert!(machine(bin.path(), true).find("qiang-test-tool").is_none());
    }

    #[test]
    fn a_module_of_python_is_looked_for_with_that_python() {
        let bin = tempfile::tempdir().unwrap();
        let here = machine(bin.path(), true);
        assert!(here.find("python3:ensurepip").is_none());
        script(
            &bin.path().join("python3"),
            "test \"$1 $2\" = '-m ensurepip'",
        );
        assert!(here.find("python3:ensurepip").is_some());
        assert!(here.find("python3:other").is_none());
    }

    #[test]
    fn postgres_is_found_in_the_directory_of_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("15/bin");
        fs::create_dir_all(&bin).unwrap();
        script(&bin.join("postgres"), "");
        let search = versions(directory.path());
        let machine = Machine {
            search,
            root: false,
        };
        assert_eq!(machine.find("postgres"), Some(bin.join("postgres")));
    }
}
