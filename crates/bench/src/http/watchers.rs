//! Watchers of a campaign: event streams as browsers open them. They run in a separate process, so that their own cost
//! is measured separately from the cost for the service.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use crate::process::cpu_seconds;

/// Time limit for opening all streams.
const START_MAX: Duration = Duration::from_secs(10);

/// Watch a campaign until standard input ends. Its first line is the header `Authorization`.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchersArgs {
    addr: SocketAddr,
    campaign: String,
    count: u32,
}

/// Results of the watchers: received data and processor time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Told {
    seconds: f64,
    bytes: u64,
    /// Number of reads, about the number of events.
    reads: u64,
    pub(crate) cpu_seconds: f64,
}

impl Told {
    pub(crate) fn reads_per_second(&self) -> f64 {
        self.reads as f64 / self.seconds
    }

    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// Process of the watchers of one campaign. It ends when its input ends, so at the latest with this process.
pub(crate) struct Watchers {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Watchers {
    /// Starts `count` watchers of a campaign with its shares. Waits until all have their first answer.
    pub(crate) async fn start(
        addr: SocketAddr,
        campaign: &str,
        bearer: &HeaderValue,
        count: u32,
    ) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("watchers")
            .args([&addr.to_string(), campaign, &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = process
            .stdin
            .take()
            .context("the watchers have no standard input")?;
        let mut output = BufReader::new(
            process
                .stdout
                .take()
                .context("the watchers have no standard output")?,
        );
        let bearer = bearer.to_str()?.to_owned();
        spawn_blocking(move || {
            writeln!(input, "{bearer}")?;
            let mut line = String::new();
            output.read_line(&mut line)?;
            ensure!(line == "ready\n", "the watchers did not start");
            Ok(Self {
                process,
                input,
                output,
            })
        })
        .await?
    }

    /// Ends the process, and returns its results.
    pub(crate) async fn stop(self) -> anyhow::Result<Told> {
        let Self {
            mut process,
            input,
            mut output,
        } = self;
        spawn_blocking(move || {
            drop(input);
            let mut line = String::new();
            output.read_line(&mut line)?;
            process.wait()?;
            serde_json::from_str(&line).context("cannot parse the output of the watchers")
        })
        .await?
    }
}

/// Main function of the watchers' process.
pub(crate) async fn watch(args: &WatchersArgs) -> anyhow::Result<bool> {
    let bearer = spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let (bearer, addr) = (bearer.await??, args.addr);
    let request = format!(
        "GET /v1/campaigns/{}/events HTTP/1.1\r\nHost: {addr}\r\nAuthorization: {}\r\n\
         Accept: text/event-stream\r\n\r\n",
        args.campaign,
        bearer.trim()
    );
    let (bytes, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut streams = JoinSet::new();
    for _ in 0..args.count {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = vec![0; 16_384];
        let read = timeout(START_MAX, stream.read(&mut buffer)).await;
        let read = read.context("a stream did not start in time")??;
        let is_there = buffer[..read].starts_with(b"HTTP/1.1 200");
        let answer = String::from_utf8_lossy(&buffer[..read]);
        ensure!(is_there, "a stream was refused: {answer}");
        let (bytes, reads) = (Arc::clone(&bytes), Arc::clone(&reads));
        streams.spawn(async move {
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                bytes.fetch_add(read as u64, Ordering::Relaxed);
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (begun, cpu_before) = (Instant::now(), cpu_seconds()?);
    println!("ready");
    spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    let told = Told {
        seconds: begun.elapsed().as_secs_f64(),
        bytes: bytes.load(Ordering::Relaxed),
        reads: reads.load(Ordering::Relaxed),
        cpu_seconds: cpu_seconds()? - cpu_before,
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(true)
}
