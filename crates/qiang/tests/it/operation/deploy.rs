//! Files of `deploy/` for operators: valid configurations, units that systemd accepts and rates safe, and nginx in
//! front of a node. Alarms are tested where their series are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::common::{SECRET, call, output, read_to_end, sale};
use crate::node::http::nginx::started as nginx;
use crate::operation::{
    maintenance::Ended,
    program::{Program, token},
};

/// Largest exposure that `systemd-analyze security` may report, in tenths: from 0 (none) to 100.
const EXPOSURE_MAX: &str = "--threshold=13";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Files of a folder with this suffix.
fn files(folder: &str, ending: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(deploy().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect()
}

#[test]
fn each_example_of_a_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    // Variables as in the environment file of the unit and in the compose file.
    let env = [
        ("QIANG__AUTH__HS256_SECRET_FILE", "secret"),
        ("QIANG__REDIS__PASSWORD", "secret"),
    ];
    let examples = files("examples", "toml");
    assert_eq!(examples.len(), 4);
    for example in examples.union(&files("compose", "toml")) {
        let path = example.to_str().unwrap();
        let check = ["config", "check", "--config", path];
        Ended::of(output(folder.path(), &check, &env)).did("the configuration is valid");
    }
}

/// The number after the last of these words in a text, if they are there.
fn number_after(text: &str, words: &str) -> Option<u32> {
    let (_, rest) = text.rsplit_once(words)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().unwrap())
}

/// A failover uses one replica. The rest must suffice for `redis.replicas`.
#[test]
fn one_failover_stops_grants_in_no_example() {
    let mut checked = 0;
    for example in files("examples", "toml").union(&files("compose", "toml")) {
        let text = fs::read_to_string(example).unwrap();
        if !text.contains("[redis]") {
            continue;
        }
        let waited_for = number_after(&text, "\nreplicas = ").unwrap_or(0);
        let there = number_after(&text, "# Replicas of each primary: ").unwrap_or(0);
        let left = there.saturating_sub(1);
        assert!(
            waited_for <= left,
            "{}: of {there} replicas {left} are left, {waited_for} are asked for",
            example.display()
        );
        checked += 1;
    }
    assert!(checked >= 3);
}

#[test]
fn systemd_takes_the_units_and_finds_them_safe() {
    let folder = tempfile::tempdir().unwrap();
    for unit in files("systemd", "service") {
        let text = fs::read_to_string(&unit).unwrap();
        // Replaces the path of the program and the account with existing ones.
        let program = env!("CARGO_BIN_EXE_qiang");
        let text = text.replace("/usr/local/bin/qiang", program);
        let text = text.replace("User=qiang", "User=daemon");
        let text = text.replace("Group=qiang", "Group=daemon");
        let start = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words: Vec<&str> = start.unwrap().split(' ').skip(1).collect();
        let help = [&words[..], &["--help"]].concat();
        Ended::of(output(folder.path(), &help, &[])).did("--config");

        let copy = folder.path().join(unit.file_name().unwrap());
        fs::write(&copy, text).unwrap();
        for judge in [
            &["verify"][..],
            &["security", "--offline=true", EXPOSURE_MAX],
        ] {
            let mut ran = Command::new("systemd-analyze");
            let ran = Ended::of(ran.args(judge).arg(&copy).output().unwrap());
            ran.did("");
            assert_eq!(ran.said, "", "{judge:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_lets_pages_and_the_api_through_and_nothing_of_operators() {
    let folder = tempfile::tempdir().unwrap();
    let node = Program::serve(folder.path(), &[]);
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(5))).await.text("id");
    let to = node.addr().await;
    let nginx = tokio::task::block_in_place(|| nginx::Nginx::start(None, to)).unwrap();
    let ann = token("ann");
    let ask = async |method: &str, path: &str| {
        call(nginx.addr, method, path, Some(&ann), &[], None).await
    };
    for page in ["/", "/sign-in", &format!("/s/{id}"), nginx::PAGE] {
        let reply = ask("GET", page).await;
        assert!([200, 303].contains(&reply.status), "{page}: {reply:?}");
    }
    // A site's own page and assets come from the folder. Assets of a node's page come from the node.
    let own = ask("GET", nginx::ASSET).await;
    assert!(own.header("cache-control").contains("immutable"));
    let home = ask("GET", "/sign-in").await;
    let home = String::from_utf8(home.body.to_vec()).unwrap();
    let asset = home.split('"').find(|text| text.starts_with("/assets/"));
    assert_eq!(ask("GET", asset.unwrap()).await.status, 200);

    let path = format!("/v1/sales/{id}/orders");
    assert_eq!(ask("POST", &path).await.status, 201);
    for hidden in [
        "/docs",
        "/docs/",
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/metrics",
        "/debug/pprof/profile",
    ] {
        assert_eq!(ask("GET", hidden).await.status, 404, "{hidden}");
    }
    // Events arrive at once: nginx does not buffer them.
    let mut stream = TcpStream::connect(nginx.addr).await.unwrap();
    let head = format!(
        "GET /v1/campaigns/{id}/events HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {ann}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (came, is_over) = read_to_end(&mut stream, Duration::from_secs(3)).await;
    assert!(came.contains("\ndata:") && !is_over, "{came}");

    // Without a node, a claim gets a problem that names the remedy, and not a page of nginx.
    drop(node);
    let lost = ask("POST", &path).await;
    assert_eq!(lost.status, 503, "{lost:?}");
    assert_eq!(lost.header("content-type"), "application/problem+json");
    assert_eq!(lost.header("retry-after"), "1");
    assert_eq!(lost.text("type"), "/problems/uncertain");
}
