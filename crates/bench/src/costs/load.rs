//! Prepared requests over some connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use super::connection::Endpoint;

/// Body of an answer.
pub(super) type Answered = Vec<u8>;

/// Sends all requests, as fast as answers arrive. Each must have this status. Returns the bodies in the order of the
/// requests.
pub(super) async fn run_all(
    endpoint: &Endpoint,
    requests: Vec<Vec<u8>>,
    connections: u32,
    status: u16,
) -> anyhow::Result<Vec<Answered>> {
    run_mixed(endpoint, requests, connections, &[status]).await
}

/// As [`run_all`]; the statuses belong to the requests in turn.
pub(super) async fn run_mixed(
    endpoint: &Endpoint,
    requests: Vec<Vec<u8>>,
    connections: u32,
    statuses: &[u16],
) -> anyhow::Result<Vec<Answered>> {
    let (next, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(requests));
    let statuses: Arc<[u16]> = statuses.into();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (endpoint, next) = (endpoint.clone(), Arc::clone(&next));
        let (requests, statuses) = (Arc::clone(&requests), Arc::clone(&statuses));
        tasks.spawn(async move {
            let mut connection = endpoint.connect().await?;
            let mut answers = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(at) else {
                    return anyhow::Ok(answers);
                };
                let answer = connection.send(request).await?;
                check(answer.status, statuses[at % statuses.len()], &answer.body)?;
                answers.push((at, answer.body));
            }
        });
    }
    let mut answers = Vec::with_capacity(requests.len());
    while let Some(task) = tasks.join_next().await {
        answers.extend(task??);
    }
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, body)| body).collect())
}

/// Sends a request on each of some new connections.
pub(super) async fn connect_all(
    endpoint: &Endpoint,
    request: &[u8],
    count: u32,
    at_once: u32,
) -> anyhow::Result<()> {
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request.to_vec()));
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let (endpoint, next, request) = (endpoint.clone(), Arc::clone(&next), Arc::clone(&request));
        tasks.spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < count as usize {
                let answer = endpoint.connect().await?.send(&request).await?;
                check(answer.status, 201, &answer.body)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Sends requests at a rate, and waits until `lasts` is over.
pub(super) async fn run_at_rate(
    endpoint: &Endpoint,
    requests: Vec<Vec<u8>>,
    per_second: u32,
    lasts: Duration,
) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await.context("cannot connect")?;
    let begun = Instant::now();
    for (at, request) in requests.iter().enumerate() {
        let due = begun + Duration::from_secs_f64(at as f64 / f64::from(per_second));
        tokio::time::sleep_until(due.into()).await;
        let answer = connection.send(request).await?;
        check(answer.status, 201, &answer.body)?;
    }
    tokio::time::sleep_until((begun + lasts).into()).await;
    Ok(())
}

fn check(status: u16, expected: u16, body: &[u8]) -> anyhow::Result<()> {
    let body = String::from_utf8_lossy(body);
    ensure!(status == expected, "{status} instead of {expected}: {body}");
    Ok(())
}
