//! `cargo xtask deb`: writes the Debian package, installs it into an empty root, and removes it again.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::command;
use crate::container::{Commit, build_program, copy};
use crate::faults::target;
use crate::steps::Done;

/// Units and their path of the program in `deploy/systemd`.
const UNITS: [&str; 2] = ["qiang.service", "qiang-worker.service"];
const PROGRAM_OF_UNITS: &str = "/usr/local/bin/qiang";
const PROGRAM: &str = "/usr/bin/qiang";

/// Files of `deploy/` that are installed as examples.
const EXAMPLES: [&str; 11] = [
    "examples/embedded.toml",
    "examples/redis-postgres.toml",
    "examples/sentinel-postgres.toml",
    "examples/cluster-mariadb-rabbitmq.toml",
    "redis/redis.conf",
    "redis/users.acl",
    "redis/sentinel.conf",
    "redis/sentinel-users.acl",
    "nginx.conf",
    "prometheus/qiang.rules.yml",
    "grafana/qiang.json",
];

/// Scripts of the package in `deploy/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds the program and its package, and tries the package.
pub(crate) fn run(root: &Path) -> Result<()> {
    let target = target(root)?;
    let program = build_program(root, &target.join("image-build"))?;
    let file = try_package(root, &target, &program, "-Zxz")?;
    println!("{}: install it with `apt-get install`", file.display());
    Ok(())
}

/// Tries a package with the program of the tests' build.
pub(crate) fn run_built(root: &Path) -> Result<Done> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        return Ok(Done::Skipped("only root may install a package".to_owned()));
    }
    let target = target(root)?;
    try_package(root, &target, &target.join("debug/qiang"), "-Zgzip -z1")?;
    fs::remove_dir_all(target.join("deb")).context("cannot remove the package")?;
    Ok(Done::Passed)
}

/// Writes a package with a program, and tries it.
fn try_package(root: &Path, target: &Path, program: &Path, compression: &str) -> Result<PathBuf> {
    let folder = target.join("deb");
    drop(fs::remove_dir_all(&folder));
    let package = folder.join("package");
    write(root, program, &package)?;
    let file = folder.join("qiang.deb");
    let commit = Commit::of(root)?;
    let line = format!(
        "dpkg-deb --root-owner-group {compression} --build {} {}",
        package.display(),
        file.display()
    );
    command::run_with(&line, root, &[("SOURCE_DATE_EPOCH", &commit.seconds)])?;
    fs::remove_dir_all(&package)?;
    install_and_remove(&file, &folder.join("root"))?;
    Ok(file)
}

/// Writes the files of the package.
fn write(root: &Path, program: &Path, package: &Path) -> Result<()> {
    let at = |path: &str| package.join(path);
    copy(program, &at("usr/bin/qiang"))?;
    let program = at("usr/bin/qiang").display().to_string();
    command::run(&format!("strip --strip-all {program}"), root)?;
    let deploy = root.join("deploy");
    for unit in UNITS {
        let text = fs::read_to_string(deploy.join("systemd").join(unit))?;
        let text = text.replace(PROGRAM_OF_UNITS, PROGRAM);
        fs::create_dir_all(at("usr/lib/systemd/system"))?;
        fs::write(at("usr/lib/systemd/system").join(unit), text)?;
    }
    copy(
        &deploy.join("systemd/qiang.sysusers.conf"),
        &at("usr/lib/sysusers.d/qiang.conf"),
    )?;
    for example in EXAMPLES {
        let name = Path::new(example)
            .file_name()
            .context("an example is a file")?;
        copy(
            &deploy.join(example),
            &at("usr/share/doc/qiang/examples").join(name),
        )?;
    }
    copy(&root.join("LICENSE"), &at("usr/share/doc/qiang/copyright"))?;
    fs::create_dir_all(at("usr/share/man/man1"))?;
    command::read(
        &format!("{program} man {}", at("usr/share/man/man1").display()),
        root,
    )?;
    let shell = command::read(&format!("{program} completions bash"), root)?;
    fs::create_dir_all(at("usr/share/bash-completion/completions"))?;
    fs::write(at("usr/share/bash-completion/completions/qiang"), shell)?;
    set_modes(package)?;
    fs::set_permissions(at("usr/bin/qiang"), Permissions::from_mode(0o755))?;

    fs::create_dir_all(at("DEBIAN"))?;
    for script in SCRIPTS {
        copy(
            &deploy.join("debian").join(script),
            &at("DEBIAN").join(script),
        )?;
        fs::set_permissions(at("DEBIAN").join(script), Permissions::from_mode(0o755))?;
    }
    let symbols = command::read(&format!("objdump --dynamic-syms {program}"), root)?;
    let arch = command::read("dpkg --print-architecture", root)?;
    fs::write(at("DEBIAN/control"), control(arch.trim(), &glibc(&symbols)))?;
    fs::set_permissions(at("DEBIAN"), Permissions::from_mode(0o755))?;
    Ok(())
}

/// Description of the package.
fn control(arch: &str, glibc: &str) -> String {
    format!(
        "Package: qiang\nVersion: {}\nArchitecture: {arch}\nMaintainer: Qiang <qiang@localhost>\n\
         Depends: libc6 (>= {glibc}), libgcc-s1, systemd | systemd-standalone-sysusers\nSection: net\n\
         Priority: optional\nDescription: red packets and flash sales\n \
         Gives scarce things to many users at the same moment. `qiang quickstart` writes a configuration.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Newest version of glibc whose symbols a program uses.
fn glibc(symbols: &str) -> String {
    let version = |word: &str| -> Option<(u32, u32)> {
        let word = word.trim_matches(['(', ')']);
        let mut numbers = word.strip_prefix("GLIBC_")?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    let newest = symbols.split_whitespace().filter_map(version).max();
    let (major, minor) = newest.unwrap_or((2, 0));
    format!("{major}.{minor}")
}

/// Folders are 0755 and files 0644.
fn set_modes(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => set_modes(&path)?,
            false => fs::set_permissions(&path, Permissions::from_mode(0o644))?,
        }
    }
    Ok(())
}

/// Installs a package into an empty root, removes it and purges it. Its scripts run outside of that root.
fn install_and_remove(file: &Path, root: &Path) -> Result<()> {
    for folder in [
        "etc",
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "var/lib/dpkg/triggers",
    ] {
        fs::create_dir_all(root.join(folder))?;
    }
    for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
        fs::write(root.join(file), "")?;
    }
    let dpkg = format!(
        "dpkg --root={} --force-script-chrootless --force-depends --log=/dev/null",
        root.display()
    );
    let run = |args: &str| command::read(&format!("{dpkg} {args}"), root);
    let there = |path: &str| root.join(path).exists();

    run(&format!("--install {}", file.display()))?;
    // Data and settings of a node that ran.
    let data = root.join("var/lib/qiang");
    fs::create_dir_all(&data)?;
    fs::write(data.join("qiang.db"), "")?;
    let version = command::read(&format!("{}/usr/bin/qiang --version", root.display()), root)?;
    ensure!(
        version.starts_with("qiang "),
        "the program prints {version:?}"
    );
    for unit in UNITS {
        let text = fs::read_to_string(root.join("usr/lib/systemd/system").join(unit))?;
        let is_right =
            text.contains(&format!("ExecStart={PROGRAM} ")) && !text.contains(PROGRAM_OF_UNITS);
        ensure!(is_right, "{unit} starts another program");
    }
    let passwd = fs::read_to_string(root.join("etc/passwd"))?;
    ensure!(
        passwd.contains("\nqiang:") || passwd.starts_with("qiang:"),
        "there is no user qiang"
    );
    let settings = fs::metadata(root.join("etc/qiang"))?;
    let mode = settings.permissions().mode() & 0o7777;
    ensure!(
        mode == 0o750 && settings.gid() != 0,
        "/etc/qiang has mode {mode:o} and group {}",
        settings.gid()
    );
    let example = "usr/share/doc/qiang/examples/embedded.toml";
    for path in [
        example,
        "usr/share/man/man1/qiang.1",
        "usr/share/bash-completion/completions/qiang",
    ] {
        ensure!(there(path), "the package lacks /{path}");
    }
    fs::write(root.join("etc/qiang/qiang.toml"), "")?;

    // An update keeps both.
    run(&format!("--install {}", file.display()))?;
    for args in ["--remove qiang", "--purge qiang"] {
        run(args)?;
        for path in [
            "usr/bin/qiang",
            "usr/lib/systemd/system/qiang.service",
            example,
        ] {
            ensure!(!there(path), "{args} left /{path}");
        }
        for path in ["var/lib/qiang/qiang.db", "etc/qiang/qiang.toml"] {
            ensure!(there(path), "{args} removed /{path}");
        }
    }
    fs::remove_dir_all(root).context("cannot remove the root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbols_say_which_glibc_is_needed() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.9) read\n0 DF *UND* 0 (GLIBC_2.34) open\n0 DF *UND* 0 (GCC_3.0) x\n";
        assert_eq!(glibc(symbols), "2.34");
        assert!(control("amd64", "2.34").contains("\nDepends: libc6 (>= 2.34),"));
    }
}
