//! A packet with a passphrase on Redis, sent on one node and claimed on another. Both nodes check its audience, and the
//! last share ends it on both.

use qiang_testkit::servers::postgres::{Options, Postgres};
use serde_json::{Value, json};

use crate::common::{Reply, call, output, packet};
use crate::operation::program::{Program, token, until};

#[tokio::test(flavor = "multi_thread")]
async fn every_node_asks_for_the_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let database = tokio::task::block_in_place(|| Postgres::start(&Options::new()));
    let url = database.url();
    let migrated = [("QIANG__LEDGER__URL", url.as_str())];
    let migrate = |args: &[&str]| {
        let args = [&["migrate"], args].concat();
        let ended = tokio::task::block_in_place(|| output(folder.path(), &args, &migrated));
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    for _ in 0..2 {
        let would = migrate(&["--dry-run"]);
        assert!(would.contains("would go from version 0 to"), "{would}");
    }
    migrate(&[]);
    let done = migrate(&["--dry-run", "--json"]);
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["from"], done["to"]);
    let start = || Program::on_redis(folder.path(), "serve", "said", &[("ledger.url", &url)]);
    let (one, other) = (start(), start());
    one.ready(200).await;
    other.ready(200).await;

    let money = crate::common::deposit(10_000);
    let deposited = one.post("/v1/accounts/olga/deposits", Some(money)).await;
    assert_eq!(deposited.status, 201, "{deposited:?}");
    let mut body = packet(10_000, 3);
    body["audience"] = json!({ "passphrase": "open sesame" });
    let sent = one.post("/v1/red-packets", Some(body)).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let path = format!("/v1/red-packets/{}", sent.text("id"));
    let claims = format!("{path}/claims");
    let claim = async |node: &Program, user: &str, said: &str| -> Reply {
        let (addr, shown) = (node.addr().await, json!({ "passphrase": said }));
        call(addr, "POST", &claims, Some(&token(user)), &[], Some(shown)).await
    };
    for node in [&other, &one] {
        let wrong = claim(node, "eve", "open barley").await;
        wrong.assert_problem(403, "passphrase-wrong");
    }
    let see = async |node: &Program| -> Value {
        let addr = node.addr().await;
        let reply = call(addr, "GET", &path, Some(&token("eve")), &[], None).await;
        reply.json()
    };
    let mut amounts = Vec::new();
    for (user, node) in [("ann", &other), ("bob", &one), ("cid", &other)] {
        assert_eq!(see(node).await["seed"], json!(null));
        let share = claim(node, user, "open sesame").await;
        assert_eq!(share.status, 201, "{share:?}");
        amounts.push(share.json()["amount"]["amount"].as_i64().unwrap());
        claim(node, user, "open barley")
            .await
            .assert_problem(403, "passphrase-wrong");
    }
    for node in [&one, &other] {
        let closed = until("it does not close", async || {
            let seen = see(node).await;
            (seen["state"]["phase"] == "closed" && !seen["seed"].is_null()).then_some(seen)
        });
        let closed = closed.await;
        assert_eq!(
            closed["luckiest"]["amount"]["amount"],
            json!(amounts.iter().max())
        );
        assert_eq!(closed["refunded"]["amount"], json!(0));
        let again = claim(node, "ann", "open sesame").await;
        assert_eq!(again.status, 200, "{again:?}");
        claim(node, "eve", "open sesame")
            .await
            .assert_problem(410, "ended");
    }
}
