//! Servers with the limits of managed services: Qiang needs none of the commands that docs/operate/managed.md lists
//! as refused, and no right at a database beyond the grants of the page.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    redis::{Cluster, Options, Reply, Server, Standalone},
};
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::{SECRET, call, output};
use crate::operation::{
    maintenance::Ended,
    program::{Program, token, until},
};

/// Password in the statements of the page.
const PASSWORD: &str = "PASSWORD";

/// A page of docs/operate.
fn page(name: &str) -> String {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate");
    fs::read_to_string(pages.join(name)).unwrap()
}

/// Commands that a service of the page refuses, with `|` before a subcommand.
fn refused_commands() -> BTreeSet<String> {
    let page = page("managed.md");
    let rows = page
        .lines()
        .skip_while(|line| *line != "| service | refuses |")
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut commands = BTreeSet::new();
    for row in rows {
        let words = row.split('|').nth(2).unwrap().split(',').map(str::trim);
        commands.extend(words.map(|it| it.replace(' ', "|")));
    }
    assert!(
        commands.len() > 15 && commands.contains("config"),
        "{commands:?}"
    );
    commands
}

/// Statements of the page's block with this number.
fn statements(block: usize) -> Vec<String> {
    let page = page("managed.md");
    let blocks = page.split("```sql\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|part| part.split("```").next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 3);
    let lines = blocks[block].split(';').map(str::trim);
    lines
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Options of servers with a user `shop` who may do everything but that.
fn options() -> Options {
    let denied: Vec<String> = refused_commands()
        .iter()
        .map(|it| format!("-{it}"))
        .collect();
    let lines = format!(
        "user default off\nuser admin on >admin ~* &* +@all\nuser shop on >shop ~* &* +@all {}",
        denied.join(" ")
    );
    Options::new()
        .fsync_everysec()
        .acl(&lines, "admin", "admin")
}

fn url(addr: SocketAddr) -> String {
    format!("redis://shop:shop@{addr}")
}

/// Commands that a server has refused.
fn refused_by(server: &Server) -> Vec<String> {
    let log = server.call(&["ACL", "LOG"]).unwrap();
    let object = |entry: &Reply| {
        entry
            .field("object")
            .and_then(Reply::text)
            .map(str::to_owned)
    };
    log.array().iter().filter_map(object).collect()
}

/// The access list of nodes has none of the commands, so neither has anything that runs with it.
#[test]
fn the_access_list_has_no_command_that_a_service_refuses() {
    let page = page("redis.md");
    let list = page
        .lines()
        .skip_while(|line| !line.starts_with("user qiang "))
        .take_while(|line| !line.starts_with("```"));
    let allowed: BTreeSet<String> = list
        .flat_map(str::split_whitespace)
        .filter_map(|word| Some(word.strip_prefix('+')?.to_owned()))
        .collect();
    assert!(allowed.contains("evalsha"));
    let refused = refused_commands();
    let is_refused = |command: &&String| {
        let name = command.split('|').next().unwrap();
        refused.contains(*command) || refused.contains(name)
    };
    let needed: Vec<&String> = allowed.iter().filter(is_refused).collect();
    assert_eq!(needed, [] as [&String; 0]);
}

/// Commands and a node on these servers, as a buyer and an operator use them.
async fn runs(keys: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let usual = [
        ("auth.hs256_secret", SECRET),
        ("engine.kind", "redis"),
        ("engine.data", "unused.db"),
        // The limits of this machine's shell do not count.
        ("server.connections_max", "100"),
        ("admin.listen", ""),
    ];
    let keys = [&usual[..], keys].concat();
    let run = |args: &[&str]| {
        let env: Vec<(String, &str)> = keys
            .iter()
            .map(|(key, value)| (variable(key), *value))
            .collect();
        let env: Vec<(&str, &str)> = env.iter().map(|(key, value)| (&**key, *value)).collect();
        Ended::of(block_in_place(|| output(folder.path(), args, &env)))
    };
    run(&["migrate"]).did("the schema went");
    run(&["doctor"]).did("");
    let node = serve(folder.path(), &keys).await;
    let sale = json!({
        "title": "one unit", "stock": 1, "per_user_limit": 1, "hold_seconds": 600,
        "unit_price": { "amount": 100, "currency": "CNY" },
    });
    let id = node.post("/v1/sales", Some(sale)).await.text("id");
    let addr = node.addr().await;
    let path = format!("/v1/sales/{id}/orders");
    let ask = async |user: &str| call(addr, "POST", &path, Some(&token(user)), &[], None).await;
    let order = ask("ann").await;
    assert_eq!(order.status, 201, "{order:?}");
    assert_eq!(ask("bob").await.status, 409);
    let payment = json!({ "reference": "p1", "amount": { "amount": 100, "currency": "CNY" } });
    let path = format!("/v1/orders/{}/payment", order.text("id"));
    let paid = node.post(&path, Some(payment)).await;
    assert_eq!(paid.status, 200, "{paid:?}");
    // Everything is in the ledger, and the audit of both finds nothing.
    until("the order is settled", async || {
        let path = "/v1/orders?state=paid";
        let orders = call(addr, "GET", path, Some(&token("olga")), &[], None).await;
        (orders.status == 200 && !orders.json()["data"].as_array()?.is_empty()).then_some(())
    })
    .await;
    run(&["audit", "--redis"]).did("ok: ");
    run(&["partition", "list"]).did("open");
    run(&["reconcile"]).did("");
}

fn variable(key: &str) -> String {
    format!("QIANG__{}", key.replace('.', "__").to_uppercase())
}

async fn serve(folder: &Path, keys: &[(&str, &str)]) -> Program {
    let node = Program::start(
        folder,
        &["serve"],
        &[keys, &[("admin.listen", "server")]].concat(),
    );
    node.ready(200).await;
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_administration_and_a_postgresql_without_superuser_suffice() {
    let redis = block_in_place(|| Standalone::start(&options()));
    let postgres = block_in_place(|| Postgres::start(&postgres::Options::new()));
    let ledger = block_in_place(|| {
        for statement in statements(0) {
            postgres.sql(&statement);
        }
        for statement in statements(1) {
            postgres.sql_in("shop", &statement);
        }
        postgres
            .url_of("shop")
            .replace("://qiang@", &format!("://shop:{PASSWORD}@"))
    });
    let url = url(redis.addr());
    runs(&[("redis.urls", &url), ("ledger.url", &ledger)]).await;
    let refused = block_in_place(|| refused_by(redis.primary()));
    assert_eq!(refused, [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_administration_and_a_mariadb_with_few_rights_suffice() {
    let cluster = block_in_place(|| Cluster::start(&options()));
    let mariadb = block_in_place(|| MariaDb::start(&mariadb::Options::new()));
    let ledger = block_in_place(|| {
        for statement in statements(2) {
            mariadb.sql(&statement);
        }
        format!("mysql://shop:{PASSWORD}@{}/shop", mariadb.addr())
    });
    let nodes = || (0..6).map(|index| cluster.node(index));
    let urls: Vec<String> = nodes().map(|node| url(node.addr())).collect();
    let keys = [
        ("redis.topology", "cluster"),
        ("redis.urls", &*urls.join(",")),
        ("redis.partitions", "3"),
        ("redis.replicas", "1"),
        ("redis.wait_for", "asked"),
        ("ledger.url", &*ledger),
    ];
    runs(&keys).await;
    for node in nodes() {
        assert_eq!(block_in_place(|| refused_by(node)), [] as [String; 0]);
    }
}
