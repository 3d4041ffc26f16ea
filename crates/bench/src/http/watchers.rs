//! Browsers that watch a campaign, as far as a service notices them: streams of its events.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

/// How long all of them may take to be there.
const START_MAX: Duration = Duration::from_secs(10);

/// Those who watch one campaign, until this is dropped.
pub(super) struct Watchers {
    streams: JoinSet<()>,
    bytes: Arc<AtomicU64>,
}

impl Watchers {
    /// Lets `count` watch a campaign with its draws. All have the first answer when this returns.
    pub(super) async fn start(
        addr: SocketAddr,
        campaign: &str,
        bearer: &HeaderValue,
        count: u32,
    ) -> anyhow::Result<Self> {
        let bytes = Arc::new(AtomicU64::new(0));
        let mut streams = JoinSet::new();
        let bearer = bearer.to_str()?;
        let request = format!(
            "GET /v1/campaigns/{campaign}/events HTTP/1.1\r\nHost: {addr}\r\nAuthorization: {bearer}\r\n\
             Accept: text/event-stream\r\n\r\n"
        );
        for _ in 0..count {
            let mut stream = TcpStream::connect(addr).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut buffer = vec![0; 16_384];
            let read = timeout(START_MAX, stream.read(&mut buffer)).await;
            let read = read.context("a stream did not begin in time")??;
            let is_there = buffer[..read].starts_with(b"HTTP/1.1 200");
            let answer = String::from_utf8_lossy(&buffer[..read]);
            ensure!(is_there, "a stream was refused: {answer}");
            let bytes = Arc::clone(&bytes);
            streams.spawn(async move {
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    bytes.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
        }
        Ok(Self { streams, bytes })
    }

    /// Goes away. Returns how many bytes all of them were sent.
    pub(super) async fn stop(mut self) -> u64 {
        self.streams.shutdown().await;
        self.bytes.load(Ordering::Relaxed)
    }
}
