//! RabbitMQ: one node with its own name service, so that it shares nothing with other nodes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::program;
use super::server_process::{ANSWER_MAX, Resources, ServerProcess};
use super::wait::wait_for;

/// Maximum time for the name service to notice the node's end, and for the node to write a queue's name.
const NAMES_MAX: Duration = Duration::from_secs(20);

/// The real program. Debian's wrapper on the search path requires its own user and folders.
const DEBIAN_SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// The same for the operators' program.
const DEBIAN_CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";

/// Port for clients.
const AMQP_PORT: usize = 0;
/// Port for `rabbitmqctl`, and for other nodes, which do not exist.
const NODES_PORT: usize = 1;

/// A RabbitMQ node of a test, with the user `guest`. It is stopped and killed as a [`ServerProcess`].
#[derive(Debug)]
pub struct RabbitMq {
    node: ServerProcess,
    /// Erlang's name service. No node starts without it.
    names: ServerProcess,
}

impl Deref for RabbitMq {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.node
    }
}

impl RabbitMq {
    /// Starts a node and waits until it accepts connections.
    pub fn start() -> Self {
        let names =
            ServerProcess::builder(names_command).ready(|at| names_known(at.addr()).is_some());
        let names = names.start();
        let names_port = names.addr().port();
        let node = ServerProcess::builder(move |at| node_command(at, names_port))
            .ports(2)
            .prepare(prepare)
            .ready(|at| answers(at.addr()));
        Self {
            node: node.start(),
            names,
        }
    }

    /// The URL of the virtual host `/`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.addr())
    }

    /// Waits until the node would find a quorum queue again after [`kill`](Self::kill). RabbitMQ 3.10 records its
    /// queues half a second late. If the node is killed before that, the queue never gets a leader again.
    pub fn wait_until_kept(&self, queue: &str) {
        let node = format!("{}@localhost", short_name(self.resources()));
        let data = self.resources().folder().join("data").join(&node);
        let names = data.join("quorum").join(node).join("names.dets");
        wait_for("the queue's name on disk", NAMES_MAX, || {
            let bytes = fs::read(&names).ok()?;
            let found = bytes
                .windows(queue.len())
                .any(|part| part == queue.as_bytes());
            // Erlang's `dets` marks a file that needs no repair. A repair would drop the last records.
            (found && bytes.get(8..12) == Some(&[0, 0, 0, 1])).then_some(())
        });
    }

    /// Runs a command of `rabbitmqctl` on the node, as an operator does.
    ///
    /// # Panics
    /// If it fails.
    pub fn control(&self, words: &[&str]) {
        let debian = PathBuf::from(DEBIAN_CONTROL);
        let program = match debian.exists() {
            true => debian,
            false => program::find("rabbitmqctl", "rabbitmq-server"),
        };
        let at = self.resources();
        let mut command = Command::new(program);
        command
            .env("HOME", at.folder())
            .env("ERL_EPMD_PORT", self.names.addr().port().to_string())
            .args(["--node", &format!("{}@localhost", short_name(at))])
            .args(words);
        let output = command.output().expect("rabbitmqctl starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rabbitmqctl {words:?}: {said}");
    }

    /// Starts it on the same ports and folder and waits until it accepts connections. A running node is killed first.
    pub fn start_again(&self) {
        self.kill();
        // The name service must notice the end first. Otherwise it refuses the name.
        wait_for("the node's name to be free", NAMES_MAX, || {
            let names = names_known(self.names.addr())?;
            (!names.contains(&short_name(self.resources()))).then_some(())
        });
        self.node.start_again();
    }
}

fn short_name(at: &Resources) -> String {
    format!("qiang-{}", at.port(AMQP_PORT))
}

fn names_command(at: &Resources) -> Command {
    let mut command = Command::new(program::find("epmd", "erlang-base"));
    command.args(["-port", &at.port(0).to_string()]);
    command.args(["-address", "127.0.0.1"]);
    command
}

/// Requests all names of a name service, as text: a one-byte request, `n`, after its length.
fn names_known(addr: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&addr, ANSWER_MAX).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    stream.write_all(&[0, 1, b'n']).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    // The answer starts with four bytes of the port.
    Some(String::from_utf8_lossy(answer.get(4..)?).into_owned())
}

fn prepare(at: &Resources) {
    fs::write(at.folder().join("plugins"), "[].\n").expect("write the list of plugins");
    fs::write(at.folder().join("rabbitmq.conf"), "").expect("write the configuration");
}

fn node_command(at: &Resources, names_port: u16) -> Command {
    let debian = PathBuf::from(DEBIAN_SERVER);
    let server = match debian.exists() {
        true => debian,
        false => program::find("rabbitmq-server", "rabbitmq-server"),
    };
    let folder = at.folder();
    let mut command = Command::new(server);
    command
        // Erlang stores its cookie there.
        .env("HOME", folder)
        .env("ERL_EPMD_PORT", names_port.to_string())
        .env("RABBITMQ_NODENAME", format!("{}@localhost", short_name(at)))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", at.port(AMQP_PORT).to_string())
        .env("RABBITMQ_DIST_PORT", at.port(NODES_PORT).to_string())
        .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
        .env("RABBITMQ_LOG_BASE", folder.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("no-environment"))
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        // Otherwise a shell starts between the test and the node, and the node outlives it.
        .env("RUNNING_UNDER_SYSTEMD", "true")
        // No busy waiting on cores that other programs need, and no distribution outside loopback.
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
        );
    command
}

/// A node answers the protocol's header with a method frame, which starts with 1.
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
