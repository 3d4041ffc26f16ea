//! Operators' view of a node on the embedded engine, and their actions: partitions, quarantine, audits.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::node::http::common::{Reply, Service, call, cursor};
use qiang_core::ports::{AuditReport, Auditor};
use serde_json::{Value, json};

const WAIT_MAX: Duration = Duration::from_secs(30);
/// Offset that hides a share: it is added to the share's number.
const HIDE: &str = "UPDATE shares SET number = number + 1000 WHERE number = 2";
pub(super) const MEND: &str = "UPDATE shares SET number = number - 1000 WHERE number > 1000";

/// Polls a path until its answer fits.
async fn until(service: &Service, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let reply = service.get(path, &service.operator()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let body = reply.json();
        if is(&body) {
            return body;
        }
        assert!(began.elapsed() < WAIT_MAX, "{path}: {body}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Changes rows of the file by SQL.
pub(super) fn change(service: &Service, sql: &str, rows: usize) {
    let conn = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    conn.busy_timeout(WAIT_MAX).unwrap();
    assert_eq!(conn.execute(sql, []).unwrap(), rows, "{sql}");
}

async fn claim_all(service: &Service, packet: &str, shares: u32) {
    for n in 0..shares {
        let token = service.token(&format!("u{n}"), "claim");
        let path = format!("/v1/red-packets/{packet}/claims");
        assert_eq!(service.act(&path, &token).await.status, 201);
    }
}

/// A packet with an entry in quarantine: the ledger cannot find the second share when it is granted. Returns the entry.
pub(super) async fn refused_grant(service: &Service) -> String {
    let packet = service.red_packet(3, |_| ()).await;
    change(service, HIDE, 1);
    claim_all(service, &packet, 2).await;
    let quarantine = until(service, "/v1/quarantine", |it| it["data"] != json!([]));
    quarantine.await["data"][0]["entry"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// An audit from its start to its end.
async fn audit(service: &Service) -> Value {
    let begun = service.act("/v1/audits", &service.operator()).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let path = begun.header("location").to_owned();
    assert_eq!(path, format!("/v1/audits/{}", begun.text("id")));
    until(service, &path, |it| it["status"] != "running").await
}

/// Actions on the service, oldest first: actor, kind and detail.
pub(super) async fn done(service: &Service) -> Vec<(String, String, Value)> {
    let path = "/v1/operation-log?subject=the%20service";
    let body = service.get(path, &service.operator()).await.json();
    let actions = body["data"].as_array().unwrap().iter();
    let text = |action: &Value, field: &str| action[field].as_str().unwrap().to_owned();
    let action = |it: &Value| (text(it, "actor"), text(it, "action"), it["detail"].clone());
    actions.map(action).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partition_of_an_embedded_engine_is_shown_and_has_nothing_to_repair() {
    let service = Service::start().await;
    let packet = service.red_packet(3, |_| ()).await;
    claim_all(&service, &packet, 3).await;
    let is_settled = |body: &Value| body["settlement_lag"] == 0;
    let all = until(&service, "/v1/partitions", is_settled).await;
    assert_eq!(all["repairable"], false);
    let partition = &all["partitions"][0];
    let expected = json!({
        "partition": 0, "status": "ready", "settlement_lag": 0, "refused": 0, "waiting": 0,
    });
    assert_eq!(partition, &expected);
    let one = service
        .get("/v1/partitions/0", &service.operator())
        .await
        .json();
    assert!(one["settled"].as_u64().unwrap() >= 4, "{one}");
    assert_eq!((&one["nodes"], &one["repairs"]), (&json!([]), &json!([])));

    for what in ["reconcile", "repair", "resume", "release-withheld"] {
        let path = format!("/v1/partitions/0/{what}");
        let refused = service.act(&path, &service.operator()).await;
        refused.assert_problem(409, "not-for-engine");
    }
    // An action that was not carried out is not recorded.
    assert_eq!(done(&service).await, []);
    for (path, status, kind) in [
        ("/v1/partitions/1", 404, "not-found"),
        ("/v1/partitions/00", 400, "bad-request"),
        ("/v1/partitions/65536", 400, "bad-request"),
        ("/v1/quarantine/0", 400, "bad-request"),
        ("/v1/quarantine/0-1", 404, "not-quarantined"),
        ("/v1/quarantine?after=1", 400, "bad-request"),
        ("/v1/quarantine?limit=0", 400, "bad-request"),
        ("/v1/audits/1", 400, "bad-request"),
        (
            "/v1/audits/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80",
            404,
            "not-found",
        ),
    ] {
        let reply = service.get(path, &service.operator()).await;
        reply.assert_problem(status, kind);
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_quarantine_is_listed_and_settled_once_its_cause_is_gone() {
    let service = Service::start().await;
    let entry = refused_grant(&service).await;
    let path = format!("/v1/quarantine/{entry}");
    let one = service.get(&path, &service.operator()).await.json();
    assert!(
        one["event"].as_str().unwrap().starts_with("granted 2 u1 "),
        "{one}"
    );
    assert_eq!(
        (&one["partition"], &one["discarding"]),
        (&json!(0), &json!(false))
    );
    assert!(!one["reason"].as_str().unwrap().is_empty(), "{one}");
    // No other entry is in quarantine, not even an earlier one.
    let other = service.get("/v1/quarantine/0-1", &service.operator()).await;
    other.assert_problem(404, "not-quarantined");
    let list = async |query: &str| {
        let path = format!("/v1/quarantine?{query}");
        service.get(&path, &service.operator()).await.json()["data"].clone()
    };
    assert_eq!(list("partition=0&limit=1").await, json!([one]));
    assert_eq!(list("partition=1").await, json!([]));
    assert_eq!(
        list(&format!("after={}", cursor("quarantine", &entry))).await,
        json!([])
    );
    let counted = |it: &Value| it["partitions"][0]["refused"] == 1;
    until(&service, "/v1/partitions", counted).await;

    let redrive = async || -> Reply {
        let path = format!("{path}/redrive");
        service.act(&path, &service.operator()).await
    };
    let keyed = async |key: &str| -> Reply {
        let (path, token) = (format!("{path}/redrive"), service.operator());
        let headers = [("Idempotency-Key", key)];
        call(service.addr, "POST", &path, Some(&token), &headers, None).await
    };
    redrive().await.assert_problem(409, "still-refused");
    keyed("k").await.assert_problem(409, "still-refused");
    assert_eq!(list("").await, json!([one]));
    change(&service, MEND, 1);
    // A retry of a refused request settles nothing later.
    keyed("k").await.assert_problem(409, "still-refused");
    assert_eq!(list("").await, json!([one]));
    let redriven = keyed("l").await;
    assert_eq!(
        (redriven.status, redriven.json()),
        (200, json!({ "entry": entry, "settled": true }))
    );
    let again = keyed("l").await;
    assert_eq!((again.status, again.json()), (200, redriven.json()));
    redrive().await.assert_problem(404, "not-quarantined");
    keyed("m").await.assert_problem(404, "not-quarantined");
    assert_eq!(list("").await, json!([]));
    assert!(service.balance("u1").await > 0);
    // The successful attempt is recorded with its actor.
    let tried = (
        "olga".to_owned(),
        "redrive".to_owned(),
        json!({ "entry": entry }),
    );
    assert_eq!(done(&service).await, [tried]);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_names_the_rows_that_offend() {
    let service = Service::start().await;
    let sound = audit(&service).await;
    assert_eq!(sound["status"], "ok", "{sound:#}");
    let checks = sound["report"]["checks"].as_array().unwrap();
    assert!(checks.len() > 40 && checks.iter().all(|it| it["offending"] == json!([])));
    refused_grant(&service).await;
    let broken = audit(&service).await;
    assert_eq!(
        (
            &broken["status"],
            &broken["actor"],
            &broken["report"]["refused"]
        ),
        (&json!("broken"), &json!("olga"), &json!(1)),
        "{broken:#}"
    );
    let check = |name: &str| {
        let checks = broken["report"]["checks"].as_array().unwrap().iter();
        checks
            .clone()
            .find(|it| it["name"] == name)
            .unwrap()
            .clone()
    };
    let aside = check("nothing_aside");
    assert_eq!(
        (&aside["ok"], &aside["offending_total"]),
        (&json!(false), &json!(1))
    );
    assert!(
        aside["offending"][0]
            .as_str()
            .unwrap()
            .contains("granted 2"),
        "{aside}"
    );
    // The newest is first. A list has no reports.
    let all = service.get("/v1/audits", &service.operator()).await.json();
    let statuses: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["status"])
        .collect();
    assert_eq!(statuses, ["broken", "ok"]);
    assert_eq!(all["data"][0]["report"], Value::Null);
    let audits = done(&service)
        .await
        .into_iter()
        .map(|(who, what, _)| (who, what));
    assert_eq!(
        audits.collect::<Vec<_>>(),
        vec![("olga".to_owned(), "audit".to_owned()); 2]
    );

    // The node keeps eight audits.
    for _ in 0..8 {
        audit(&service).await;
    }
    let all = service.get("/v1/audits", &service.operator()).await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 8);
    service.stop().await;
}

/// Number of POSIX locks that this process has on the file. A descriptor that SQLite does not own would release them
/// when it is closed.
fn locks(service: &Service) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let file = fs::metadata(service.folder.path().join("qiang.db")).unwrap();
    let inode = format!(":{} ", file.ino());
    let pid = format!(" {} ", std::process::id());
    let all = fs::read_to_string("/proc/locks").unwrap();
    let own = all
        .lines()
        .filter(|line| line.contains(&inode) && line.contains(&pid));
    own.filter(|line| line.contains("POSIX")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_takes_nothing_from_the_running_engine() {
    let service = Service::start().await;
    let sale = service.sale(1_000, |_| ()).await;
    let path = format!("/v1/sales/{sale}/orders");
    let order = async |n: u32| {
        let reply = service
            .act(&path, &service.token(&format!("u{n}"), "claim"))
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    };
    order(0).await;
    let before = locks(&service);
    assert!(before > 0, "the engine holds a lock on its file");
    // Orders continue while audits run, and each audit sees one moment.
    let auditing = async {
        for _ in 0..5 {
            let audited = audit(&service).await;
            assert_eq!(audited["status"], "ok", "{audited:#}");
        }
    };
    let ordering = async {
        for n in 1..300 {
            order(n).await;
        }
    };
    tokio::join!(auditing, ordering);
    assert_eq!(locks(&service), before);
    let state = format!("/v1/campaigns/{sale}/state");
    let state = service.get(&state, &service.operator()).await.json();
    assert_eq!(state["granted"], 300);
    // The close is not affected by the readers: the file has all data.
    let service = service.restart().await;
    assert_eq!(audit(&service).await["status"], "ok");
    service.stop().await;
}

/// An audit that ends as the test says.
struct Scripted(tokio::sync::Mutex<tokio::sync::mpsc::Receiver<&'static str>>);

#[async_trait::async_trait]
impl Auditor for Scripted {
    async fn audit(&self) -> Result<AuditReport, String> {
        match self.0.lock().await.recv().await {
            Some("panic") => panic!("the test says so"),
            end => Err(end.unwrap_or_default().to_owned()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_audit_runs_at_a_time_and_says_how_it_failed() {
    let (end, ends) = tokio::sync::mpsc::channel(1);
    let service = Service::start_with(|_, backend| {
        backend.ports.auditor = Some(Arc::new(Scripted(ends.into())));
    })
    .await;
    let start = async |user: &str| {
        let token = service.token(user, "admin");
        service.act("/v1/audits", &token).await
    };
    for (told, error) in [
        ("the disk is gone", "the disk is gone"),
        ("panic", "the audit has panicked"),
    ] {
        let first = start("olga").await;
        let again = start("otto").await;
        assert_eq!((first.status, again.status), (201, 200));
        // A second request gets the running audit, with its actor.
        assert_eq!(first.json(), again.json());
        assert_eq!(again.text("status"), "running");
        assert_eq!(again.text("actor"), "olga");
        end.send(told).await.unwrap();
        let path = format!("/v1/audits/{}", first.text("id"));
        let ended = until(&service, &path, |it| it["status"] != "running").await;
        assert_eq!(
            (&ended["status"], &ended["error"]),
            (&json!("failed"), &json!(error))
        );
    }
    assert_eq!(done(&service).await.len(), 2);
    service.stop().await;
    let service = Service::start_with(|_, backend| backend.ports.auditor = None).await;
    let refused = service.act("/v1/audits", &service.operator()).await;
    refused.assert_problem(409, "not-for-engine");
    service.stop().await;
}
