//! RabbitMQ: one node, with a name service of its own, so that it shares nothing with another.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::process::PortTaken;
use super::wait::wait_for;
use super::{Port, Process, program};

/// How many ports are tried for a node.
const PORTS_MAX: usize = 5;

/// A node on loopback that has not answered by now does not take connections yet.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the name service may take to listen.
const NAMES_MAX: Duration = Duration::from_secs(20);

/// What Debian calls by this name on the search path insists on its own user and folders; this is what it calls.
const DEBIAN_SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A RabbitMQ node of its own, with the user `guest`.
#[derive(Debug)]
pub struct RabbitMq {
    ports: Ports,
    process: Mutex<Process>,
    /// Erlang's name service, without which no node starts.
    _names: Process,
    /// Last, so that the processes are gone when the folder goes.
    folder: TempDir,
}

#[derive(Debug)]
struct Ports {
    amqp: Port,
    /// For other nodes, of which there are none, and for `rabbitmqctl`.
    nodes: Port,
    names: Port,
}

impl RabbitMq {
    /// Starts a node and waits until it takes connections.
    pub fn start() -> Self {
        for _ in 0..PORTS_MAX {
            let folder = super::folder();
            let ports = Ports {
                amqp: Port::free(),
                nodes: Port::free(),
                names: Port::free(),
            };
            fs::write(folder.path().join("plugins"), "[].\n").expect("write the list of plugins");
            fs::write(folder.path().join("rabbitmq.conf"), "").expect("write the configuration");
            let Ok(names) = launch_names(folder.path(), &ports.names) else {
                continue;
            };
            if let Ok(process) = launch(folder.path(), &ports) {
                return Self {
                    ports,
                    process: Mutex::new(process),
                    _names: names,
                    folder,
                };
            }
        }
        panic!("{PORTS_MAX} ports were taken by others, one after the other")
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.ports.amqp.addr()
    }

    /// The address of the virtual host `/`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.addr())
    }

    /// The process id of the Erlang machine.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Ends it with SIGKILL. Its port stays ours.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Waits until it would find a quorum queue again after [`kill`](Self::kill). RabbitMQ 3.10 writes down half a
    /// second late which queues it has: one that is younger when the node is killed comes back without a leader, for
    /// good.
    pub fn wait_until_kept(&self, queue: &str) {
        let node = format!("{}@localhost", short_name(&self.ports));
        let data = self.folder.path().join("data").join(&node);
        let names = data.join("quorum").join(node).join("names.dets");
        wait_for("the queue's name on disk", NAMES_MAX, || {
            let bytes = fs::read(&names).ok()?;
            let found = bytes
                .windows(queue.len())
                .any(|part| part == queue.as_bytes());
            // Erlang's `dets` marks a file that needs no repair, which would drop what came last.
            (found && bytes.get(8..12) == Some(&[0, 0, 0, 1])).then_some(())
        });
    }

    /// Halts it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Starts it on the same ports and folder, after a kill if it runs, and waits until it takes connections.
    pub fn start_again(&self) {
        let mut process = self.process();
        process.kill();
        // The name service must have seen it go, or it refuses the name to its successor.
        wait_for("the node's name to be free", NAMES_MAX, || {
            let names = names_known(self.ports.names.addr())?;
            (!names.contains(&short_name(&self.ports))).then_some(())
        });
        *process = launch(self.folder.path(), &self.ports)
            .unwrap_or_else(|_| panic!("somebody took {}", self.addr()));
    }

    /// What it wrote since its first start.
    pub fn output(&self) -> String {
        self.process().output()
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn short_name(ports: &Ports) -> String {
    format!("qiang-{}", ports.amqp.number())
}

fn launch_names(folder: &Path, port: &Port) -> Result<Process, PortTaken> {
    let mut command = Command::new(program::find("epmd", "erlang-base"));
    command.args(["-port", &port.number().to_string()]);
    command.args(["-address", "127.0.0.1"]).current_dir(folder);
    let process = Process::start(&command, &folder.join("names"));
    process.wait_until_up(|| names_known(port.addr()).is_some())?;
    Ok(process)
}

/// Asks a name service for all its names, as text: a request of one byte, `n`, after its length.
fn names_known(addr: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&addr, ANSWER_MAX).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    stream.write_all(&[0, 1, b'n']).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    // It starts with four bytes of the port.
    Some(String::from_utf8_lossy(answer.get(4..)?).into_owned())
}

fn launch(folder: &Path, ports: &Ports) -> Result<Process, PortTaken> {
    let debian = PathBuf::from(DEBIAN_SERVER);
    let server = match debian.exists() {
        true => debian,
        false => program::find("rabbitmq-server", "rabbitmq-server"),
    };
    let mut command = Command::new(server);
    command
        .current_dir(folder)
        // Erlang keeps its cookie there.
        .env("HOME", folder)
        .env("ERL_EPMD_PORT", ports.names.number().to_string())
        .env(
            "RABBITMQ_NODENAME",
            format!("{}@localhost", short_name(ports)),
        )
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", ports.amqp.number().to_string())
        .env("RABBITMQ_DIST_PORT", ports.nodes.number().to_string())
        .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
        .env("RABBITMQ_LOG_BASE", folder.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("no-environment"))
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        // Otherwise a shell stays between us and the node, and the node outlives it.
        .env("RUNNING_UNDER_SYSTEMD", "true")
        // No waiting in circles on cores that others need; no distribution beyond loopback.
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
        );
    let process = Process::start(&command, &folder.join("output"));
    process.wait_until_up(|| answers(ports.amqp.addr()))?;
    Ok(process)
}

/// A node answers a protocol's header with a method frame, which starts with 1.
fn answers(addr: SocketAddr) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect_timeout(&addr, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0];
        stream.read_exact(&mut first).map(|()| first[0])
    };
    answer().is_ok_and(|kind| kind == 1)
}
