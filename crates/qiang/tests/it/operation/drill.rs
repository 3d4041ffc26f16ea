//! `qiang drill` on real servers.

use std::{path::Path, process::Output};

use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, SentinelSet, Standalone},
};
use serde_json::Value;
use tokio::task::block_in_place;

use super::program::Program;
use crate::common::{SECRET, output, sale};

const PREFIX: &str = "drill";

/// Node and configuration of a staging set-up.
struct Staging {
    folder: tempfile::TempDir,
    keys: Vec<(&'static str, String)>,
    node: Program,
}

impl Staging {
    async fn start(keys: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Program::on_redis(folder.path(), "serve", PREFIX, keys);
        node.ready(200).await;
        let usual = [
            ("engine.kind", "redis"),
            ("redis.prefix", PREFIX),
            ("redis.partitions", "2"),
            ("auth.hs256_secret", SECRET),
        ];
        let keys = usual.iter().chain(keys);
        Self {
            folder,
            keys: keys
                .map(|(key, value)| (*key, (*value).to_owned()))
                .collect(),
            node,
        }
    }

    async fn drill(&self, more: &[&str]) -> Output {
        let addr = self.node.addr().await.to_string();
        let pid = self.node.pid().to_string();
        let args = ["drill", "--node", &addr, "--node-pid", &pid];
        self.run(&[&args[..], more].concat())
    }

    fn run(&self, args: &[&str]) -> Output {
        let name = |key: &str| format!("QIANG__{}", key.replace('.', "__").to_uppercase());
        let keys = self.keys.iter();
        let env: Vec<_> = keys.map(|(key, value)| (name(key), value)).collect();
        let env: Vec<_> = env.iter().map(|(key, value)| (&**key, &***value)).collect();
        let folder: &Path = self.folder.path();
        block_in_place(|| output(folder, args, &env))
    }
}

fn report(ended: &Output) -> Value {
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

/// Names of the faults that were made, and of the skipped ones.
fn made(report: &Value) -> (Vec<&str>, Vec<&str>) {
    let names = |is_skipped: bool| {
        let faults = report["faults"].as_array().unwrap().iter();
        let of_kind = faults.filter(|it| it["skipped"].is_string() == is_skipped);
        of_kind.map(|it| it["fault"].as_str().unwrap()).collect()
    };
    (names(false), names(true))
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_served_after_each_of_six_faults() {
    let (redis, postgres) = block_in_place(|| {
        let without_fsync = postgres::Options::new().without_fsync();
        let redis = Standalone::start(&Options::new());
        (redis, Postgres::start(&without_fsync))
    });
    qiang::migrate(&postgres.url()).await.unwrap();
    let (url, ledger) = (redis.url(), postgres.url());
    let staging = Staging::start(&[("redis.urls", &url), ("ledger.url", &ledger)]).await;

    let ended = staging.drill(&[]).await;
    assert_eq!(ended.status.code(), Some(2), "without consent: {ended:?}");

    let open = staging
        .node
        .post("/v1/sales", Some(sale(5)))
        .await
        .text("id");
    let ended = staging.drill(&["--staging"]).await;
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains(&open) && said.contains("is live"), "{said}");
    let closed = format!("/v1/campaigns/{open}/close");
    assert_eq!(staging.node.post(&closed, None).await.status, 200);

    let ended = staging.drill(&["--staging", "--json"]).await;
    let report = report(&ended);
    assert_eq!(ended.status.code(), Some(0), "{report:#}");
    assert_eq!(
        made(&report),
        (
            vec![
                "connections",
                "scripts",
                "pause",
                "memory",
                "ledger",
                "node"
            ],
            vec!["failover", "empty"]
        )
    );
    let of = |name: &str| {
        let mut faults = report["faults"].as_array().unwrap().iter();
        faults.find(|it| it["fault"] == name).unwrap()
    };
    // Without room Redis takes no claim. A node that is frozen answers nothing, and all claims of then wait.
    assert!(
        of("memory")["refused"]["503"].as_u64().unwrap() > 0,
        "{report:#}"
    );
    let waited = |name: &str| of(name)["longest_wait_ms"].as_u64().unwrap();
    assert!(waited("node") > waited("scripts"), "{report:#}");
    let verdict = &report["verdict"];
    assert_eq!(verdict["answered"], verdict["in_ledger"], "{report:#}");
    assert!(verdict["answered"].as_u64().unwrap() > 100, "{report:#}");
    let limit = block_in_place(|| redis.primary().call(&["CONFIG", "GET", "maxmemory"]));
    assert_eq!(limit.unwrap().array()[1].text(), Some("0"));

    let path = format!("/v1/sales/{}", report["sale"].as_str().unwrap());
    let token = super::program::token("olga");
    let addr = staging.node.addr().await;
    let sale = crate::common::call(addr, "GET", &path, Some(&token), &[], None).await;
    assert_eq!(sale.json()["state"]["phase"], "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_and_a_loss_are_drilled() {
    let redis = block_in_place(|| SentinelSet::start(&Options::new().replicas(2)));
    block_in_place(|| redis.wait_until_watched());
    let urls = redis.sentinel_urls().join(",");
    let keys = [
        ("redis.topology", "sentinel"),
        ("redis.master", redis.master_name()),
        ("redis.urls", &urls),
        // The drill reads the ledger's file while the node serves it.
        ("engine.data", "ledger.db"),
    ];
    let staging = Staging::start(&keys).await;
    let faults = "failover,empty";
    let args = [
        "--staging",
        "--allow-data-loss",
        "--faults",
        faults,
        "--json",
    ];
    let ended = staging.drill(&args).await;
    let report = report(&ended);
    let (made, _) = made(&report);
    assert_eq!(made, ["failover", "empty"], "{report:#}");
    assert!(
        report["faults"][1]["refused"]["503"].as_u64().unwrap() > 0,
        "a loss stops grants: {report:#}"
    );
    for fault in report["faults"].as_array().unwrap() {
        assert_eq!(fault["is_recovered"], true, "{report:#}");
    }
    assert_eq!(
        report["verdict"]["broken"],
        serde_json::json!([]),
        "{report:#}"
    );
}
