//! `cargo xtask api`: checks a running service against its OpenAPI document with external tools.
//!
//! The tools are a validator, two linters, schemathesis, and the client generators of module `generators`; the check
//! claims a share with two generated clients, and compiles the others. Their settings and pinned versions are in
//! `xtask/api`. They are installed below Cargo's target directory.

mod generators;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::faults::target;
use crate::steps::Done;
use crate::{command, needs};

const SOURCES: &str = "xtask/api";
const DOCUMENT: &str = "docs/openapi.json";
/// Seed of schemathesis, so that runs are reproducible.
const SEED: u32 = 1;
const MAX_EXAMPLES: u32 = 100;
/// Time limit of a tool, for example if a registry does not answer.
pub(crate) const MINUTES_MAX: &str = "timeout --kill-after=10 10m";

/// Builds the program and checks its API.
pub(crate) fn run(root: &Path) -> Result<()> {
    needs::install()?;
    install(root)?;
    command::run("cargo build -p qiang --all-features", root)?;
    run_built(root)
}

/// Installs the tools, unless the pinned versions are installed already.
pub(crate) fn install(root: &Path) -> Result<Done> {
    let tools = Tools::new(root)?;
    let requirements = tools.sources.join("requirements.txt");
    install_once(&tools.python, &[&requirements], |folder| {
        command::run(&format!("python3 -m venv {}", folder.display()), root)?;
        let pip = folder.join("bin/pip");
        let line = format!(
            "{MINUTES_MAX} {} install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r {}",
            pip.display(),
            requirements.display()
        );
        command::run(&line, root).with_context(|| {
            format!(
                "allow pip to install {SOURCES}/requirements.txt, from PyPI or the configured index"
            )
        })
    })?;
    let manifest = tools.sources.join("package.json");
    let lock = tools.sources.join("package-lock.json");
    install_once(&tools.node, &[&manifest, &lock], |folder| {
        npm_install(&tools.sources, folder)
    })?;
    Ok(Done::Passed)
}

/// Installs the packages of a `package-lock.json` into another folder.
pub(crate) fn npm_install(sources: &Path, folder: &Path) -> Result<()> {
    for name in ["package.json", "package-lock.json"] {
        fs::copy(sources.join(name), folder.join(name))?;
    }
    let line =
        format!("{MINUTES_MAX} npm ci --ignore-scripts --no-audit --no-fund --loglevel=error");
    command::run(&line, folder).with_context(|| {
        format!(
            "allow npm to install {}/package-lock.json, from the configured registry",
            sources.display()
        )
    })
}

/// Checks the program of the tests' build.
pub(crate) fn run_built(root: &Path) -> Result<()> {
    let tools = Tools::new(root)?;
    let bin = tools.python.join("bin");
    let bin = bin.display();
    command::run(
        &format!("{bin}/openapi-spec-validator --schema 3.1 --validation-errors all {DOCUMENT}"),
        root,
    )?;
    command::run(
        &format!("{bin}/python {SOURCES}/examples.py {DOCUMENT}"),
        root,
    )?;

    let run = tools.target.join("api");
    drop(fs::remove_dir_all(&run));
    fs::create_dir_all(&run)?;
    tools.lint(root)?;
    tools.compile_clients(root, &run)?;
    let mut service = Service::start(&tools.target.join("debug/qiang"), &run)?;
    let checked = tools
        .claim_in_python(root, &run, &service)
        .and_then(|()| tools.claim_in_typescript(root, &service))
        .and_then(|()| tools.schemathesis(&run, &service));
    let log = fs::read_to_string(run.join("service.log"))?;
    if checked.is_err() || log.contains("panicked") {
        println!("{log}");
    }
    checked?;
    if log.contains("panicked") || service.process.try_wait()?.is_some() {
        bail!("the service panicked or exited during these requests");
    }
    drop(service);
    fs::remove_dir_all(&run).context("cannot remove the files of the run")
}

/// Folders of the installed tools.
pub(crate) struct Tools {
    pub(crate) target: PathBuf,
    sources: PathBuf,
    /// Environment of Python.
    pub(crate) python: PathBuf,
    /// Folder with the packages of npm.
    pub(crate) node: PathBuf,
}

impl Tools {
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let target = target(root)?;
        Ok(Self {
            sources: root.join(SOURCES),
            python: target.join("api-tools/python"),
            node: target.join("api-tools/node"),
            target,
        })
    }

    /// Generates a client in Python, and claims a share with it.
    fn claim_in_python(&self, root: &Path, run: &Path, service: &Service) -> Result<()> {
        let bin = self.python.join("bin");
        let package = run.join("qiang_client");
        let line = format!(
            "{}/openapi-python-client generate --path {DOCUMENT} --meta none --fail-on-warning --config {} \
             --output-path {}",
            bin.display(),
            self.sources.join("python-client.json").display(),
            package.display()
        );
        command::run(&line, root)?;
        // The generator reads a stream of events as one object.
        let mypy = format!(
            "{MINUTES_MAX} {}/mypy --strict --cache-dir {} --exclude watch_campaign.py qiang_client",
            bin.display(),
            self.target.join("api-tools/mypy-cache").display()
        );
        command::run(&mypy, run)?;
        let script = self.sources.join("claim.py");
        let line = format!("{}/python {}", bin.display(), script.display());
        let packages = run.display().to_string();
        service.call(&line, run, &[("PYTHONPATH", &packages)])
    }

    /// Generates types in TypeScript, checks the types of a program that uses them, and claims a share with it.
    fn claim_in_typescript(&self, root: &Path, service: &Service) -> Result<()> {
        let node = &self.node;
        for name in ["claim.ts", "tsconfig.json"] {
            fs::copy(self.sources.join(name), node.join(name))?;
        }
        let document = root.join(DOCUMENT);
        let programs = node.join("node_modules/.bin");
        let programs = programs.display();
        let line = format!(
            "{programs}/openapi-typescript {} -o schema.d.ts",
            document.display()
        );
        command::run(&line, node)?;
        command::run(&format!("{programs}/tsc"), node)?;
        service.call("node claim.js", node, &[])
    }

    fn schemathesis(&self, run: &Path, service: &Service) -> Result<()> {
        let line = format!(
            "{MINUTES_MAX} {} --config-file {} run {}/openapi.json --max-examples {MAX_EXAMPLES} --seed {SEED} \
             --no-color",
            self.python.join("bin/schemathesis").display(),
            self.sources.join("schemathesis.toml").display(),
            service.url
        );
        fs::copy(self.sources.join("hooks.py"), run.join("hooks.py"))?;
        let folder = run.display().to_string();
        let hooks = [
            ("PYTHONPATH", folder.as_str()),
            ("SCHEMATHESIS_HOOKS", "hooks"),
        ];
        service.call(&line, run, &hooks)
    }
}

/// Refills a folder, unless it was filled from these files.
pub(crate) fn install_once(
    folder: &Path,
    pins: &[&Path],
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let texts = pins.iter().map(|pin| {
        fs::read_to_string(pin).with_context(|| format!("cannot read {}", pin.display()))
    });
    let pinned = texts.collect::<Result<String>>()?;
    let stamp = folder.join("installed-from");
    if fs::read_to_string(&stamp).is_ok_and(|from| from == pinned) {
        return Ok(());
    }
    drop(fs::remove_dir_all(folder));
    fs::create_dir_all(folder)?;
    install(folder)?;
    fs::write(stamp, pinned).context("cannot record the installed versions")
}

/// Service on a free port. It stops on drop.
struct Service {
    process: Child,
    url: String,
    token: String,
}

impl Service {
    fn start(program: &Path, folder: &Path) -> Result<Self> {
        // The kernel kills the service if xtask dies.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args([
                "serve",
                "--dev",
                "--empty",
                "--listen",
                "127.0.0.1:0",
                "--data",
                "qiang.db",
            ])
            .env("QIANG__LIMITS__BUYER_RETURN_MS", "600000")
            // Rate limits would keep examples from reaching the operations.
            .env("QIANG__LIMITS__CLAIMS_PER_USER_PER_SECOND", "0")
            .env("QIANG__LIMITS__READS_PER_ADDRESS_PER_SECOND", "0")
            .env("QIANG__LIMITS__CREATIONS_PER_USER_PER_MINUTE", "0")
            .env("QIANG__LIMITS__SHARES_PER_USER_PER_MINUTE", "0")
            .env("QIANG__LOG__LEVEL", "warn")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("service.log"))?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut said = (None, None);
        let out = process
            .stdout
            .take()
            .context("the service has no standard output")?;
        for line in BufReader::new(out).lines() {
            let line = line?;
            let address = line
                .split_whitespace()
                .find(|word| word.starts_with("http://"));
            said.0 = said.0.or_else(|| address.map(str::to_owned));
            said.1 = line.strip_prefix("TOKEN=").map(str::to_owned);
            if said.1.is_some() {
                break;
            }
        }
        let service = |url, token| Self {
            process,
            url,
            token,
        };
        match said {
            (Some(url), Some(token)) => Ok(service(url, token)),
            _ => bail!(
                "the service did not start: {}",
                fs::read_to_string(folder.join("service.log"))?
            ),
        }
    }

    /// Runs a command with the service's URL and token in its environment.
    fn call(&self, line: &str, directory: &Path, more: &[(&str, &str)]) -> Result<()> {
        let mut env = vec![
            ("QIANG_URL", self.url.as_str()),
            ("QIANG_TOKEN", self.token.as_str()),
        ];
        env.extend_from_slice(more);
        command::run_with(line, directory, &env)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_installed_once_and_again_when_their_pins_change() {
        let folder = tempfile::tempdir().unwrap();
        let (pin, tools) = (folder.path().join("pin"), folder.path().join("tools"));
        let pins = [pin.as_path()];
        let installs = |expected: bool| {
            let mut ran = false;
            install_once(&tools, &pins, |folder| {
                ran = true;
                fs::write(folder.join("tool"), "")?;
                Ok(())
            })
            .unwrap();
            assert_eq!(ran, expected);
        };
        fs::write(&pin, "a==1").unwrap();
        installs(true);
        installs(false);
        fs::write(&pin, "a==2").unwrap();
        // An interrupted installation does not count as complete.
        assert!(install_once(&tools, &pins, |_| bail!("no network")).is_err());
        installs(true);
        installs(false);
    }
}
