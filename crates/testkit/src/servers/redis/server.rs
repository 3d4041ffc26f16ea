//! One Redis process: its port, its folder, its configuration file.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use tempfile::TempDir;

use super::resp::{self, Reply};
use super::{Login, Options};
use crate::servers::process::PortTaken;
use crate::servers::{Port, Process, folder, program};

/// How many ports are tried for one server.
const PORTS_MAX: usize = 5;

const CONFIGURATION: &str = "redis.conf";
const ACL: &str = "users.acl";

/// What survives a restart; a cluster node's `nodes.conf` is who it is and no data.
const DATA: [&str; 2] = ["dump.rdb", "appendonlydir"];

/// A Redis server (or a Sentinel) of its own.
#[derive(Debug)]
pub struct Server {
    port: Port,
    bus: Port,
    login: Option<Login>,
    sentinel: bool,
    process: Mutex<Process>,
    /// Last, so that the process is gone when the folder goes.
    folder: TempDir,
}

impl Server {
    pub(super) fn start(options: &Options, lines: &[String]) -> Self {
        Self::start_on_some_port(options, |port, bus| {
            let mut all = vec![format!("port {}", port.number())];
            all.push(format!("cluster-port {}", bus.number()));
            all.extend(options.configuration());
            all.extend_from_slice(lines);
            (all, false)
        })
    }

    /// Starts several at once.
    pub(super) fn start_all(options: &Options, count: usize, lines: &[String]) -> Vec<Self> {
        in_parallel(0..count, |_| Self::start(options, lines))
    }

    pub(super) fn start_sentinel(lines: &[String]) -> Self {
        Self::start_on_some_port(&Options::new(), |port, _| {
            let mut all = vec![format!("port {}", port.number())];
            all.extend_from_slice(lines);
            (all, true)
        })
    }

    fn start_on_some_port(
        options: &Options,
        configure: impl Fn(&Port, &Port) -> (Vec<String>, bool),
    ) -> Self {
        for _ in 0..PORTS_MAX {
            let folder = folder();
            let (port, bus) = (Port::free(), Port::free());
            let (mut lines, sentinel) = configure(&port, &bus);
            lines.push("bind 127.0.0.1".to_owned());
            lines.push(format!("dir \"{}\"", folder.path().display()));
            if let Some(acl) = &options.acl {
                let file = folder.path().join(ACL);
                fs::write(&file, acl).expect("write the ACL file");
                lines.push(format!("aclfile \"{}\"", file.display()));
            }
            let text = lines.join("\n") + "\n";
            fs::write(folder.path().join(CONFIGURATION), text).expect("write the configuration");
            let login = options.login.clone();
            if let Ok(process) = launch(&folder, port.addr(), login.as_ref(), sentinel) {
                return Self {
                    port,
                    bus,
                    login,
                    sentinel,
                    process: Mutex::new(process),
                    folder,
                };
            }
        }
        panic!("{PORTS_MAX} ports were taken by others, one after the other")
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The port of the cluster's own connections.
    pub(super) fn bus(&self) -> u16 {
        self.bus.number()
    }

    /// `redis://[user:password@]127.0.0.1:port`
    pub fn url(&self) -> String {
        match &self.login {
            None => format!("redis://{}", self.addr()),
            Some(Login { user, password }) => format!("redis://{user}:{password}@{}", self.addr()),
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Whether the process runs; a halted one does.
    pub fn is_running(&self) -> bool {
        self.process().ended().is_none()
    }

    /// Ends it with SIGKILL. Its port stays ours.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Asks it to end with SIGTERM, and waits.
    pub fn stop(&self) {
        self.process().stop();
    }

    /// Halts it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Starts it on the same port and folder, after a kill if it runs, and waits until it has loaded its data.
    /// Without persistence it comes back empty.
    pub fn start_again(&self) {
        let mut process = self.process();
        process.kill();
        let (addr, login) = (self.addr(), self.login.as_ref());
        *process = launch(&self.folder, addr, login, self.sentinel)
            .unwrap_or_else(|_| panic!("somebody took {addr} while the server was down"));
    }

    /// The same, and all its data is lost.
    pub fn start_again_empty(&self) {
        self.kill();
        for name in DATA {
            let path = self.folder.path().join(name);
            let gone = match fs::metadata(&path) {
                Err(_) => Ok(()),
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
            };
            gone.unwrap_or_else(|error| panic!("remove {}: {error}", path.display()));
        }
        self.start_again();
    }

    /// One request over a connection of its own.
    ///
    /// # Errors
    /// An error reply, and a server that cannot be reached or takes longer than a second.
    pub fn call(&self, words: &[&str]) -> io::Result<Reply> {
        self.calls(&[words])
    }

    /// Requests over one connection, such as a write and its `WAIT`; returns the last one's reply.
    ///
    /// # Errors
    /// The first error reply, and a server that cannot be reached or takes longer than a second.
    pub fn calls(&self, requests: &[&[&str]]) -> io::Result<Reply> {
        calls(self.addr(), self.login.as_ref(), requests)
    }

    /// A field of `INFO`; nothing when the server does not answer or does not say.
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        let reply = self.call(&["INFO", section]).ok()?;
        let mut lines = reply.text()?.lines();
        let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.to_owned())
    }

    /// Whether it is a replica that is connected and in sync.
    pub fn is_synced_replica(&self) -> bool {
        self.info("replication", "master_link_status").as_deref() == Some("up")
    }

    /// Whether so many replicas have acknowledged everything up to now. A primary calls a replica online before it
    /// sends it anything, so that a `WAIT` right then would be in vain.
    pub fn is_acknowledged_by(&self, replicas: usize) -> bool {
        // The first WAIT asks for more replicas than there are, which makes the primary move its offset; the second
        // one is then about that offset and not about 0, which everybody has.
        let (move_on, then) = (["WAIT", "1000", "1"], ["PING"]);
        let wait = ["WAIT", &replicas.to_string(), "200"];
        let reply = self.calls(&[&move_on, &then, &wait]).ok();
        let count = reply.and_then(|reply| reply.integer());
        count.is_some_and(|count| usize::try_from(count).is_ok_and(|c| c >= replicas))
    }

    /// What it wrote since its first start.
    pub fn output(&self) -> String {
        self.process().output()
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(
    folder: &TempDir,
    addr: SocketAddr,
    login: Option<&Login>,
    sentinel: bool,
) -> Result<Process, PortTaken> {
    let folder = folder.path();
    let mut command = Command::new(program::find("redis-server", "redis-server"));
    command.arg(folder.join(CONFIGURATION)).current_dir(folder);
    if sentinel {
        command.arg("--sentinel");
    }
    let process = Process::start(&command, &folder.join("output"));
    process.wait_until_up(|| calls(addr, login, &[&["PING"]]).is_ok())?;
    Ok(process)
}

fn calls(addr: SocketAddr, login: Option<&Login>, requests: &[&[&str]]) -> io::Result<Reply> {
    match login {
        None => resp::call(addr, requests),
        Some(Login { user, password }) => {
            let auth: &[&str] = &["AUTH", user, password];
            resp::call(addr, &[&[auth], requests].concat())
        }
    }
}

/// Does it for every item at once, and returns the results in order.
pub(super) fn in_parallel<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let spawn = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.into_iter().map(spawn).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, R>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}
