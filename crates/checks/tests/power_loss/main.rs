//! Power loss at any moment in every step of an embedded engine's life. Afterwards every answered change exists, a
//! retry gets the same answer, and the audit finds no breach.
//!
//! An engine runs a script, and the test records every change of its files. For every sync, and for each fate of
//! unsynced data, the test builds the files as they are after a power loss. Then the engine opens them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod answers;
mod life;
mod steps;
mod system_calls;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use qiang_checks::powerloss::{Fate, Journal};

use self::{answers::Fact, life::Life};

/// Number of threads that check cuts.
const WORKERS: usize = 2;

/// Cuts of a journal, each with fates of unsynced operations.
fn all_cuts(journal: &Journal, from: usize, draws: u64) -> Vec<(usize, Fate)> {
    let mut cuts = Vec::new();
    let places = journal.before_syncs();
    for (n, cut) in (0..).zip(places.into_iter().chain([journal.len()])) {
        if cut < from {
            continue;
        }
        cuts.push((cut, Fate::Lost));
        cuts.extend((0..draws).map(|draw| (cut, Fate::Drawn(n * 100 + draw))));
        // Also cuts between syncs, and sometimes the death of the process alone.
        if n % 3 == 0 {
            cuts.push((cut, Fate::Kept));
            cuts.push((from + (cut - from) / 7 * 5, Fate::Drawn(n + 50)));
        }
    }
    cuts
}

/// Failures after these cuts, up to `max`.
fn findings(journal: &Journal, facts: &[Fact], cuts: &[(usize, Fate)], max: usize) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((cut, fate)) = cuts.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let folder = life::folder();
                    journal.write_after_cut(*cut, *fate, folder.path()).unwrap();
                    if let Err(what) = answers::check(folder.path(), facts, *cut) {
                        let mut found = found.lock().unwrap();
                        if found.len() < max {
                            found.push(format!("cut after operation {cut}, {fate:?}: {what}"));
                        }
                        if found.len() >= max {
                            next.store(cuts.len(), Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn assert_nothing_lost(step: &str, life: &Life, from: usize, draws: u64) {
    let (began, journal) = (Instant::now(), life.journal());
    let cuts = all_cuts(&journal, from, draws);
    let found = findings(&journal, &life.facts, &cuts, 5);
    assert!(found.is_empty(), "{step}: {}", found.join("\n"));
    println!(
        "power loss, {step}: {} answers kept over {} cuts, {} operations with {} syncs, {:?}",
        life.facts.len(),
        cuts.len(),
        journal.len() - from,
        cuts.iter().filter(|(_, fate)| *fate == Fate::Lost).count() - 1,
        began.elapsed()
    );
}

/// Creation, deposit, grants, payments, settlement, a checkpoint, the close of a campaign, the end, another start.
#[test]
fn a_life_loses_nothing() {
    assert_nothing_lost("a life", &steps::whole_life(), 0, 2);
}

#[test]
fn copies_lose_nothing() {
    let (life, from) = steps::copies();
    assert_nothing_lost("backup and restore", &life, from, 2);
}

/// The shares of a large packet are written in slices before the packet: either all of it exists, or nothing.
#[test]
fn a_large_packet_is_whole_or_not_there() {
    let (life, from) = steps::large_packet();
    assert_nothing_lost("a large packet", &life, from, 1);
}

/// Months of the log move to archives. Entries that have left the log are in a durable archive at any moment, and
/// interrupted archiving continues.
#[test]
fn archives_lose_nothing() {
    let (life, from) = steps::archive();
    assert_nothing_lost("archives", &life, from, 2);
}

/// A process is killed between a write and its sync. The next process reads the write, answers from it, and then loses
/// power. Recovered data must be on the disk before it is used in an answer.
#[test]
fn what_a_start_has_recovered_is_durable() {
    let first = steps::grants();
    let (mut lives, mut cuts) = (0, 0);
    for second in steps::second_lives(&first) {
        let journal = second.life.journal();
        let tried = all_cuts(&journal, second.opened, 1);
        let found = findings(&journal, &second.life.facts, &tried, 5);
        assert!(found.is_empty(), "{}", found.join("\n"));
        (lives, cuts) = (lives + 1, cuts + tried.len());
    }
    println!("power loss, after {lives} kills: {cuts} cuts of the lives after them");
}

/// The matrix detects four kinds of planted bugs.
#[test]
fn planted_bugs_are_found() {
    let first = steps::grants();
    let journal = first.journal();
    let cuts = all_cuts(&journal, 0, 0);
    assert_eq!(findings(&journal, &first.facts, &cuts, 1), [""; 0]);

    // As with `synchronous=NORMAL`: commits are not synced.
    let unsynced = journal.without_syncs("-wal", 0, usize::MAX);
    let found = findings(&unsynced, &first.facts, &all_cuts(&unsynced, 0, 0), 1);
    println!("no sync at a commit: {found:?}");
    assert_eq!(found.len(), 1);

    // Answers before the sync of their commit.
    let syncs = journal.before_syncs();
    let mut early = first.facts.clone();
    for fact in &mut early {
        let before = syncs.iter().rev().find(|sync| **sync < fact.at);
        fact.at = before.copied().unwrap_or(0);
    }
    let found = findings(&journal, &early, &cuts, 1);
    println!("answers before the commit: {found:?}");
    assert_eq!(found.len(), 1);

    // Starts that assume that recovered data is durable.
    let mut found = Vec::new();
    for second in steps::second_lives(&first) {
        let (from, to) = (second.killed, second.opened);
        let planted = second.life.journal().without_syncs("", from, to);
        let cuts = all_cuts(&planted, to, 0);
        found.extend(findings(&planted, &second.life.facts, &cuts, 1));
    }
    println!("no commit at a start: {found:?}");
    assert!(!found.is_empty());

    // Archives that are not durable before entries leave the log.
    let (life, from) = steps::archive();
    let unsynced = life.journal().without_syncs("-01.db", 0, usize::MAX);
    let found = findings(&unsynced, &life.facts, &all_cuts(&unsynced, from, 0), 1);
    println!("no sync of archives: {found:?}");
    assert_eq!(found.len(), 1);
}
