//! `qiang reconciler run`: a reconciler works once as on a node, and reports the work that is left. It creates no
//! files.

use std::{fs, path::Path, sync::Arc};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Phase,
    ports::{
        ActionStore as _, CampaignStore as _, Engine as _, KeyStore as _, KeyUse, THE_SERVICE,
        WaitingRoom as _, WaitingRoomStore as _,
    },
    queue_entry::QueueLimits,
    time::Timestamp,
};
use qiang_embedded::{Embedded, SqliteLedger, SystemClock};
use qiang_testkit::{
    ManualClock,
    campaign::{Target, sale},
};

use serde_json::{Value, json};

use crate::common::output;
use crate::operation::{
    maintenance::{Ended, call, maintain, served},
    program::{Program, token, until},
};

const NAMES: [&str; 11] = [
    "repair",
    "drafts",
    "due",
    "waiting",
    "settlement",
    "discards",
    "packets",
    "keys",
    "archive",
    "webhooks",
    "reconciliation",
];

impl Ended {
    /// Expects two waiting queue entries of a campaign, with this reason.
    fn left_in_line(&self, campaign: &str, why: &str) {
        assert_eq!(self.code, Some(1), "{}{}", self.printed, self.said);
        let line = format!("campaign {campaign}: 2 wait: {why}");
        let expected = format!("{line}\nwaiting: 2 found, 0 done\n");
        assert_eq!(self.printed, expected);
    }
}

/// Runs a command on the embedded engine.
fn embedded(folder: &Path, args: &[&str]) -> Ended {
    Ended::of(tokio::task::block_in_place(|| output(folder, args, &[])))
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcilers_are_listed_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| embedded(folder.path(), &[&["reconciler"], args].concat());
    let listed = here(&["list"]);
    listed.did("drafts");
    let names = listed.printed.lines().map(|line| line.split(' ').next());
    assert!(names.flatten().eq(NAMES), "{}", listed.printed);
    let lines = here(&["list", "--json"]).printed;
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(
        lines
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .eq(NAMES)
    );
    here(&["run", "everything"]).failed(2, "there is no reconciler `everything`");
    for name in NAMES {
        let data = ["run", name, "--data", "missing.db"];
        here(&data).failed(1, "there is no file missing.db");
        let data = [&["reconciler"], &data[..]].concat();
        maintain(folder.path(), "unmade", &data).failed(1, "there is no ledger in missing.db");
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    assert!(call(&["KEYS", "unmade:*"]).array().is_empty());
}

/// A sale whose window is over was created and not opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_brought_up_to_date_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qiang.db");
    let past = Timestamp::from_millis(1_577_836_800_000);
    let setup = sale(7).window(past, 3_600_000).setup(1);
    let id = setup.campaign.id;
    let open = || Embedded::open(&path, Arc::new(SystemClock)).unwrap();
    // An idempotency key that is years old.
    let engine = Embedded::open(&path, ManualClock::new(past)).unwrap();
    let used = KeyUse::new("ann POST /x", "k".parse().unwrap(), [1; 32]);
    engine.bind_key(&used, id.uuid()).await.unwrap();
    engine.close();
    let engine = open();
    engine.create(&setup).await.unwrap();
    engine.close();
    let run = |args: &[&str]| {
        let args = [&["reconciler", "run"], args, &["--data", "qiang.db"]].concat();
        embedded(folder.path(), &args)
    };
    let dry = run(&["drafts", "--dry-run"]);
    assert_eq!(dry.code, Some(1), "{}", dry.said);
    assert_eq!(dry.printed, format!("{id}\ndrafts: 1 found, 0 done\n"));
    let drafts = run(&["drafts", "--json", "--as", "ann"]).json();
    let expected = json!({ "name": "drafts", "found": 1, "done": 1, "lines": [] });
    assert_eq!(drafts, expected);
    run(&["drafts"]).did("drafts: 0 found, 0 done");
    run(&["due", "--dry-run"]).failed(2, "`due` has no dry run");
    run(&["due"]).did("due: ");
    run(&["keys"]).did("keys: 1 found, 1 done");
    run(&["keys"]).did("keys: 0 found, 0 done");
    run(&["settlement"]).did("settlement: ");
    run(&["settlement", "--dry-run"]).did("settlement: 0 found, 0 done");
    for name in ["repair", "reconciliation"] {
        run(&[name]).failed(2, "is for `--engine redis`");
    }
    let engine = open();
    let record = engine.campaign(id).await.unwrap().unwrap();
    assert_eq!((record.phase, record.returned), (Phase::Closed, 7));
    // Runs that changed nothing or were refused are not actions.
    let actions = engine.actions(THE_SERVICE, None, 100).await.unwrap();
    let done = actions
        .iter()
        .map(|it| (it.actor.as_str(), it.kind.name(), it.detail.as_str()));
    let expected = ["drafts", "drafts", "due", "keys", "keys", "settlement"]
        .map(|name| format!("{{\"reconciler\":\"{name}\"}}"));
    let mut expected: Vec<_> = expected
        .iter()
        .map(|it| ("cli:unknown", "run", it.as_str()))
        .collect();
    expected[0].0 = "ann";
    assert_eq!(done.collect::<Vec<_>>(), expected);
    // This process has the file open now.
    let refused = run(&["drafts"]);
    assert_eq!(refused.code, Some(1), "{}", refused.printed);
    engine.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_and_its_ledger_are_brought_up_to_date_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "byhand";
    let orders = served(folder.path(), prefix, "ledger.db", 3).await;
    let run = |args: &[&str]| {
        let args = [&["reconciler", "run"], args, &["--data", "ledger.db"]].concat();
        maintain(folder.path(), prefix, &args)
    };
    // A sale that was not opened.
    let window = (Timestamp::from_millis(1_577_836_800_000), 631_152_000_000);
    let setup = sale(7).window(window.0, window.1).setup(1);
    let path = folder.path().join("ledger.db");
    let ledger = || SqliteLedger::open(&path, Arc::new(SystemClock)).unwrap();
    let file = ledger();
    file.create(&setup).await.unwrap();
    file.close();
    let id = Target::of(&setup).id.to_string();
    let key = |partition: u16, rest: &str| format!("{prefix}:{{p{partition:02}}}:{rest}");
    let home = |id: &str| {
        let campaign = format!("c:{id}");
        (0..2).find(|n| call(&["EXISTS", &key(*n, &campaign)]).integer() == Some(1))
    };
    assert_eq!(home(&id), None);
    let dry = run(&["drafts", "--dry-run"]);
    assert_eq!(dry.code, Some(1), "{}", dry.said);
    assert_eq!(dry.printed, format!("{id}\ndrafts: 1 found, 0 done\n"));
    assert_eq!(home(&id), None);
    run(&["drafts"]).did("drafts: 1 found, 1 done");
    assert!(home(&id).is_some());

    // No process settles here.
    let dry = run(&["settlement", "--dry-run"]);
    assert_eq!(dry.code, Some(1), "{}", dry.said);
    assert!(
        dry.printed.contains(": 1 entries behind "),
        "{}",
        dry.printed
    );
    run(&["settlement"]).did("settlement: 1 found, 1 done");
    run(&["settlement"]).did("settlement: 0 found, 0 done");
    run(&["drafts", "--dry-run"]).did("drafts: 0 found, 0 done");
    run(&["due"]).did("due: ");

    run(&["repair"]).did("repair: 0 found, 0 done");
    let orders_home = home(&orders).unwrap();
    let state = key(orders_home, "partition");
    let seq = call(&["HGET", &state, "seq"]);
    let seq: u64 = seq.text().unwrap().parse().unwrap();
    let (from, to) = ((seq + 1).to_string(), (seq + 1).to_string());
    call(&["HDEL", &state, "open"]);
    let lost = ["lost_from", &from, "lost_to", &to];
    call(&[&["HSET", &state, "halted", "the test says so"][..], &lost].concat());
    let dry = run(&["repair", "--dry-run"]);
    assert_eq!(dry.code, Some(1), "{}", dry.said);
    let said = format!("partition {orders_home} has lost entries");
    assert!(dry.printed.contains(&said), "{}", dry.printed);
    // Like a node, it waits for the reports of nodes.
    until("the repair", async || {
        let repaired = run(&["repair"]);
        (repaired.code == Some(0)).then_some(())
    })
    .await;
    run(&["repair"]).did("repair: 0 found, 0 done");

    run(&["reconciliation"]).did("reconciliation: 0 found, 0 done");
    let rows = key(orders_home, &format!("c:{orders}:orders"));
    call(&["HDEL", &rows, "2"]);
    let found = run(&["reconciliation"]);
    assert_eq!(found.code, Some(1), "{}", found.said);
    assert!(
        found.printed.contains("reconciliation: 1 found"),
        "{}",
        found.printed
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_in_a_file_is_decided_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qiang.db");
    let open = || Embedded::open(&path, Arc::new(SystemClock)).unwrap();
    let past = Timestamp::from_millis(1_577_836_800_000);
    let setup = sale(7).window(past, 631_152_000_000).setup(1);
    let target = Target::of(&setup);
    let campaign = target.id;
    let act = |action| Command::Act { campaign, action };
    let engine = open();
    engine.add_waiting_room(campaign).await.unwrap();
    engine.create(&setup).await.unwrap();
    let opened = engine.submit(Command::Open(Box::new(setup))).await;
    opened.unwrap();
    engine.submit(act(CampaignAction::Pause)).await.unwrap();
    let limits = QueueLimits {
        entries_max: 9,
        partition_entries_max: 9,
        result_ttl_ms: 600_000,
    };
    for user in ["ann", "bob"] {
        let entered = engine.enter(&target.one(user), past, limits).await;
        assert!(entered.unwrap().is_some());
    }
    engine.close();
    let run = || {
        let args = ["reconciler", "run", "waiting", "--data", "qiang.db"];
        embedded(folder.path(), &args)
    };
    run().left_in_line(&campaign.to_string(), "the campaign is paused");
    let engine = open();
    engine.submit(act(CampaignAction::Resume)).await.unwrap();
    engine.close();
    run().did("waiting: 2 found, 2 done");
    run().did("waiting: 0 found, 0 done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_another_process_decides_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("engine.data", "ledger.db")];
    let mut node = Program::on_redis(folder.path(), "serve", "line", &keys);
    node.ready(200).await;
    let mut sale = crate::common::sale(9);
    sale["waiting_room"] = json!(true);
    let id = node.post("/v1/sales", Some(sale)).await.text("id");
    let pause = format!("/v1/campaigns/{id}/pause");
    assert_eq!(node.post(&pause, None).await.status, 200);
    for user in ["ann", "bob"] {
        let (addr, path) = (node.addr().await, format!("/v1/sales/{id}/orders"));
        let reply = crate::common::call(addr, "POST", &path, Some(&token(user)), &[], None).await;
        assert_eq!(reply.status, 202, "{reply:?}");
    }
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    let run = || {
        let args = ["reconciler", "run", "waiting", "--data", "ledger.db"];
        maintain(folder.path(), "line", &args)
    };
    let deciders = [0, 1].map(|n| format!("line:{{p{n:02}}}:decider"));
    for decider in &deciders {
        call(&["SET", decider, "another", "PX", "600000"]);
    }
    run().left_in_line(&id, "another process decides them");
    for decider in &deciders {
        call(&["DEL", decider]);
    }
    run().left_in_line(&id, "the campaign is paused");
}

/// `qiang sale set-stock` on both engines. On Redis, the ledger has the stock before the answer, so a loss of the node
/// and of Redis does not undo it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stock_of_a_sale_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("token");
    fs::write(&secret, token("olga")).unwrap();
    let nodes = [
        Program::serve(folder.path(), &[("engine.data", "engine.db")]),
        Program::on_redis(
            folder.path(),
            "serve",
            "stock",
            &[("engine.data", "ledger.db")],
        ),
    ];
    let mut ids = Vec::new();
    for node in &nodes {
        node.ready(200).await;
        let (mut sale, addr) = (crate::common::sale(10), node.addr().await);
        sale["hold_seconds"] = json!(3_600);
        let id = node.post("/v1/sales", Some(sale)).await.text("id");
        let orders = format!("/v1/sales/{id}/orders");
        for n in 0..2 {
            let token = token(&format!("buyer{n}"));
            let reply = crate::common::call(addr, "POST", &orders, Some(&token), &[], None).await;
            assert_eq!(reply.status, 201, "{reply:?}");
        }
        let set = |stock: &str| {
            let (addr, file) = (addr.to_string(), secret.to_str().unwrap());
            let args = ["sale", "set-stock", &id, stock, "--node", &addr];
            embedded(
                folder.path(),
                &[&args[..], &["--token-file", file]].concat(),
            )
        };
        set("30").did(&format!("{id}: stock 30, granted 2, remaining 28"));
        set("1").failed(1, "stock-granted");
        set("3").did(&format!("{id}: stock 3, granted 2, remaining 1"));
        set("3").did(&format!("{id}: stock 3, granted 2, remaining 1"));
        let terms = |more: &[&str]| {
            let (addr, file) = (addr.to_string(), secret.to_str().unwrap());
            let args = [
                "sale",
                "set-terms",
                &id,
                "--node",
                &addr,
                "--token-file",
                file,
            ];
            embedded(folder.path(), &[&args[..], more].concat())
        };
        let change = [
            "--limit",
            "2",
            "--price",
            "0.70",
            "CNY",
            "--ends-at",
            "2098-01-01T00:00:00Z",
        ];
        for _ in 0..2 {
            terms(&change).did("up to 2098-01-01T00:00:00.000Z, 2 a user, 0.70 CNY a unit");
        }
        terms(&["--limit", "4"]).failed(1, "invalid");
        terms(&["--price", "x", "CNY"]).failed(2, "not an amount of CNY");
        terms(&[]).failed(2, "--starts-at <TIME>");
        node.signal("-KILL");
        ids.push(id);
    }
    for mut node in nodes {
        node.ended().await;
    }
    let path = |name: &str| folder.path().join(name);
    let file = SqliteLedger::open(&path("ledger.db"), Arc::new(SystemClock)).unwrap();
    let record = file.campaign(ids[1].parse().unwrap()).await.unwrap();
    let record = record.unwrap();
    assert_eq!(record.campaign.supply(), 3);
    assert_eq!(record.campaign.per_user_limit(), 2);
    file.close();
    let engine = Embedded::open(&path("engine.db"), Arc::new(SystemClock)).unwrap();
    let tally = engine.tally(ids[0].parse().unwrap()).await.unwrap();
    let tally = tally.unwrap();
    assert_eq!((tally.supply, tally.remaining), (3, 1));
    assert_eq!(tally.terms.map(|terms| terms.unit_price_minor), Some(70));
    engine.close();
}

/// `qiang sale describe`, `list` and `archive`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sales_are_described_listed_and_archived() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("token");
    fs::write(&secret, token("olga")).unwrap();
    let node = Program::serve(folder.path(), &[("engine.data", "engine.db")]);
    node.ready(200).await;
    let addr = node.addr().await.to_string();
    let id = node
        .post("/v1/sales", Some(crate::common::sale(10)))
        .await
        .text("id");
    let run = |args: &[&str]| {
        let node = ["--node", &addr, "--token-file", secret.to_str().unwrap()];
        embedded(folder.path(), &[&["sale"], args, &node].concat())
    };
    run(&["describe", &id]).failed(2, "--title");
    let image = "--image-url=http://example.com/a.png";
    run(&["describe", &id, image]).failed(1, "image URL");
    let texts = ["describe", &id, "--title", "Phone 10", "--product-id=a&b"];
    run(&texts).did(&format!("{id}: Phone 10"));
    run(&["describe", &id, "--image-url="]).did(&format!("{id}: Phone 10"));
    let lists = |args: &[&str], shown: bool| {
        let listed = run(args);
        assert_eq!(listed.code, Some(0), "{}", listed.printed);
        assert_eq!(listed.printed.contains(&id), shown, "{}", listed.printed);
    };
    lists(&["list"], true);
    lists(&["list", "--product-id=a&b", "--phase=live"], true);
    lists(&["list", "--product-id=a"], false);
    lists(&["list", "--owner=nobody"], false);
    run(&["archive", &id]).failed(1, "phase-conflict");
    let close = format!("/v1/campaigns/{id}/close");
    assert_eq!(node.post(&close, None).await.status, 200);
    run(&["archive", &id]).did(&format!("{id}: archived"));
    lists(&["list"], false);
    lists(&["list", "--archived"], true);
}
