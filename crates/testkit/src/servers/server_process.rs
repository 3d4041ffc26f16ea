//! Server of a test. It starts on its own ports and in its own folder, and is stopped, killed, and started again on the
//! same ones.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::{PortTaken, Process};
use super::user::User;
use super::{Port, folder};

/// Maximum starts on other ports if another program takes one.
const ATTEMPTS_MAX: usize = 5;

/// Time limit of a check. A loopback server that does not answer in this time does not serve yet.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// File in the server's folder that receives its output.
const OUTPUT: &str = "output";

/// Resources that a server keeps while it is down: its ports and its folder.
#[derive(Debug)]
pub struct Resources {
    ports: Vec<Port>,
    folder: TempDir,
}

impl Resources {
    fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| Port::free()).collect(),
            folder: folder(),
        }
    }

    /// Address for clients: the first port.
    pub fn addr(&self) -> SocketAddr {
        self.ports[0].addr()
    }

    /// The number of the port at this index, from 0.
    pub fn port(&self, index: usize) -> u16 {
        self.ports[index].number()
    }

    /// The folder and working directory of the server. It is removed with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Configuration of a server for its first start and all restarts.
pub struct Builder {
    ports: usize,
    user: Option<User>,
    prepare: Box<dyn Fn(&Resources) + Send + Sync>,
    command: Box<dyn Fn(&Resources) -> Command + Send + Sync>,
    is_ready: Box<dyn Fn(&Resources) -> bool + Send + Sync>,
}

impl Builder {
    /// Sets the number of ports; the default is one.
    #[must_use]
    pub fn ports(self, ports: usize) -> Self {
        Self { ports, ..self }
    }

    /// Sets another user to run the server.
    #[must_use]
    pub(super) fn user(self, user: Option<User>) -> Self {
        Self { user, ..self }
    }

    /// Sets a function that fills the folder before the first start.
    #[must_use]
    pub fn prepare(self, prepare: impl Fn(&Resources) + Send + Sync + 'static) -> Self {
        let prepare = Box::new(prepare);
        Self { prepare, ..self }
    }

    /// Sets a function that checks whether the server is ready. By default, it is ready when it accepts connections on
    /// its first port.
    #[must_use]
    pub fn ready(self, is_ready: impl Fn(&Resources) -> bool + Send + Sync + 'static) -> Self {
        let is_ready = Box::new(is_ready);
        Self { is_ready, ..self }
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// With the end of its output, if it ends or is not ready in time.
    pub fn start(self) -> ServerProcess {
        for _ in 0..ATTEMPTS_MAX {
            let resources = Resources::new(self.ports);
            (self.prepare)(&resources);
            if let Ok(process) = self.launch(&resources) {
                return ServerProcess {
                    process: Mutex::new(process),
                    builder: self,
                    resources,
                };
            }
        }
        panic!("other programs took a port {ATTEMPTS_MAX} times")
    }

    fn launch(&self, resources: &Resources) -> Result<Process, PortTaken> {
        let mut command = (self.command)(resources);
        command.current_dir(resources.folder());
        let output = resources.folder().join(OUTPUT);
        let process = Process::start_as(&command, self.user.as_ref(), &output);
        process.wait_until_up(|| (self.is_ready)(resources))?;
        Ok(process)
    }
}

/// A running server. It is killed when the value is dropped, and when the test process dies.
pub struct ServerProcess {
    process: Mutex<Process>,
    builder: Builder,
    /// The last field, so that the process has ended when the folder is removed.
    resources: Resources,
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("ServerProcess");
        fields.field("process", &self.process);
        fields.field("resources", &self.resources);
        fields.finish_non_exhaustive()
    }
}

impl ServerProcess {
    /// Builder of a server that `command` starts. The function is called for every start.
    pub fn builder(command: impl Fn(&Resources) -> Command + Send + Sync + 'static) -> Builder {
        Builder {
            ports: 1,
            user: None,
            prepare: Box::new(|_| ()),
            command: Box::new(command),
            is_ready: Box::new(|at| TcpStream::connect_timeout(&at.addr(), ANSWER_MAX).is_ok()),
        }
    }

    /// Its ports and its folder.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.resources.addr()
    }

    /// Its process id; while it is down, the last one.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Whether the process runs or is paused.
    pub fn is_running(&self) -> bool {
        self.process().ended().is_none()
    }

    /// Kills it and all its descendants with SIGKILL. Its ports stay reserved.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn stop(&self) {
        self.process().stop();
    }

    /// Halts its first process with SIGSTOP: connections stay open and get no answers. Its child processes continue,
    /// such as those of PostgreSQL's open connections.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Continues it after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Halts all its processes with SIGSTOP, so that none answers. Does nothing if it has ended.
    pub fn pause_all(&self) {
        self.process().signal_all(Signal::STOP);
    }

    /// Continues them after [`pause_all`](Self::pause_all).
    pub fn resume_all(&self) {
        self.process().signal_all(Signal::CONT);
    }

    /// Starts it on the same ports and folder and waits until it is ready. A running server is killed first.
    ///
    /// # Panics
    /// As [`Builder::start`], and if another program has taken a port in between.
    pub fn start_again(&self) {
        let mut process = self.process();
        process.kill();
        *process = self.builder.launch(&self.resources).unwrap_or_else(|_| {
            panic!("another program took a port of {}", self.addr());
        });
    }

    /// Its output since its first start.
    pub fn output(&self) -> String {
        self.process().output()
    }

    pub(super) fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::servers::wait_for;

    #[test]
    fn a_server_gets_other_ports_if_one_is_taken_and_keeps_them() {
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&starts);
        let command = move |at: &Resources| {
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let text = match first {
                true => "echo Address already in use; exit 1".to_owned(),
                false => format!("echo {}; exec sleep 600", at.port(1)),
            };
            let mut command = Command::new("sh");
            command.args(["-c", &text]);
            command
        };
        let builder = ServerProcess::builder(command).ports(2);
        let line = |at: &Resources| format!("{}\n", at.port(1));
        let has_written = move |at: &Resources| {
            let output = fs::read_to_string(at.folder().join(OUTPUT)).unwrap();
            output.contains(&line(at))
        };
        let server = builder.ready(has_written).start();
        let line = line(server.resources());
        assert_eq!(server.output(), line);
        server.kill();
        assert!(!server.is_running());
        server.start_again();
        assert!(server.is_running());
        wait_for("the second line", ANSWER_MAX, || {
            (server.output() == line.repeat(2)).then_some(())
        });
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }
}
