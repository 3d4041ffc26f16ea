//! The connector of the page about message brokers, with a file as its sink.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::common::{Service, call};

const PAGE: &str = include_str!("../../../../../docs/integrate/outbox.md");

/// The program of the page.
fn connector() -> &'static str {
    let (_, rest) = PAGE.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs the connector until there is no further event.
fn connect(service: &Service, folder: &Path, sink: &str) -> Output {
    let mut python = Command::new("python3");
    python
        .args(["-c", connector()])
        .current_dir(folder)
        .env("QIANG_URL", format!("http://{}", service.addr))
        .env("QIANG_TOKEN", service.token("connector", "read:any"))
        .env("SINK", sink)
        .env("ONCE", "1");
    python.output().unwrap()
}

/// Runs it, and returns the users of the events in the sink.
#[track_caller]
fn users(service: &Service, folder: &Path) -> Vec<String> {
    let ran = connect(service, folder, "sink.jsonl");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let sink = fs::read_to_string(folder.join("sink.jsonl")).unwrap();
    let events = sink
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    // Events of the sale itself have no user.
    events
        .filter_map(|event| event["data"]["user"].as_str().map(str::to_owned))
        .collect()
}

/// Orders of these users, settled.
async fn buy(service: &Service, sale: &str, users: &[&str]) {
    for user in users {
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &service.token(user, "claim")).await;
        assert_eq!(order.status, 201, "{order:?}");
    }
    let (path, token) = (format!("/v1/accounts/{}", users[0]), service.operator());
    loop {
        let account = call(service.addr, "GET", &path, Some(&token), &[], None).await;
        if account.json()["settled"] == true {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connector_repeats_events_after_a_crash_and_skips_none() {
    let service = Service::start_with(|config, _| config.webhooks.allow_private = true).await;
    let folder = tempfile::tempdir().unwrap();
    // Events are recorded for an endpoint, whether it answers or not.
    let webhook = json!({ "url": "http://127.0.0.1:9/", "types": ["order.held"] });
    let made = service
        .post("/v1/webhooks", &service.operator(), webhook)
        .await;
    assert_eq!(made.status, 201, "{made:?}");

    // Nothing has happened: no cursor is stored, and the next run begins at the first event.
    assert!(
        connect(&service, folder.path(), "sink.jsonl")
            .status
            .success()
    );
    let sale = service.sale(100, |_| ()).await;
    buy(&service, &sale, &["ann", "bob"]).await;
    assert_eq!(users(&service, folder.path()), ["ann", "bob"]);
    assert_eq!(
        users(&service, folder.path()),
        ["ann", "bob"],
        "nothing is sent twice"
    );
    let cursor = folder.path().join("events.cursor");
    let before = fs::read_to_string(&cursor).unwrap();
    buy(&service, &sale, &["carl"]).await;
    assert_eq!(users(&service, folder.path()), ["ann", "bob", "carl"]);

    // A crash after the sink and before the cursor: the events come again, with their ids.
    fs::write(&cursor, &before).unwrap();
    assert_eq!(
        users(&service, folder.path()),
        ["ann", "bob", "carl", "carl"]
    );
    let sink = fs::read_to_string(folder.path().join("sink.jsonl")).unwrap();
    let ids: Vec<_> = sink
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    // The first event is the opening of the sale.
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[3], ids[4]);

    // A sink that fails ends the connector, and the cursor stays.
    let stored = fs::read_to_string(&cursor).unwrap();
    buy(&service, &sale, &["dora"]).await;
    let ran = connect(&service, folder.path(), "no/such/folder/sink");
    assert!(!ran.status.success());
    assert_eq!(fs::read_to_string(&cursor).unwrap(), stored);
    let all = ["ann", "bob", "carl", "carl", "dora"];
    assert_eq!(users(&service, folder.path()), all);
    service.stop().await;
}
