//! A child with all that it started: servers of several processes die as a whole, like with the machine's power.

use std::process::Child;
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::poll;

/// How long the kernel may take to end killed processes.
const END_MAX: Duration = Duration::from_secs(10);

/// Kills the child and its descendants, and returns when none of them runs. Nothing happens if it has ended.
pub(super) fn kill(child: &mut Child) -> io::Result<()> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    // Halted from the top, so that none of them starts another or notices that one has ended.
    let descendants = signal(child, Signal::STOP)?;
    for pid in &descendants {
        // They cannot be reaped, and their ids not be given to others, while their parent is halted.
        let _ = kill_process(*pid, Signal::KILL);
    }
    child.kill()?;
    child.wait()?;
    let gone = |pid: &Pid| state_and_parent(id(*pid)).is_none_or(|(state, _)| "ZX".contains(state));
    poll(END_MAX, || descendants.iter().all(gone).then_some(()))
        .ok_or_else(|| io::Error::other("a descendant does not end"))
}

/// Sends a signal to the child, which has not been reaped, and to its descendants, from the top; returns these.
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
            // It may have ended by itself.
            let _ = kill_process(*pid, signal);
        }
        descendants.extend(new);
    }
}

/// A process's state, as one letter, and its parent; nothing if there is no such process.
pub(super) fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in brackets and may hold anything.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut words = after_name.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

/// The processes whose parent is one of `parents`, less those that are `known`.
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
