//! A child with all its descendants. Servers of several processes are killed as a whole, as by a loss of power.

use std::process::Child;
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::poll;

/// Maximum time for the kernel to end killed processes.
const END_MAX: Duration = Duration::from_secs(10);

/// Kills the child and its descendants, and returns when none runs. Does nothing if the child has ended.
pub(super) fn kill(child: &mut Child) -> io::Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    // All are halted from the top first, so that none starts another or notices the end of another.
    let descendants = signal(child, Signal::STOP)?;
    for pid in &descendants {
        // While their parent is halted, they cannot be reaped and their ids cannot be reused.
        let _ = kill_process(*pid, Signal::KILL);
    }
    child.kill()?;
    child.wait()?;
    let gone = |pid: &Pid| state_and_parent(id(*pid)).is_none_or(|(state, _)| "ZX".contains(state));
    poll(END_MAX, || descendants.iter().all(gone).then_some(()))
        .ok_or_else(|| io::Error::other("a descendant does not end"))
}

/// Signals the child, which must not be reaped, and its descendants, from the top. Returns the descendants.
pub(super) fn signal(child: &Child, signal: Signal) -> io::Result<Vec<Pid>> {
    let root = Pid::from_child(child);
    let mut descendants = Vec::new();
    kill_process(root, signal)?;
    loop {
        let new = children(&[&[root][..], &descendants].concat(), &descendants);
        if new.is_empty() {
            return Ok(descendants);
        }
        for pid in &new {
            // The process may have ended already.
            let _ = kill_process(*pid, signal);
        }
        descendants.extend(new);
    }
}

/// A process's state, as one letter, and its parent; `None` if there is no such process.
pub(super) fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in brackets and may contain any characters.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut words = after_name.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

/// The processes with a parent in `parents`, without those in `known`.
fn children(parents: &[Pid], known: &[Pid]) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let parent = state_and_parent(*pid).map(|(_, parent)| parent);
        parents.iter().any(|pid| Some(id(*pid)) == parent)
    })
    .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
    .filter(|pid| !known.contains(pid))
    .collect()
}

fn id(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
