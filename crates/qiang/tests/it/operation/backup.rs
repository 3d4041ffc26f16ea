//! Backups of each ledger while users buy, according to docs/operate/backup.md, and the state after a restore.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
};
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::{output, sale};
use crate::operation::{
    crowd::{Crowd, buy, state},
    maintenance::{Ended, maintain},
    program::{Program, redis, until},
};

/// Stock of the sale: more units than the crowd buys.
const STOCK: u32 = 100_000;

/// Opens a sale, and makes a backup while a crowd buys. Returns the sale, the orders before the backup, and all orders.
async fn backed_up(
    node: &Program,
    back_up: impl FnOnce(),
) -> (String, BTreeMap<String, String>, BTreeMap<String, String>) {
    node.ready(200).await;
    let mut body = sale(STOCK);
    body["hold_seconds"] = json!(3_600);
    let id = node.post("/v1/sales", Some(body)).await.text("id");
    let crowd = Crowd::start(vec![node.addr().await], &id);
    let before = crowd.some_more().await;
    block_in_place(back_up);
    let after = crowd.some_more().await;
    assert!(after.len() > before.len());
    (id, before, crowd.stop().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_backed_up_while_users_buy() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Ended::of(block_in_place(|| output(folder.path(), args, &[])));
    let audit = |name: &str| run(&["audit", "--db", name]).did("");
    let mut node = Program::serve(folder.path(), &[("engine.data", "qiang.db")]);
    let (id, before, bought) = backed_up(&node, || {
        run(&["backup", "b.db"]).did("entries");
        run(&["restore", "b.db", "--replace"])
            .failed(1, "qiang.db, or the same file under another path");
    })
    .await;
    node.signal("-KILL");
    node.ended().await;
    audit("b.db");

    run(&["restore", "b.db"]).failed(1, "qiang.db is there already");
    run(&["restore", "b.db", "--replace"]).did("entries");
    let mut node = Program::serve(folder.path(), &[("engine.data", "qiang.db")]);
    node.ready(200).await;
    let addr = node.addr().await;
    for (user, order) in &before {
        assert_eq!(state(addr, user, order).await, "held");
    }
    // Users who bought after the backup buy again. No two users have the same order.
    let mut orders = BTreeSet::new();
    for user in bought.keys() {
        let reply = buy(addr, &id, user).await;
        assert!([200, 201].contains(&reply.status), "{reply:?}");
        let order = reply.text("id");
        assert!(before.get(user).is_none_or(|known| *known == order));
        assert!(orders.insert(order), "{user}");
    }
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    audit("qiang.db");
    audit("qiang.db.replaced");
}

/// A plain copy of a served file lacks the newest grants. Every command refuses it and reports why.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_copy_is_neither_served_nor_audited() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Program::serve(folder.path(), &[("engine.data", "qiang.db")]);
    drop(
        backed_up(&node, || {
            fs::copy(folder.path().join("qiang.db"), folder.path().join("b.db")).unwrap();
        })
        .await,
    );
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    let wal = folder.path().join("qiang.db-wal").metadata();
    assert!(
        !wal.is_ok_and(|wal| wal.len() > 0),
        "a clean end leaves a write-ahead log"
    );
    let mut node = Program::serve(folder.path(), &[("engine.data", "b.db")]);
    assert_eq!(node.ended().await, Some(1));
    let said = "b.db-wal is not beside it";
    let run = |args: &[&str]| Ended::of(block_in_place(|| output(folder.path(), args, &[])));
    run(&["audit", "--db", "b.db"]).failed(2, said);
    run(&["backup", "c.db", "--db", "b.db"]).failed(1, said);
    run(&["restore", "b.db", "--db", "c.db"]).failed(1, said);
    run(&["restore", "b.db", "--db", "c.db", "--as-it-is"]).did("entries");
    run(&["audit", "--db", "c.db"]).did("");
}

/// A ledger in a database, with its commands of backup and restore, and a query that counts its orders.
struct Database<'d> {
    url: String,
    prefix: &'d str,
    dump: fn(&str, &Path),
    restore: fn(&str, &Path),
    orders: &'d dyn Fn() -> usize,
}

impl Database<'_> {
    async fn check(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (url, prefix) = (self.url.as_str(), self.prefix);
        let (path, copy) = (folder.path(), folder.path().join("dump"));
        maintain(path, prefix, &["migrate", "--ledger", url]).did("");
        let serve = || Program::on_redis(path, "serve", prefix, &[("ledger.url", url)]);
        let mut node = serve();
        let (_, before, bought) = backed_up(&node, || (self.dump)(url, &copy)).await;
        node.signal("-TERM");
        assert_eq!(node.ended().await, Some(0));
        block_in_place(|| (self.restore)(url, &copy));
        let restored = block_in_place(self.orders);
        assert!(restored < bought.len(), "{restored} of {}", bought.len());

        let mut node = serve();
        node.ready(200).await;
        let is_whole = async || (block_in_place(self.orders) == bought.len()).then_some(());
        until("the ledger lacks orders", is_whole).await;
        let addr = node.addr().await;
        for (user, order) in before.iter().chain(&bought) {
            assert_eq!(state(addr, user, order).await, "held");
        }
        node.signal("-TERM");
        assert_eq!(node.ended().await, Some(0));
        let redis = redis().url();
        let audit = ["audit", "--ledger", url, "--redis", &redis];
        maintain(path, prefix, &audit).did("");
    }
}

const COUNT: &str = "SELECT count(*) FROM orders";

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_backed_up_while_users_buy() {
    let server = block_in_place(|| Postgres::start(&postgres::Options::new()));
    let database = Database {
        url: server.url(),
        prefix: "backup-postgres",
        dump: postgres::dump,
        restore: postgres::restore,
        orders: &|| server.sql(COUNT).trim().parse().unwrap(),
    };
    database.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_is_backed_up_while_users_buy() {
    let server = block_in_place(|| MariaDb::start(&mariadb::Options::new()));
    let database = Database {
        url: server.url(),
        prefix: "backup-mariadb",
        dump: mariadb::dump,
        restore: mariadb::restore,
        orders: &|| server.sql(COUNT).trim().parse().unwrap(),
    };
    database.check().await;
}
