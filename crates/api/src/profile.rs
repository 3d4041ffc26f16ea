//! A profile of the process: where its processor time goes, by samples of its threads' stacks.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::{
    extract::Params,
    problem::{Problem, ProblemKind},
};

/// Samples a second of processor time. Not a round number: what runs by a timer would always be met, or never.
const SAMPLES_PER_SECOND: i32 = 99;
const SECONDS: u64 = 10;
const SECONDS_MAX: u64 = 60;
/// Sampling, and naming what was found.
pub(crate) const TAKES_MS_MAX: u64 = (SECONDS_MAX + 30) * 1_000;

/// A process has one timer for samples.
static TURN: Semaphore = Semaphore::const_new(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileQuery {
    seconds: Option<u64>,
}

/// Samples the process for `seconds` (1 up to 60; 10 unless given). A line for each stack: the thread and the
/// functions from the outermost on with `;` between, a blank, and how often it was met.
pub(crate) async fn take(Params(query): Params<ProfileQuery>) -> Result<Response, Problem> {
    let seconds = query.seconds.unwrap_or(SECONDS);
    if !(1..=SECONDS_MAX).contains(&seconds) {
        let detail = format!("`seconds` is 1 up to {SECONDS_MAX}");
        return Err(Problem::new(ProblemKind::BadRequest, detail));
    }
    let Ok(_turn) = TURN.try_acquire() else {
        let detail = "another profile is being taken";
        return Err(Problem::new(ProblemKind::Overloaded, detail));
    };
    let guard = start().map_err(|error| Problem::internal(error.to_string()))?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let name = move || guard.report().build().map(|report| fold(&report));
    let text = tokio::task::spawn_blocking(name).await;
    let text = text.map_err(|error| Problem::internal(error.to_string()))?;
    let text = text.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// Samples from here on until the guard is dropped.
fn start() -> pprof::Result<ProfilerGuard<'static>> {
    // A thread that is stopped within these may hold a lock that walking its stack would wait for.
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
        // Each frame lists what was inlined into it, the innermost first.
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
