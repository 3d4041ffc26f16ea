//! Report of a run.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::Result;
use serde_json::json;

use crate::answers::Answer;

/// Maximum examples per kind of violation.
const SHOWN_MAX: usize = 3;
/// Maximum characters of an example.
const CHARS_MAX: usize = 2_000;
/// Allowed growth of memory in bytes from the middle of the run to its end, beside a quarter.
const GROWTH_MAX: u64 = 32 << 20;

/// Results of all users.
#[derive(Debug)]
pub(crate) struct Report(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    began: Instant,
    /// Number of answers by status and, for refusals, kind.
    answers: BTreeMap<String, u64>,
    broken: u64,
    resets: u64,
    /// Memory in bytes at each measurement.
    memory: Vec<u64>,
    violations: BTreeMap<String, (u64, Vec<String>)>,
}

impl Default for Report {
    fn default() -> Self {
        Self(Mutex::new(Seen {
            began: Instant::now(),
            answers: BTreeMap::new(),
            broken: 0,
            resets: 0,
            memory: Vec::new(),
            violations: BTreeMap::new(),
        }))
    }
}

impl Report {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn answer(&self, answer: &Answer) {
        let kind = match answer.problem() {
            Some(kind) => format!("{} {kind}", answer.status),
            None => answer.status.to_string(),
        };
        *self.seen().answers.entry(kind).or_default() += 1;
    }

    /// Records malformed bytes.
    pub(crate) fn broken(&self) {
        self.seen().broken += 1;
    }

    /// Records a connection that the node closed while requests were in flight.
    pub(crate) fn reset(&self) {
        self.seen().resets += 1;
    }

    pub(crate) fn memory(&self, bytes: u64) {
        self.seen().memory.push(bytes);
    }

    pub(crate) fn panicked(&self, panics: &[String]) {
        if let Some(last) = panics.last() {
            self.violation("panic", last);
        }
    }

    pub(crate) fn violation(&self, what: &str, shown: &str) {
        let mut seen = self.seen();
        let (times, examples) = seen.violations.entry(what.to_owned()).or_default();
        *times += 1;
        if examples.len() < SHOWN_MAX {
            examples.push(printable(shown));
        }
    }

    /// Prints the report. Returns whether there was no violation.
    pub(crate) fn print(&self, as_json: bool) -> Result<bool> {
        let (middle, last) = {
            let seen = self.seen();
            let middle = seen.memory.get(seen.memory.len() / 2).copied();
            (
                middle.unwrap_or_default(),
                seen.memory.last().copied().unwrap_or_default(),
            )
        };
        if last > middle + middle / 4 + GROWTH_MAX {
            let grown = format!("{middle} bytes in the middle of the run, {last} at its end");
            self.violation("memory grows", &grown);
        }
        let seen = self.seen();
        let answers: u64 = seen.answers.values().sum();
        if answers == 0 {
            anyhow::bail!("no request was answered");
        }
        let seconds = seen.began.elapsed().as_secs_f64();
        if as_json {
            let report = json!({
                "answers": answers, "seconds": seconds, "kinds": seen.answers, "broken": seen.broken,
                "resets": seen.resets, "memory_middle_bytes": middle, "memory_end_bytes": last,
                "violations": seen.violations,
            });
            println!("{report}");
            return Ok(seen.violations.is_empty());
        }
        println!("{answers} answers in {seconds:.0} s");
        for (kind, times) in &seen.answers {
            println!("  {kind}: {times}");
        }
        println!(
            "{} malformed inputs, {} connections reset",
            seen.broken, seen.resets
        );
        println!(
            "memory: {} MiB in the middle, {} MiB at the end",
            middle >> 20,
            last >> 20
        );
        for (what, (times, examples)) in &seen.violations {
            println!("VIOLATION {what}: {times} times");
            for example in examples {
                println!("----\n{example}");
            }
        }
        if seen.violations.is_empty() {
            println!("no violations");
        }
        Ok(seen.violations.is_empty())
    }
}

/// Beginning of a text, escaped for terminals.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars().filter(|char| *char != '\r').take(CHARS_MAX) {
        match char {
            '\n' | '"' | '\'' => shown.push(char),
            _ => shown.extend(char.escape_debug()),
        }
    }
    shown
}
