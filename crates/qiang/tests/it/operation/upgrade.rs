//! Replaces nodes one after another while users buy, according to docs/operate/upgrade.md: no user is refused. The
//! variable QIANG_BEFORE may name the old program. Without it, old and new program are the same.

use std::path::PathBuf;

use qiang_testkit::servers::postgres::{self, Postgres};
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::sale;
use crate::operation::{
    crowd::{Crowd, state},
    maintenance::maintain,
    program::{Program, until},
};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_while_users_buy() {
    let folder = tempfile::tempdir().unwrap();
    let server = block_in_place(|| Postgres::start(&postgres::Options::new()));
    let url = server.url();
    let (path, prefix) = (folder.path(), "upgrade");
    maintain(path, prefix, &["migrate", "--ledger", &url]).did("");
    let keys = [("ledger.url", &*url), ("server.drain_delay_ms", "3000")];
    let after = PathBuf::from(env!("CARGO_BIN_EXE_qiang"));
    let before = std::env::var_os("QIANG_BEFORE").map_or_else(|| after.clone(), PathBuf::from);
    let start = async |program| {
        let node = Program::on_redis_of(program, path, "serve", prefix, &keys);
        node.ready(200).await;
        node
    };
    let mut nodes = [start(&before).await, start(&before).await];
    let mut body = sale(100_000);
    body["hold_seconds"] = json!(3_600);
    let id = nodes[0].post("/v1/sales", Some(body)).await.text("id");
    let all = vec![nodes[0].addr().await, nodes[1].addr().await];
    let crowd = Crowd::start(all.clone(), &id);
    crowd.some_more().await;
    for place in 0..2 {
        let stays = nodes[1 - place].addr().await;
        nodes[place].signal("-TERM");
        // A load balancer sees the status, and then stops sending requests.
        nodes[place].ready(503).await;
        crowd.send_to(vec![stays]);
        assert_eq!(nodes[place].ended().await, Some(0));
        crowd.some_more().await;
        nodes[place] = start(&after).await;
        crowd.send_to(vec![stays, nodes[place].addr().await]);
        crowd.some_more().await;
    }
    let bought = crowd.stop().await;
    let addr = nodes[0].addr().await;
    for (user, order) in &bought {
        assert_eq!(state(addr, user, order).await, "held");
    }
    let count = || server.sql("SELECT count(*) FROM orders");
    let is_settled =
        async || (block_in_place(count).trim() == bought.len().to_string()).then_some(());
    until("the ledger lacks orders", is_settled).await;
    maintain(path, prefix, &["audit", "--ledger", &url]).did("");
}
