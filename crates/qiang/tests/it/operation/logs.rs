//! A node whose log is not read.

use std::{
    io::Read as _,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use qiang_testkit::servers::Port;
use serde_json::Value;
use tokio::time::timeout;

use super::program::{PATIENCE, token, until};
use crate::common::{SECRET, call, sale};

/// Number of requests: their log lines more than fill a pipe.
const REQUESTS: u32 = 400;
/// Capacity of a pipe on Linux.
const PIPE_BYTES: usize = 64 << 10;
/// Bound of an answer, which takes milliseconds. A request that waits for the log would never be answered.
const ANSWER_MAX: Duration = Duration::from_secs(10);

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The log collector stops reading: the pipe is full, and users are still served. The lines are written when the
/// collector reads again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_holds_up_no_user() {
    let folder = tempfile::tempdir().unwrap();
    let port = Port::free();
    let addr = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
    command
        .current_dir(folder.path())
        .args(["serve", "--listen", &addr.to_string()])
        .env_clear()
        .envs(qiang_testkit::NO_LIMITS)
        .env("QIANG__AUTH__HS256_SECRET", SECRET)
        .env("QIANG__LOG__FORMAT", "json")
        .env("QIANG__LOG__LEVEL", "trace")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    drop(port);
    let mut process = Killed(command.spawn().unwrap());
    until("it is not up", async || {
        tokio::net::TcpStream::connect(addr).await.ok()
    })
    .await;
    let token = token("olga");
    let ask = async |method, path: &str, body: Option<Value>| {
        let asked = call(addr, method, path, Some(&token), &[], body);
        timeout(ANSWER_MAX, asked).await.expect("an answer")
    };
    let id = ask("POST", "/v1/sales", Some(sale(10))).await.text("id");
    let orders = format!("/v1/sales/{id}/orders");
    for _ in 0..REQUESTS {
        assert!(ask("POST", &orders, None).await.status < 300);
    }
    // All lines are read at the end. They exceed the capacity of a pipe.
    let mut unread = process.0.stderr.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; 2 * PIPE_BYTES];
        unread.read_exact(&mut bytes).map(|()| bytes)
    });
    let bytes = timeout(PATIENCE, reading).await.unwrap().unwrap().unwrap();
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap();
    assert!(serde_json::from_slice::<Value>(line).is_ok());
}
