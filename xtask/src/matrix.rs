//! `cargo xtask matrix`: runs the tests that need servers against the servers of another Debian release.
//!
//! The release is installed into a folder of the user's cache. The test programs of this machine run inside it, in a
//! mount namespace of their own, so they find its servers where Debian installs them. Only root can do this.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::faults::target;
use crate::test_programs::{Program, build};
use crate::{command, needs, valkey};

/// Packages with the servers that the tests start.
const SERVERS: &str = "util-linux,redis-server,redis-tools,valkey-server,postgresql,pgbouncer,mariadb-server-core,\
                       mariadb-client-core,mariadb-client,rabbitmq-server";
/// Packages of MySQL, which exclude those of MariaDB.
const MYSQL: &str = "mysql-server-core";
/// File in an installed release that lists its packages.
const INSTALLED: &str = "etc/qiang-matrix";
/// Time for MySQL to accept connections.
const START_MAX: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(200);
/// Variable of the ledger's conformance suite.
const MYSQL_URL: &str = "QIANG_TEST_MYSQL_URL";

/// Commands that print the versions of the servers.
const VERSIONS: [(&str, &str); 5] = [
    ("Redis", "redis-server --version"),
    ("Valkey", "valkey-server --version"),
    (
        "PostgreSQL",
        "exec $(ls -d /usr/lib/postgresql/*/bin/postgres) --version",
    ),
    ("MariaDB", "mariadbd --version"),
    ("RabbitMQ", "ls /usr/lib/rabbitmq/lib"),
];

/// Enters the release: mounts what the tests share with this machine, and runs a program there.
///
/// Arguments: the release's folder, the working directory, the program and its arguments.
const ENTER: &str = r#"set -e
root=$1; shift
for folder in /proc /dev /sys /tmp $SHARED; do
  mkdir -p "$root$folder"
  mount --rbind "$folder" "$root$folder"
done
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$@""#;

/// Tests of one package, on the servers of the release.
struct Suite {
    name: &'static str,
    package: &'static str,
    /// Parts of the names of the tests; all tests if there are none.
    tests: &'static [&'static str],
    /// Whether it runs on MySQL, outside the release.
    is_on_mysql: bool,
}

const SUITES: [Suite; 4] = [
    Suite {
        name: "engine on Redis and Valkey",
        package: "redis",
        tests: &[],
        is_on_mysql: false,
    },
    Suite {
        name: "ledger on PostgreSQL and MariaDB",
        package: "ledger",
        tests: &[],
        is_on_mysql: false,
    },
    Suite {
        name: "ledger on MySQL",
        package: "ledger",
        tests: &["conformance::mariadb"],
        is_on_mysql: true,
    },
    Suite {
        name: "transports and crash matrix",
        package: "qiang",
        tests: &["crash_matrix::", "node::transports::", "over_transports::"],
        is_on_mysql: false,
    },
];

/// Runs all suites, and prints a table of versions and results.
///
/// # Errors
/// If the release cannot be installed, or a test fails.
pub(crate) fn run(root: &Path, release: &str, only: Option<&str>) -> Result<()> {
    let wanted: Vec<&Suite> = SUITES
        .iter()
        .filter(|suite| only.is_none_or(|part| suite.name.contains(part)))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        bail!(
            "no suite has this in its name; they are: {}",
            names.join(", ")
        );
    }
    needs::install_for_matrix()?;
    let cache = valkey::cache()?.join("matrix").join(release);
    let servers = Release::install(cache.join("servers"), release, SERVERS, root)?;
    let mysql = Release::install(cache.join("mysql"), release, MYSQL, root)?;
    let programs = build("cargo test --workspace --all-targets --all-features", root)?;
    let mut rows = servers.versions()?;
    rows.push(format!("MySQL: {}", mysql.read("mysqld --version")?));
    let mut failed = Vec::new();
    for suite in wanted {
        let started = Instant::now();
        println!("==> {}", suite.name);
        let program = programs
            .iter()
            .find(|program| program.is_integration_of(suite.package));
        let program = program.with_context(|| format!("{} has no tests", suite.package))?;
        let name = suite.name.replace(' ', "-");
        let log = servers.target.join(format!("matrix-{name}.log"));
        let (passed, result) = suite.run(program, &servers, &mysql, &log)?;
        if !passed {
            failed.push(format!("{}: see {}", suite.name, log.display()));
        }
        let seconds = started.elapsed().as_secs();
        rows.push(format!("{}: {result} ({seconds} s)", suite.name));
        println!("<== {}", rows[rows.len() - 1]);
    }
    println!("\nDebian {release}\n{}", rows.join("\n"));
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("tests failed:\n  {}", failed.join("\n  ")),
    }
}

impl Suite {
    /// Runs the tests with their output in a file. Returns whether they passed, and the line with their numbers.
    fn run(
        &self,
        program: &Program,
        servers: &Release,
        mysql: &Release,
        log: &Path,
    ) -> Result<(bool, String)> {
        let mut tests = match self.is_on_mysql {
            true => {
                let mut command = Command::new(&program.executable);
                command.current_dir(&program.folder);
                command
            }
            false => servers.enter(&program.folder, &program.executable),
        };
        let server = match self.is_on_mysql {
            true => Some(MySql::start(mysql)?),
            false => None,
        };
        if let Some(server) = &server {
            tests.env(MYSQL_URL, server.url());
        }
        command::remove_own_variables(&mut tests);
        let output = fs::File::create(log)?;
        let status = tests
            .args(self.tests)
            .env("RUST_TEST_THREADS", "4")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot run the tests")?;
        let text = fs::read_to_string(log)?;
        let result = text.lines().rfind(|line| line.starts_with("test result"));
        let result = result.context("the tests did not end: see their output")?;
        Ok((status.success(), result.to_owned()))
    }
}

/// Debian release in a folder.
struct Release {
    folder: PathBuf,
    /// Folders of this machine that are also in the release.
    shared: String,
    target: PathBuf,
}

impl Release {
    /// Installs a release with packages, unless the folder has it.
    fn install(folder: PathBuf, release: &str, packages: &str, root: &Path) -> Result<Self> {
        let target = target(root)?;
        let installed = Self {
            shared: format!("{} {}", root.display(), target.display()),
            target,
            folder,
        };
        let list = installed.folder.join(INSTALLED);
        if fs::read_to_string(&list).is_ok_and(|known| known == packages) {
            return Ok(installed);
        }
        println!("installing Debian {release}: {packages}");
        let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let here = os_release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let here = here.context("/etc/os-release has no Debian release name")?;
        let mirrors = valkey::mirrors(&valkey::sources(Path::new("/etc/apt")), here);
        // Without options: the release's own keys are checked.
        let mirror = mirrors.first().and_then(|line| line.split(' ').next_back());
        let mirror = mirror.with_context(|| format!("apt's sources have no mirror of {here}"))?;
        drop(fs::remove_dir_all(&installed.folder));
        fs::create_dir_all(&installed.folder)?;
        // A release that is not maintained has a date in the past.
        let status = Command::new("mmdebstrap")
            .args(["--mode=root", "--variant=apt", "--quiet"])
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg("--aptopt=APT::Install-Recommends \"false\"")
            .arg(format!("--include={packages}"))
            .args([release, &installed.folder.display().to_string(), mirror])
            .stdin(Stdio::null())
            .status()
            .context("cannot run mmdebstrap")?;
        if !status.success() {
            bail!("mmdebstrap cannot install Debian {release}: {status}");
        }
        fs::write(list, packages)?;
        Ok(installed)
    }

    /// Command that runs a program in the release.
    fn enter(&self, directory: &Path, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                ENTER,
                "sh",
            ])
            .args([&self.folder, directory, program])
            .env("SHARED", &self.shared)
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            );
        command
    }

    /// Output of a command of the release's shell, on one line.
    fn read(&self, line: &str) -> Result<String> {
        let output = self
            .enter(Path::new("/"), Path::new("sh"))
            .args(["-c", line])
            .output()
            .with_context(|| format!("cannot run `{line}` in the release"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` failed in the release: {}", said.trim());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn versions(&self) -> Result<Vec<String>> {
        let version = |(name, line): (&str, &str)| Ok(format!("{name}: {}", self.read(line)?));
        VERSIONS.into_iter().map(version).collect()
    }
}

/// MySQL server of a release, with its data in a temporary folder. It ends with this value.
struct MySql {
    server: Child,
    data: PathBuf,
    port: u16,
}

impl MySql {
    fn start(release: &Release) -> Result<Self> {
        let data = std::env::temp_dir().join(format!("qiang-matrix-{}", std::process::id()));
        fs::create_dir_all(&data)?;
        let settings = [
            "--no-defaults".to_owned(),
            "--user=root".to_owned(),
            format!("--datadir={}", data.join("data").display()),
        ];
        let log = fs::File::create(data.join("log"))?;
        let mysqld = || -> Result<Command> {
            let mut command = release.enter(Path::new("/"), Path::new("mysqld"));
            command
                .args(&settings)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log.try_clone()?);
            Ok(command)
        };
        if !mysqld()?.arg("--initialize-insecure").status()?.success() {
            bail!("mysqld cannot create its data: see {}", data.display());
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let server = mysqld()?
            .args(["--bind-address=127.0.0.1", "--mysqlx=OFF"])
            .args(["--secure-file-priv=NULL", "--max-connections=400"])
            .arg("--innodb-flush-log-at-trx-commit=2")
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", data.join("socket").display()))
            .arg(format!("--pid-file={}", data.join("pid").display()))
            .spawn()
            .context("cannot start mysqld")?;
        let started = Self { server, data, port };
        started.wait()?;
        Ok(started)
    }

    fn wait(&self) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > START_MAX {
                bail!(
                    "mysqld does not accept connections: see {}",
                    self.data.display()
                );
            }
            sleep(RETRY);
        }
        Ok(())
    }

    fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.port)
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
        drop(fs::remove_dir_all(&self.data));
    }
}
