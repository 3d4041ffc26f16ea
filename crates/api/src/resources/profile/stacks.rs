//! Stack samples of this process's threads.

use std::{collections::BTreeMap, time::Duration};

use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report};

use crate::http::problem::ApiProblem;

/// Samples per second of processor time. Not a round number, so that periodic work is neither always sampled nor
/// never.
const SAMPLES_PER_SECOND: i32 = 99;

/// Samples of `seconds`, one line per stack.
pub(super) async fn sample(seconds: u64) -> Result<String, ApiProblem> {
    let guard = start().map_err(|error| ApiProblem::internal(error.to_string()))?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let name = move || guard.report().build().map(|report| fold(&report));
    let text = tokio::task::spawn_blocking(name).await;
    let text = text.map_err(|error| ApiProblem::internal(error.to_string()))?;
    text.map_err(|error| ApiProblem::internal(error.to_string()))
}

/// Starts sampling, until the guard is dropped.
fn start() -> pprof::Result<ProfilerGuard<'static>> {
    // A thread that is stopped inside these may hold a lock that walking its stack would wait for.
    let without = ["libc", "libgcc", "pthread", "vdso"];
    ProfilerGuardBuilder::default()
        .frequency(SAMPLES_PER_SECOND)
        .blocklist(&without)
        .build()
}

fn fold(report: &Report) -> String {
    let mut stacks = BTreeMap::<String, isize>::new();
    for (stack, count) in &report.data {
        let mut line = stack.thread_name.clone();
        // Each frame lists its inlined functions, the innermost first.
        for symbol in stack
            .frames
            .iter()
            .rev()
            .flat_map(|frame| frame.iter().rev())
        {
            line.push(';');
            line.push_str(&symbol.name().replace([';', '\n'], ":"));
        }
        *stacks.entry(line).or_default() += count;
    }
    let lines = stacks
        .iter()
        .map(|(stack, count)| format!("{stack} {count}\n"));
    lines.collect()
}
