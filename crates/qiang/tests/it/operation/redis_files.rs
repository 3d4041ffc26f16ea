//! The files of `deploy/redis`: real servers and Sentinels start by them, a node sells, and a failover keeps the order.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use qiang_testkit::servers::{
    redis::{Reply, Server},
    wait_for,
};
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::{call, sale};
use crate::operation::program::{Program, token, until};

const NODE: &str = "node-password";
const ADMIN: &str = "admin-password";
/// Bound of the waits for Sentinels: they learn of replicas every 10 s, and call a primary down after 5 s.
const SENTINELS_MAX: Duration = Duration::from_secs(90);

fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/redis");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// A file as an operator completes it: passwords, folder, port and the address of the primary.
fn completed(name: &str, folder: &Path, port: u16, primary: Option<u16>) -> String {
    let folder = folder.display().to_string();
    let names = ["NODE", "REPLICA", "SENTINEL", "ADMIN"];
    let of_user = |text: String, name: &str| {
        text.replace(&format!("#{name}_PASSWORD"), &format!(">{name}_PASSWORD"))
    };
    let text = names
        .into_iter()
        .fold(shipped(name), of_user)
        .replace("NODE_PASSWORD", NODE)
        .replace("REPLICA_PASSWORD", "replica-password")
        .replace("SENTINEL_PASSWORD", "sentinel-password")
        .replace("ADMIN_PASSWORD", ADMIN)
        .replace("/etc/redis", &folder)
        .replace("/var/lib/redis", &folder)
        .replace("\nport 6379\n", &format!("\nport {port}\n"))
        .replace("\nport 26379\n", &format!("\nport {port}\n"));
    let Some(primary) = primary else {
        return text;
    };
    text.replace("# replicaof", "replicaof")
        .replace("10.0.0.11 6379", &format!("127.0.0.1 {primary}"))
}

/// A server of the data, which follows this primary if there is one.
fn server(primary: Option<u16>) -> Server {
    Server::start_by_files(false, ("admin", ADMIN), move |at| {
        let of = |name: &str| completed(name, at.folder(), at.port(0), primary);
        vec![
            ("redis.conf", of("redis.conf")),
            ("users.acl", of("users.acl")),
        ]
    })
}

fn sentinel(primary: u16) -> Server {
    Server::start_by_files(true, ("admin", ADMIN), move |at| {
        let of = |name: &str| completed(name, at.folder(), at.port(0), Some(primary));
        vec![
            ("sentinel.conf", of("sentinel.conf")),
            ("sentinel-users.acl", of("sentinel-users.acl")),
        ]
    })
}

/// Number of servers or Sentinels that a Sentinel lists.
fn listed(sentinel: &Server, list: &str) -> usize {
    let reply = sentinel.call(&["SENTINEL", list, "qiang"]);
    reply.map_or(0, |reply| reply.array().len())
}

/// Calls that a server has refused, except what the client library sends about itself.
fn refused(server: &Server) -> Vec<String> {
    let log = server.call(&["ACL", "LOG"]).unwrap();
    let entries = log.array().iter();
    let own = entries
        .filter(|entry| entry.field("object").and_then(Reply::text) != Some("client|setinfo"));
    own.map(|entry| format!("{entry:?}")).collect()
}

/// The answer to a client that sends no password.
fn answer_without_login(server: &Server) -> String {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 128];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Rules of a user in an ACL file, or on the page.
fn rules(text: &str) -> Vec<String> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("user qiang "));
    let mut rules = String::new();
    for line in lines.by_ref() {
        rules.push_str(line.trim_end_matches('\\'));
        rules.push(' ');
        if !line.ends_with('\\') {
            break;
        }
    }
    let is_rule = |word: &&str| word.starts_with(['+', '-']);
    let mut rules: Vec<_> = rules
        .split_whitespace()
        .filter(is_rule)
        .map(str::to_owned)
        .collect();
    rules.sort_unstable();
    rules
}

#[test]
fn the_shipped_users_have_the_rules_of_the_page() {
    let page = include_str!("../../../../../docs/operate/redis.md");
    let expected = rules(page);
    assert!(expected.len() > 50, "{expected:?}");
    assert_eq!(rules(&shipped("users.acl")), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_by_the_shipped_files_sell_through_a_failover() {
    let (servers, sentinels) = block_in_place(|| {
        let primary = server(None);
        let port = primary.addr().port();
        let servers = [primary, server(Some(port)), server(Some(port))];
        let sentinels = [(); 3].map(|()| sentinel(port));
        (servers, sentinels)
    });
    block_in_place(|| {
        wait_for("the Sentinels to see all", SENTINELS_MAX, || {
            let sees = |it: &Server| listed(it, "REPLICAS") == 2 && listed(it, "SENTINELS") == 2;
            let quorum = |it: &Server| it.call(&["SENTINEL", "CKQUORUM", "qiang"]).is_ok();
            let all = sentinels.iter().all(|it| sees(it) && quorum(it));
            let synced = servers[1..].iter().all(Server::is_synced_replica);
            (all && synced).then_some(())
        });
    });
    let folder = tempfile::tempdir().unwrap();
    let urls = sentinels
        .each_ref()
        .map(|it| format!("redis://qiang:{NODE}@{}", it.addr()));
    let urls = urls.join(",");
    let keys = [
        ("redis.topology", "sentinel"),
        ("redis.master", "qiang"),
        ("redis.urls", &urls),
        ("redis.username", "qiang"),
        ("redis.password", NODE),
        ("redis.replicas", "1"),
        ("redis.wait_for", "always"),
    ];
    let node = Program::on_redis(folder.path(), "serve", "qiang", &keys);
    node.ready(200).await;
    let mut new = sale(10);
    new["per_user_limit"] = json!(10);
    let opened = node.post("/v1/sales", Some(new)).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(opened.json()["ack"], "replica");
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    let first = node.post(&path, None).await;
    assert_eq!(first.status, 201, "{first:?}");

    block_in_place(|| servers[0].kill());
    let order = format!("/v1/orders/{}", first.text("id"));
    let (addr, olga) = (node.addr().await, token("olga"));
    let read = async |path: &str| call(addr, "GET", path, Some(&olga), &[], None).await;
    let look = async || {
        let found = read(&order).await;
        (found.status == 200).then_some(found)
    };
    let found = until("the order after the failover", look).await;
    assert_eq!(found.text("id"), first.text("id"));
    // A claim at the level `replica` needs the promoted server and its replica.
    let again = async || {
        let again = node.post(&path, None).await;
        [200, 201].contains(&again.status).then_some(again)
    };
    let again = until("a sale after the failover", again).await;
    let state = format!("/v1/campaigns/{}/state", opened.text("id"));
    let granted = read(&state).await.json()["granted"].clone();
    let expected = if again.status == 200 { 1 } else { 2 };
    assert_eq!(granted, expected);
    node.ready(200).await;

    // The primary of before returns as a replica, by the file that its Sentinels have rewritten.
    block_in_place(|| {
        servers[0].start_again();
        wait_for("the old primary to follow", SENTINELS_MAX, || {
            servers[0].is_synced_replica().then_some(())
        });
        for server in servers.iter().chain(&sentinels) {
            assert_eq!(refused(server), Vec::<String>::new());
            assert!(answer_without_login(server).starts_with("-NOAUTH"));
        }
    });
}
