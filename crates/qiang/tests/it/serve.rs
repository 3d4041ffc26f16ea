//! `qiang serve`: refusal of wrong arguments, start and end.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::common::{call, output, packet, qiang, read_to_end};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn asked_wrongly_it_says_what_to_do_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(32);
    let check = |args: &[&str], env: &[(&str, &str)], expected: &str| {
        let output = output(folder.path(), args, env);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?} {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains(&long), "{stderr}");
    };
    let key = ("QIANG__AUTH__HS256_SECRET", long.as_str());
    check(&["serve"], &[], "auth.hs256_secret_file");
    check(
        &["serve"],
        &[("QIANG__AUTH__HS256_SECRET", "short")],
        "at least 32 bytes",
    );
    check(
        &["serve"],
        &[key, ("QIANG__AUTH__PUBLIC_KEY_FILE", "k.pem")],
        "only one of",
    );
    check(
        &["serve", "--dev", "--listen", "0.0.0.0:0"],
        &[],
        "loopback",
    );
    check(
        &["serve"],
        &[key, ("QIANG__SERVER__LISTEM", "127.0.0.1:0")],
        "listem",
    );
    check(
        &["serve", "--config", "missing.toml"],
        &[key],
        "missing.toml",
    );
    check(&["serve", "--listen", "here"], &[key], "listen");
    check(&["token", "--sub", "ann"], &[], "--secret-file");
    check(
        &["token", "--sub", "a b", "--secret-file", "x"],
        &[],
        "--sub",
    );
    check(
        &[
            "token",
            "--sub",
            "ann",
            "--scope",
            "all",
            "--secret-file",
            "x",
        ],
        &[],
        "`all`",
    );
    assert!(
        !folder.path().join("qiang.db").exists(),
        "a refused start left a file behind"
    );
    let printed = output(folder.path(), &["serve", "--print-config"], &[]);
    assert_eq!(printed.stdout, qiang::config::DEFAULTS.as_bytes());
}

/// A started program, killed if the test fails.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the program on a free port without its sample shop, and reads the port and the token from its output.
pub(crate) fn start_dev(folder: &Path) -> (Process, std::net::SocketAddr, String) {
    start_dev_with(folder, &["--empty"])
}

/// The same with further flags.
pub(crate) fn start_dev_with(
    folder: &Path,
    more: &[&str],
) -> (Process, std::net::SocketAddr, String) {
    let args = [&["serve", "--dev", "--listen", "127.0.0.1:0"], more].concat();
    let mut child = qiang(folder, &args, &[])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let process = Process(child);
    let (mut addr, mut token) = (None, None);
    for line in lines.map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("serves on http://") {
            addr = rest.split(' ').next().unwrap().parse().ok();
        }
        if let Some(rest) = line.strip_prefix("TOKEN=") {
            token = Some(rest.to_owned());
            break;
        }
    }
    (process, addr.unwrap(), token.unwrap())
}

pub(crate) fn terminate(process: &Process) {
    let status = Command::new("kill")
        .args(["-TERM", &process.0.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn claims_in_flight_are_answered_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, addr, token) = start_dev(folder.path());
    let token = token.as_str();
    let sale = crate::common::sale(10);
    let id = call(addr, "POST", "/v1/sales", Some(token), &[], Some(sale))
        .await
        .text("id");
    // Ten claims with incomplete bodies, and a connection without a request.
    let mut claims = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let head = format!(
            "POST /v1/sales/{id}/orders HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 15\r\n\r\n{{\"quantity\""
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        claims.push(stream);
    }
    let mut idle = TcpStream::connect(addr).await.unwrap();
    idle.write_all(HEALTH).await.unwrap();
    let mut buf = [0; 1_024];
    assert!(idle.read(&mut buf).await.unwrap() > 0);
    tokio::time::sleep(Duration::from_millis(100)).await;
    terminate(&process);
    assert!(
        read_to_end(&mut idle, Duration::from_secs(5)).await.1,
        "the idle connection stayed open"
    );
    assert!(TcpStream::connect(addr).await.is_err(), "still accepting");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let mut statuses = Vec::new();
    for mut stream in claims {
        stream.write_all(b": 1}").await.unwrap();
        let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(10)).await;
        assert!(closed);
        statuses.push(answer.split(' ').nth(1).unwrap_or("none").to_owned());
    }
    statuses.sort();
    let mut expected = vec!["200".to_owned(); 9]; // one user: one order, and nine replays
    expected.push("201".to_owned());
    assert_eq!(statuses, expected);
    let code = tokio::task::spawn_blocking(move || process.0.wait().unwrap().code())
        .await
        .unwrap();
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, addr, token) = start_dev(folder.path());
    let deposit = crate::common::deposit(1_000);
    call(
        addr,
        "POST",
        "/v1/accounts/alice/deposits",
        Some(&token),
        &[],
        Some(deposit),
    )
    .await;
    let id = call(
        addr,
        "POST",
        "/v1/red-packets",
        Some(&token),
        &[],
        Some(packet(1_000, 5)),
    )
    .await
    .text("id");
    let path = format!("/v1/red-packets/{id}/claims");
    let granted = call(addr, "POST", &path, Some(&token), &[], None).await;
    assert_eq!(granted.status, 201);
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let (_process, addr, token) = start_dev(folder.path());
    let replayed = call(addr, "POST", &path, Some(&token), &[], None).await;
    assert_eq!((replayed.status, replayed.body), (200, granted.body));
}
