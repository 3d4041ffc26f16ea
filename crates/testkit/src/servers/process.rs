//! Child process that does not outlive the test process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::user::User;
use super::wait::{poll, wait_for};
use super::{program, tree};

/// Maximum time for a server to start, on a busy machine.
const UP_MAX: Duration = Duration::from_secs(180);

/// Maximum time for a server to end after a request.
const STOP_MAX: Duration = Duration::from_secs(120);

/// Maximum time for the kernel to deliver a signal.
const SIGNAL_MAX: Duration = Duration::from_secs(10);

/// Maximum lines of output in the message about a failed start.
const OUTPUT_LINES_MAX: usize = 40;

/// Another program listens on the port of the process.
#[derive(Debug)]
pub(super) struct PortTaken;

/// A running child. It is killed and reaped on drop. The kernel kills it if the test process dies first.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    child: Mutex<Child>,
    output: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to the file `output`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &Command, output: &Path) -> Self {
        Self::start_as(command, None, output)
    }

    /// Starts the command as another user.
    pub(super) fn start_as(command: &Command, user: Option<&User>, output: &Path) -> Self {
        let name = Path::new(command.get_program()).file_name();
        let name = name
            .unwrap_or(OsStr::new("?"))
            .to_string_lossy()
            .into_owned();
        let open = || File::options().create(true).append(true).open(output);
        let files = open().and_then(|out| Ok((out, open()?)));
        let (out, err) = files.unwrap_or_else(|e| panic!("open {}: {e}", output.display()));
        let mut wrapped = wrapped(command, user);
        wrapped.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn(wrapped).unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self {
            name,
            pid: child.id(),
            child: Mutex::new(child),
            output: output.to_owned(),
        }
    }

    /// Its process id, also after it has ended.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().expect("a child of this process")
    }

    /// Kills it and all its descendants with SIGKILL. Does nothing if it has ended.
    pub fn kill(&self) {
        let killed = tree::kill(&mut self.child());
        killed.unwrap_or_else(|error| panic!("kill {}: {error}", self.name));
    }

    /// Sends SIGTERM and waits until it has ended.
    ///
    /// # Panics
    /// If it takes too long.
    pub fn stop(&self) {
        self.stop_by(Signal::TERM);
    }

    /// The same with another signal.
    pub(super) fn stop_by(&self, signal: Signal) {
        self.signal(signal);
        wait_for(&format!("{} to end", self.name), STOP_MAX, || self.ended());
    }

    /// Halts it with SIGSTOP: connections stay open and get no answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        self.wait_for_state("to halt", |state| state == 'T');
    }

    /// Continues it after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
        self.wait_for_state("to continue", |state| state != 'T');
    }

    /// Sends a signal to it and all its descendants. Does nothing if it has ended.
    pub(super) fn signal_all(&self, signal: Signal) {
        let mut child = self.child();
        if child.try_wait().expect("a child of this process").is_none() {
            let sent = tree::signal(&child, signal);
            sent.unwrap_or_else(|error| panic!("{signal:?} to {}: {error}", self.name));
        }
    }

    /// Output of this run and of earlier runs with the same file.
    pub fn output(&self) -> String {
        fs::read(&self.output).map_or_else(
            |error| format!("({}: {error})", self.output.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// Waits until it is `ready`. The error says that another program has the port; the caller chooses another one.
    ///
    /// # Panics
    /// With its output, if it ends for another reason or takes too long.
    pub(super) fn wait_until_up(&self, ready: impl Fn() -> bool) -> Result<(), PortTaken> {
        let look = || match self.ended() {
            Some(status) => Some(Some(status)),
            None => ready().then_some(None),
        };
        match poll(UP_MAX, look) {
            Some(None) => Ok(()),
            Some(Some(_)) if self.last_lines().contains("ddress already in use") => Err(PortTaken),
            Some(Some(status)) => panic!("{} ended: {status}\n{}", self.name, self.last_lines()),
            None => panic!("{} is not ready in time\n{}", self.name, self.last_lines()),
        }
    }

    fn last_lines(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join("\n")
    }

    /// Signals a child that has not been reaped, so no other process can have its id.
    fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if let Some(status) = child.try_wait().expect("a child of this process") {
            panic!("{} ended before {signal:?}: {status}", self.name);
        }
        let sent = kill_process(Pid::from_child(&child), signal);
        sent.unwrap_or_else(|error| panic!("{signal:?} to {}: {error}", self.name));
    }

    fn wait_for_state(&self, what: &str, reached: impl Fn(char) -> bool) {
        wait_for(&format!("{} {what}", self.name), SIGNAL_MAX, || {
            let (state, _) = tree::state_and_parent(self.pid)?;
            reached(state).then_some(())
        });
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failure here cannot be handled.
        let _ = tree::kill(&mut self.child());
    }
}

/// Wraps the command in `setpriv`: it runs as another user, and the kernel kills it when its parent dies.
pub(super) fn wrapped(command: &Command, user: Option<&User>) -> Command {
    let mut wrapped = Command::new(program::find("setpriv", "util-linux"));
    wrapped.args(["--pdeathsig", "KILL"]);
    wrapped.args(user.map(User::setpriv).into_iter().flatten());
    wrapped.arg("--").arg(command.get_program());
    wrapped.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// Spawns through one thread that lives as long as the test process. The kernel treats the starting *thread* as the
/// parent, and would kill the child when that thread ends.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The requester waits for the answer.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = mpsc::sync_channel(1);
    spawner
        .send((command, answer))
        .expect("the spawner never ends");
    child.recv().expect("the spawner never ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> Process {
        let mut command = Command::new("sleep");
        command.arg("600");
        Process::start(&command, &folder.join("output"))
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_child_outlives_the_thread_that_started_it_but_not_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let process = sleeper(folder.path());
            // The death signal is set just before setpriv executes the program.
            let name = format!("/proc/{}/comm", process.pid());
            let is_itself = || (fs::read_to_string(&name).ok()? == "sleep\n").then_some(());
            wait_for("setpriv to become the program", SIGNAL_MAX, is_itself);
            process
        };
        let process = thread::scope(|scope| scope.spawn(start).join()).unwrap();
        // The signal may arrive shortly after the thread ends.
        assert_eq!(poll(Duration::from_millis(200), || process.ended()), None);
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_child_is_killed_once_however_often_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        process.kill();
        process.kill();
        assert!(process.ended().is_some_and(|status| !status.success()));
        assert!(!is_alive(process.pid()));
    }

    #[test]
    fn what_a_child_started_is_killed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        // A shell in its own session with two children, as PostgreSQL's are, prints its id and a child's.
        let text = "setsid sh -c 'sleep 600 & sleep 600 & echo $$; echo $!; wait' & wait";
        let process = script(folder.path(), text);
        let pids: Vec<u32> = wait_for("two ids", SIGNAL_MAX, || {
            let pids: Vec<u32> = process.output().lines().flat_map(str::parse).collect();
            (pids.len() == 2).then_some(pids)
        });
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        process.kill();
        let dead = |pid: &u32| tree::state_and_parent(*pid).is_none_or(|(state, _)| state == 'Z');
        assert!(pids.iter().all(dead));
    }

    #[test]
    fn a_halted_child_goes_on_and_can_be_killed_while_halted() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        process.pause();
        process.resume();
        process.pause();
        process.kill();
        assert!(!is_alive(process.pid()));
    }

    #[test]
    fn a_child_stops_when_it_is_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        process.stop();
        assert!(process.ended().is_some());
    }

    fn script(folder: &Path, text: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Process::start(&command, &folder.join("output"))
    }

    #[test]
    fn a_taken_port_is_told_from_a_server_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let taken = script(folder.path(), "echo bind: Address already in use; exit 1");
        assert!(taken.wait_until_up(|| false).is_err());
    }

    #[test]
    #[should_panic(expected = "no such setting")]
    fn a_server_that_does_not_come_up_shows_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let _ = script(folder.path(), "echo no such setting >&2; exit 1").wait_until_up(|| false);
    }
}
