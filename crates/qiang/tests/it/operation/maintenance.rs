//! Commands of operators on partitions. A command creates no missing files and reports its changes. Its exit code shows
//! whether work is left.

use std::{fs, path::Path, process::Output, sync::Arc};

use qiang_core::ports::{Action, ActionStore as _, THE_SERVICE};
use qiang_embedded::{SqliteLedger, SystemClock};
use qiang_testkit::servers::redis::Reply;
use serde_json::{Value, json};

use crate::common::{output, sale};
use crate::operation::program::{Program, redis, until};

/// Exit code and output of a command.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) printed: String,
    pub(crate) said: String,
}

/// Runs a command on [`redis`], with this key prefix.
pub(crate) fn maintain(folder: &Path, prefix: &str, args: &[&str]) -> Ended {
    let url = redis().url();
    let env = [
        ("QIANG__ENGINE__KIND", "redis"),
        ("QIANG__REDIS__URLS", &url),
        ("QIANG__REDIS__PREFIX", prefix),
        ("QIANG__REDIS__PARTITIONS", "2"),
    ];
    Ended::of(tokio::task::block_in_place(|| output(folder, args, &env)))
}

impl Ended {
    pub(crate) fn of(ended: Output) -> Self {
        Self {
            code: ended.status.code(),
            printed: String::from_utf8(ended.stdout).unwrap(),
            said: String::from_utf8(ended.stderr).unwrap(),
        }
    }

    /// Expects success and this text in the output.
    pub(crate) fn did(&self, printed: &str) {
        assert_eq!(self.code, Some(0), "{}{}", self.printed, self.said);
        assert!(self.printed.contains(printed), "{}", self.printed);
    }

    pub(crate) fn failed(&self, code: i32, said: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.printed, self.said);
        assert!(self.said.contains(said), "{}", self.said);
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.printed).unwrap()
    }
}

/// Actors, actions and details on a subject, from the operation log of a ledger in a file.
pub(crate) async fn actions(file: &Path, subject: &str) -> Vec<(String, &'static str, Value)> {
    let ledger = SqliteLedger::open(file, Arc::new(SystemClock)).unwrap();
    let actions = ledger.actions(subject, None, 1_000).await.unwrap();
    ledger.close();
    let one = |it: Action| {
        // The operator of nodes uses the API.
        let is_by_api = it.actor.as_str() == "olga";
        assert_eq!(it.request_id.is_empty(), !is_by_api, "{it:?}");
        let detail = serde_json::from_str(&it.detail).unwrap();
        (it.actor.to_string(), it.kind.name(), detail)
    };
    actions.into_iter().map(one).collect()
}

pub(crate) fn call(words: &[&str]) -> Reply {
    tokio::task::block_in_place(|| redis().primary().call(words).unwrap())
}

/// An empty ledger in a file.
async fn make_ledger(folder: &Path, prefix: &str, name: &str) {
    let keys = [("engine.data", name)];
    let mut worker = Program::on_redis(folder, "worker", prefix, &keys);
    worker.ready(200).await;
    worker.signal("-TERM");
    assert_eq!(worker.ended().await, Some(0));
}

/// Runs a node with a sale of 100 units until `orders` orders are settled, and stops it. Returns the sale's id.
pub(crate) async fn served(folder: &Path, prefix: &str, ledger: &str, orders: u32) -> String {
    let mut node = Program::on_redis(folder, "serve", prefix, &[("engine.data", ledger)]);
    node.ready(200).await;
    let mut sale = sale(100);
    // Answered orders are in the ledger, and no hold expires during the test.
    sale["ack"] = json!("ledger");
    sale["hold_seconds"] = json!(3_600);
    let id = node.post("/v1/sales", Some(sale)).await.text("id");
    for n in 0..orders {
        let addr = node.addr().await;
        let token = crate::operation::program::token(&format!("buyer{n}"));
        let path = format!("/v1/sales/{id}/orders");
        let reply = crate::common::call(addr, "POST", &path, Some(&token), &[], None).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let is_empty = || fs::read_dir(folder.path()).unwrap().next().is_none();
    for args in [
        &["partition", "list"][..],
        &["partition", "close", "0"],
        &["reconcile"],
    ] {
        // The default is the embedded engine, with its file in this folder.
        let ended = tokio::task::block_in_place(|| output(folder.path(), args, &[]));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("--engine redis"), "{said}");
        assert!(is_empty());

        let data = [args, &["--data", "missing.db"]].concat();
        maintain(folder.path(), "nothing", &data).failed(1, "there is no ledger in missing.db");
        assert!(is_empty());
    }
    make_ledger(folder.path(), "made-empty", "empty.db").await;
    for args in [&["partition", "list"][..], &["reconcile"]] {
        let args = [args, &["--data", "empty.db"]].concat();
        maintain(folder.path(), "nothing", &args).failed(1, "no partition 0");
        assert!(call(&["KEYS", "nothing:*"]).array().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_repaired_resumed_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "mended";
    let id = served(folder.path(), prefix, "ledger.db", 5).await;
    let key = |partition: u16, rest: &str| format!("{prefix}:{{p{partition:02}}}:{rest}");
    let has = |partition: &u16| {
        let campaign = key(*partition, &format!("c:{id}"));
        call(&["EXISTS", &campaign]).integer() == Some(1)
    };
    let home = (0..2).find(has).unwrap();
    let number = home.to_string();
    let partition = |args: &[&str]| {
        let args = [&["partition"], args, &["--data", "ledger.db"]].concat();
        maintain(folder.path(), prefix, &args)
    };
    partition(&["list"]).did("open");
    partition(&["list", "--json"]).did("{\"partition\":1,\"status\":\"open\"}\n");
    let ended = partition(&["repair", &number]);
    ended.did("nothing is lost");
    // One line of the log has the actor and the action.
    assert_eq!(ended.said.lines().count(), 1, "{}", ended.said);
    for said in ["a change was asked for", "cli:unknown", "\"repair\""] {
        assert!(ended.said.contains(said), "{said}: {}", ended.said);
    }
    partition(&["resume", &number]).did("the partition is not halted");
    partition(&["resume", &number, "--release-withheld"]).did("0 units restocked");
    partition(&["repair", "2"]).failed(2, "there is no partition 2");

    let state = key(home, "partition");
    let halt = |more: &[&str]| {
        call(&["HDEL", &state, "open"]);
        call(&[&["HSET", &state, "halted", "the test says so"][..], more].concat());
    };
    halt(&[]);
    partition(&["list"]).did("the test says so");
    let listed = partition(&["list", "--json"]).printed;
    let halted = listed.lines().nth(home.into()).unwrap();
    let halted: Value = serde_json::from_str(halted).unwrap();
    let expected = json!({ "partition": home, "status": "halted", "reason": "the test says so" });
    assert_eq!(halted, expected);
    // An action that the ledger does not record is not executed.
    let ledger = folder.path().join("ledger.db");
    let by_hand = |sql: &str| {
        let file = rusqlite::Connection::open(&ledger).unwrap();
        file.execute_batch(sql).unwrap();
    };
    let refuse = "BEGIN SELECT RAISE(ABORT, 'actions are refused'); END";
    by_hand(&format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON actions {refuse}"
    ));
    partition(&["resume", &number]).failed(1, "actions are refused");
    partition(&["list"]).did("the test says so");
    by_hand("DROP TRIGGER refuse");
    let repaired = partition(&["repair", &number, "--json"]).json();
    assert_eq!(
        (&repaired["result"], &repaired["restored"]),
        (&json!("whole"), &json!(0))
    );
    let resumed = partition(&["resume", &number, "--json", "--as", "ann"]);
    assert_eq!(resumed.json(), json!({ "resumed": true }));
    partition(&["list"]).did("open");

    // A lost node had answered three claims that the log does not have.
    let seq = call(&["HGET", &state, "seq"]);
    let seq: u64 = seq.text().unwrap().parse().unwrap();
    call(&["HSET", &key(home, "nodes"), "gone", "0 0 0"]);
    let (from, to) = ((seq + 1).to_string(), (seq + 3).to_string());
    halt(&["lost_from", &from, "lost_to", &to]);
    partition(&["repair", &number]).did("3 entries unknown, 3 units withheld");
    partition(&["inspect", &number]).did(&format!("withheld 3 of {id}"));
    let shown = partition(&["inspect", &number, "--json"]).json();
    let (repair, withheld) = (&shown["repairs"][0], &shown["withheld"][0]);
    assert_eq!(
        (&repair["lost"], &repair["unnamed"]),
        (&json!(3), &json!(3)),
        "{shown:#}"
    );
    assert_eq!(
        (&withheld["units"], &withheld["campaign"]),
        (&json!(3), &json!(id)),
        "{shown:#}"
    );
    assert_eq!(shown["status"], "open", "{shown:#}");
    assert!(shown["engine"]["seq"].is_string(), "{shown:#}");
    assert!(repair["at"].as_str().unwrap().ends_with('Z'), "{shown:#}");
    assert!(shown["nodes"].is_array(), "{shown:#}");
    let released = ["resume", &number, "--release-withheld"];
    partition(&released).did("3 units restocked");
    let again = partition(&[&released[..], &["--json"]].concat());
    assert_eq!(again.json(), json!({ "units": 0 }));

    let closed = partition(&["close", &number, "--json", "--as", "ann"]).json();
    assert_eq!(closed, json!({ "campaign": id, "phase": "closed" }));
    let again = partition(&["close", &number]);
    assert!(
        again.code == Some(0) && !again.printed.contains(&id),
        "{}",
        again.printed
    );
    let other = (1 - home).to_string();
    partition(&["close", &other]).did("all campaigns of the partition are closed");

    let here = json!({ "partition": home });
    // A command that found nothing to do is not listed.
    let done = [
        ("ann", "resume"),
        ("cli:unknown", "repair"),
        ("cli:unknown", "release"),
    ];
    let done = done.map(|(actor, kind)| (actor.to_owned(), kind, here.clone()));
    assert_eq!(actions(&ledger, THE_SERVICE).await, done);
    // The operator of the node created the sale.
    let of_sale = actions(&ledger, &id).await;
    let closed = ("ann".to_owned(), "close", here);
    assert_eq!(
        (of_sale.len(), of_sale.last()),
        (2, Some(&closed)),
        "{of_sale:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_the_ledger_lacks_is_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "lacked";
    // A copy from before the campaign, of the same installation.
    make_ledger(folder.path(), prefix, "restored.db").await;
    let copy = ["restored.db", "ledger.db"].map(|name| folder.path().join(name));
    std::fs::copy(&copy[0], &copy[1]).unwrap();
    let id = served(folder.path(), prefix, "ledger.db", 5).await;
    let reconcile = |ledger: &str, args: &[&str]| {
        let args = [&["reconcile", "--data", ledger], args].concat();
        maintain(folder.path(), prefix, &args)
    };
    reconcile("ledger.db", &[]).did("0 differences, 0 in flight");
    reconcile("ledger.db", &["--campaign", &id]).did("0 differences, 0 in flight");
    let unknown = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let said = format!("campaign {unknown} does not exist");
    reconcile("ledger.db", &["--campaign", unknown]).failed(2, &said);
    // Partitions are united as a whole.
    reconcile("ledger.db", &["--campaign", &id, "--repair"]).failed(2, "--repair");

    for args in [
        &["--json"][..],
        &["--json", "--repair"],
        &["--json", "--campaign", &id],
    ] {
        let ended = reconcile("restored.db", args);
        assert_eq!(ended.code, Some(1), "{}{}", ended.printed, ended.said);
        let found = ended.json();
        let missing = found["missing_in_ledger"].as_array().unwrap();
        assert_eq!(missing.len(), 1, "{found}");
        assert_eq!(missing[0]["campaign"], json!(id));
        assert_eq!(found["repaired"], json!([]));
        let rows = found["differences"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "{found}");
        assert!(rows.iter().all(|row| row["kind"] == "missing_in_ledger"));
    }
    let ended = reconcile("restored.db", &[]);
    let said = format!("the ledger does not have campaign {id}");
    assert!(ended.printed.contains(&said), "{}", ended.printed);
}

/// A move prints what was compared and the next steps. After these, no partition differs from the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_another_redis_names_its_next_steps() {
    let folder = tempfile::tempdir().unwrap();
    let run = |prefix: &str, args: &[&str]| {
        let args = [args, &["--data", "moved.db"]].concat();
        maintain(folder.path(), prefix, &args)
    };
    served(folder.path(), "move-from", "moved.db", 3).await;
    let moved = run("move-to", &["partition", "move", "--as", "ann"]);
    for expected in [
        "ledger moved from move-from@",
        "compared: the ledger has all entries of the old Redis",
        "1. start the nodes and workers",
        "2. wait until `/readyz` of each node says `ready`",
        "3. run `qiang reconcile`",
        "4. keep the old Redis",
    ] {
        moved.did(expected);
    }
    let again = run("move-to", &["partition", "move", "--as", "ann"]);
    again.did("the ledger belongs to this Redis already");

    let keys = [("engine.data", "moved.db")];
    let mut node = Program::on_redis(folder.path(), "serve", "move-to", &keys);
    node.ready(200).await;
    // It answers 200 once one partition is open. The second step waits for all.
    let are_all_open = async || {
        let ready = node.ready(200).await;
        (ready["status"] == "ready").then_some(())
    };
    until("all partitions are open", are_all_open).await;
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    let listed = run("move-to", &["partition", "list"]);
    assert_eq!(
        listed.printed.matches("open").count(),
        2,
        "{}",
        listed.printed
    );
    run("move-to", &["reconcile"]).did("0 differences");
    // Without a look at the Redis that it leaves, the command says so.
    let back = run(
        "move-from",
        &["partition", "adopt", "--leave", "--as", "ann"],
    );
    back.did("nothing was compared");
}
