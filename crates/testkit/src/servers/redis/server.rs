//! One Redis process: its ports, its folder, its configuration file.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::{fs, io, thread};

use super::resp::{self, Reply};
use super::{Login, Options};
use crate::servers::server_process::{Resources, ServerProcess};

const CONFIGURATION: &str = "redis.conf";
const ACL: &str = "users.acl";

/// Ports for clients, and for connections between a cluster's nodes.
const CLIENT_PORT: usize = 0;
const BUS_PORT: usize = 1;

/// Folder of the data of a server with a small disk. Other servers have it in their own folder.
const DISK: &str = "data";

/// Files of data. A cluster node's `nodes.conf` is its identity and not data.
const DATA: [&str; 2] = ["dump.rdb", "appendonlydir"];

/// A Redis server or a Sentinel of a test. It is stopped, killed and started again as a [`ServerProcess`]. Without
/// persistence it restarts empty.
#[derive(Debug)]
pub struct Server {
    server: ServerProcess,
    login: Option<Login>,
}

impl Deref for Server {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.server
    }
}

impl Server {
    pub(super) fn start(options: &Options, lines: &[String]) -> Self {
        let (started, lines) = (options.clone(), lines.to_vec());
        let prepare = move |at: &Resources| {
            let mut all = vec![format!("cluster-port {}", at.port(BUS_PORT))];
            all.extend(started.configuration());
            all.extend(lines.iter().cloned());
            if let Some(acl) = &started.acl {
                let file = at.folder().join(ACL);
                fs::write(&file, acl).expect("write the ACL file");
                all.push(format!("aclfile \"{}\"", file.display()));
            }
            let mut data = at.folder().to_owned();
            if started.disk_bytes.is_some() {
                data.push(DISK);
                fs::create_dir(&data).expect("create the folder of the data");
            }
            write_configuration(at, all, &data);
        };
        Self::start_with(options.clone(), &[], prepare)
    }

    /// Starts several servers concurrently.
    pub(super) fn start_all(options: &Options, count: usize, lines: &[String]) -> Vec<Self> {
        in_parallel(0..count, |_| Self::start(options, lines))
    }

    pub(super) fn start_sentinel(lines: &[String]) -> Self {
        let lines = lines.to_vec();
        let prepare = move |at: &Resources| write_configuration(at, lines.clone(), at.folder());
        Self::start_with(Options::new(), &["--sentinel"], prepare)
    }

    /// Starts a server, or a Sentinel, by files: `files` returns their names and texts. The first one is its
    /// configuration, which has the port of the server. `login` is the user and the password of [`Server::call`].
    pub fn start_by_files(
        is_sentinel: bool,
        (user, password): (&str, &str),
        files: impl Fn(&Resources) -> Vec<(&'static str, String)> + Send + Sync + 'static,
    ) -> Self {
        let login = Login {
            user: user.to_owned(),
            password: password.to_owned(),
        };
        let options = Options {
            login: Some(login),
            ..Options::new()
        };
        let prepare = move |at: &Resources| {
            for (place, (name, text)) in files(at).into_iter().enumerate() {
                let name = if place == 0 { CONFIGURATION } else { name };
                fs::write(at.folder().join(name), text).expect("write a file of the server");
            }
        };
        let args: &[&str] = if is_sentinel { &["--sentinel"] } else { &[] };
        Self::start_with(options, args, prepare)
    }

    fn start_with(
        options: Options,
        args: &'static [&'static str],
        prepare: impl Fn(&Resources) + Send + Sync + 'static,
    ) -> Self {
        let (login, program) = (options.login.clone(), options.program());
        let command = move |at: &Resources| {
            let mut command = Command::new(&program);
            command.arg(at.folder().join(CONFIGURATION)).args(args);
            options.on_disk(command)
        };
        let probe = login.clone();
        let server = ServerProcess::builder(command)
            .ports(2)
            .prepare(prepare)
            .ready(move |at| calls(at.addr(), probe.as_ref(), &[&["PING"]]).is_ok());
        Self {
            server: server.start(),
            login,
        }
    }

    /// The port for connections between the cluster's nodes.
    pub(super) fn bus(&self) -> u16 {
        self.resources().port(BUS_PORT)
    }

    /// `redis://[user:password@]127.0.0.1:port`
    pub fn url(&self) -> String {
        match &self.login {
            None => format!("redis://{}", self.addr()),
            Some(Login { user, password }) => format!("redis://{user}:{password}@{}", self.addr()),
        }
    }

    /// Starts it again like [`start_again`](ServerProcess::start_again), without its data.
    pub fn start_again_empty(&self) {
        self.kill();
        for name in DATA {
            let path = self.resources().folder().join(name);
            let gone = match fs::metadata(&path) {
                Err(_) => Ok(()),
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
            };
            gone.unwrap_or_else(|error| panic!("remove {}: {error}", path.display()));
        }
        self.start_again();
    }

    /// Sends one request on a new connection.
    ///
    /// # Errors
    /// If the reply is an error, or if the server is unreachable or takes longer than a second.
    pub fn call(&self, words: &[&str]) -> io::Result<Reply> {
        self.calls(&[words])
    }

    /// Sends requests on one connection, such as a write and its `WAIT`, and returns the last reply.
    ///
    /// # Errors
    /// The first error reply, or an error if the server is unreachable or takes longer than a second.
    pub fn calls(&self, requests: &[&[&str]]) -> io::Result<Reply> {
        calls(self.addr(), self.login.as_ref(), requests)
    }

    /// A field of `INFO`; `None` if the server does not answer or the field is missing.
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

    /// Whether this many replicas have acknowledged everything so far. A primary calls a replica online before it sends
    /// any data, so a `WAIT` at that moment would fail.
    pub fn is_acknowledged_by(&self, replicas: usize) -> bool {
        // The first WAIT requires more replicas than exist, which makes the primary advance its offset. So the second
        // WAIT refers to that offset and not to 0, which every replica has.
        let (move_on, then) = (["WAIT", "1000", "1"], ["PING"]);
        let wait = ["WAIT", &replicas.to_string(), "200"];
        let reply = self.calls(&[&move_on, &then, &wait]).ok();
        let count = reply.and_then(|reply| reply.integer());
        count.is_some_and(|count| usize::try_from(count).is_ok_and(|c| c >= replicas))
    }
}

fn write_configuration(at: &Resources, mut lines: Vec<String>, data: &Path) {
    lines.push(format!("port {}", at.port(CLIENT_PORT)));
    lines.push("bind 127.0.0.1".to_owned());
    lines.push(format!("dir \"{}\"", data.display()));
    let text = lines.join("\n") + "\n";
    fs::write(at.folder().join(CONFIGURATION), text).expect("write the configuration");
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

/// Runs `work` for all items concurrently, and returns the results in order.
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
