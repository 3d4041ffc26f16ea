//! The name of a server leads to another address, as after a failover of a managed service: a process connects to the
//! new address without a restart.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use qiang_testkit::servers::{
    Port,
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    rabbitmq::RabbitMq,
    redis::{Options, Standalone},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::{
    common::{SECRET, call, sale},
    operation::program::{Program, redis, token, until},
};

const NAME: &str = "server.test";
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const STOCK: u32 = 1_000;
/// Orders at each address.
const ORDERS: usize = 10;
/// Shell command that gives a process a host table of its own, and starts it.
const WITH_HOSTS: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";

/// An address of a server. Dropping it closes the port and all connections.
struct Address {
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Address {
    /// Forwards a port of this address to a server.
    async fn listen(ip: Ipv4Addr, port: &Port, server: SocketAddr) -> Self {
        let listener = TcpListener::bind((ip, port.number())).await.unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        drop(copy_bidirectional(&mut client, &mut server).await);
                    }
                });
            }
        });
        Self { accepted, task }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A host table in a file, as a process sees it.
struct Hosts(PathBuf);

impl Hosts {
    fn new(folder: &Path) -> Self {
        Self(folder.join("hosts"))
    }

    /// Writes the table into the same file, which processes have mounted.
    fn point_to(&self, ip: impl Into<IpAddr>) {
        let table = format!("127.0.0.1 localhost\n{} {NAME}\n", ip.into());
        fs::write(&self.0, table).unwrap();
    }
}

fn serve(folder: &Path, hosts: &Hosts, keys: &[(&str, String)]) -> Program {
    let (redis, table) = (redis().url(), hosts.0.display().to_string());
    let prefix = format!("hosts{}", rand::random::<u32>());
    let mut all = vec![
        ("engine.kind", "redis"),
        ("redis.urls", &redis),
        ("redis.prefix", &prefix),
        ("redis.partitions", "2"),
        ("auth.hs256_secret", SECRET),
        ("settlement.lease_ms", "2000"),
    ];
    all.extend(keys.iter().map(|(key, value)| (*key, value.as_str())));
    let namespace = ["--user", "--map-current-user", "--keep-caps", "--mount"];
    let qiang = env!("CARGO_BIN_EXE_qiang");
    let shell = ["--", "sh", "-c", WITH_HOSTS, &table, qiang, "serve"];
    let args = [&namespace[..], &shell].concat();
    Program::start_of("unshare".as_ref(), folder, &args, &all)
}

/// Serves while the name of a server at `port` leads to one address, and then to another. `keys` name the server.
async fn check(server: SocketAddr, port: &Port, keys: &[(&str, String)]) {
    let folder = tempfile::tempdir().unwrap();
    let hosts = Hosts::new(folder.path());
    hosts.point_to(FIRST);
    let first = Address::listen(FIRST, port, server).await;
    let node = serve(folder.path(), &hosts, keys);
    node.ready(200).await;
    let opened = node.post("/v1/sales", Some(sale(STOCK))).await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    let addr = node.addr().await;
    let buy = async |user: String| {
        let user = token(&user);
        let bought = async || {
            let reply = call(addr, "POST", &path, Some(&user), &[], None).await;
            [200, 201].contains(&reply.status).then_some(())
        };
        until(&format!("no order: {:#?}", node.lines()), bought).await;
    };
    for order in 0..ORDERS {
        buy(format!("first-{order}")).await;
    }
    assert!(first.accepted() > 0);

    // Nothing listens at the first address now.
    hosts.point_to(SECOND);
    let second = Address::listen(SECOND, port, server).await;
    drop(first);
    for order in 0..ORDERS {
        buy(format!("second-{order}")).await;
    }
    let connected = async || (second.accepted() > 0).then_some(());
    until("nothing connects to the second address", connected).await;
    node.ready(200).await;
    let settled = async || {
        let list = format!("{path}?limit={}", 4 * ORDERS);
        let listed = call(addr, "GET", &list, Some(&token("olga")), &[], None).await;
        let orders = listed.json()["data"].as_array().map(Vec::len);
        (orders == Some(2 * ORDERS)).then_some(())
    };
    until("the orders are not in the ledger", settled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_redis_may_lead_to_another_address() {
    let server = Standalone::start(&Options::new());
    let port = Port::free();
    let url = format!("redis://{NAME}:{}", port.number());
    check(server.primary().addr(), &port, &[("redis.urls", url)]).await;
}

/// URL of a database with the server's name, and the address of the server.
fn renamed(url: &str, port: &Port) -> (String, SocketAddr) {
    let rest = url.split("127.0.0.1:").nth(1).unwrap();
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, number.parse().unwrap()));
    let named = format!("{NAME}:{}", port.number());
    (url.replace(&server.to_string(), &named), server)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_postgres_may_lead_to_another_address() {
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let port = Port::free();
    let (url, server) = renamed(&url, &port);
    check(server, &port, &[("ledger.url", url)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_mariadb_may_lead_to_another_address() {
    let database = MariaDb::start(&mariadb::Options::new());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let port = Port::free();
    let (url, server) = renamed(&url, &port);
    check(server, &port, &[("ledger.url", url)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_rabbitmq_may_lead_to_another_address() {
    let server = RabbitMq::start();
    let port = Port::free();
    let (url, addr) = renamed(&server.url(), &port);
    let keys = [
        ("settlement.transport", "rabbitmq".to_owned()),
        ("settlement.rabbitmq_url", url),
    ];
    check(addr, &port, &keys).await;
}
