//! An nginx with `deploy/nginx.conf`, on a free port and in a temporary folder, in front of one node.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

/// The shipped configuration.
const SHIPPED: &str = include_str!("../../../../deploy/nginx.conf");
/// Mark at the end of a line that each site changes.
const SITE: &str = "# site";
/// Time limit for nginx to listen.
const START_MAX: Duration = Duration::from_secs(10);
/// The page and its asset, which has a hash in its name.
pub(crate) const PAGE: &str = "/sale.html";
pub(crate) const ASSET: &str = "/assets/sale.3f9a2c1b.js";

/// Running nginx. It stops on drop.
pub(crate) struct Nginx {
    pub(crate) addr: SocketAddr,
    program: PathBuf,
    conf: PathBuf,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx in front of a node.
    pub(crate) fn start(program: Option<&Path>, node: SocketAddr) -> anyhow::Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => find().context("cannot find nginx: install nginx-light, or set --nginx")?,
        };
        let folder = tempfile::tempdir()?;
        let addr = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let conf = folder.path().join("nginx.conf");
        fs::write(&conf, configuration(folder.path(), addr, node)?)?;
        let pages = folder.path().join("pages");
        fs::create_dir_all(pages.join("assets"))?;
        fs::write(
            pages.join(&PAGE[1..]),
            format!("<script src=\"{ASSET}\"></script>\n"),
        )?;
        fs::write(pages.join(&ASSET[1..]), "export const sale = true;\n")?;
        let mut child = Command::new(&program)
            .arg("-c")
            .arg(&conf)
            .args(["-g", "daemon off;"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let until = Instant::now() + START_MAX;
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("nginx exited: {status}");
            }
            ensure!(Instant::now() < until, "nginx does not listen on {addr}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            addr,
            program,
            conf,
            child,
            _folder: folder,
        })
    }
}

impl Drop for Nginx {
    /// Lets the master process stop the workers.
    fn drop(&mut self) {
        let mut stop = Command::new(&self.program);
        stop.arg("-c").arg(&self.conf).args(["-s", "stop"]);
        // nginx reports the stop on standard error.
        let stopped = stop.stderr(Stdio::null()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}

/// The shipped configuration with the lines of this site.
fn configuration(folder: &Path, addr: SocketAddr, node: SocketAddr) -> anyhow::Result<String> {
    let place = |name: &str| folder.join(name).display().to_string();
    let mut replaced = 0;
    let mut lines = Vec::new();
    // As root, nginx runs its workers as another user, who cannot read a temporary folder.
    if fs::metadata("/proc/self")?.uid() == 0 {
        lines.push("user root;".to_owned());
    }
    for line in SHIPPED.lines() {
        let Some(line) = line
            .strip_suffix(SITE)
            .filter(|line| !line.starts_with('#'))
        else {
            lines.push(line.to_owned());
            if line == "http {" {
                // These paths are unused, but by default only root can write to them.
                for kind in ["fastcgi", "uwsgi", "scgi"] {
                    lines.push(format!("{kind}_temp_path {};", place(kind)));
                }
            }
            continue;
        };
        let (directive, rest) = line
            .trim()
            .split_once(' ')
            .context("a line of nginx.conf has no directive")?;
        let (first, others) = rest.split_once(' ').unwrap_or((rest, ""));
        let value = match directive {
            "listen" => addr.to_string(),
            "server" => node.to_string(),
            "pid" => place("nginx.pid"),
            "root" => place("pages"),
            "proxy_cache_path" => place("cache"),
            "client_body_temp_path" | "proxy_temp_path" => place(directive),
            _ => bail!("nginx.conf: unknown directive {directive} of a site"),
        };
        let ends = if first.ends_with(';') { ";" } else { others };
        lines.push(format!("{directive} {value} {ends}"));
        replaced += 1;
    }
    ensure!(
        replaced == 7,
        "nginx.conf has {replaced} lines of a site instead of 7"
    );
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Path of nginx. Users' search paths often lack its folder.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join("nginx"))
        .find(|file| file.is_file())
}
