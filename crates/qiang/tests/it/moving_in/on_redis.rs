//! The same import with the engine on Redis and the ledger in PostgreSQL.

use std::sync::OnceLock;

use qiang_testkit::servers::postgres::{Options, Postgres};

use super::{Shop, import::move_in};
use crate::operation::program::{Program, token};

#[tokio::test(flavor = "multi_thread")]
async fn an_import_over_http_needs_no_certain_engine() {
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    let postgres = POSTGRES.get_or_init(|| Postgres::start(&Options::new()));
    let folder = tempfile::tempdir().unwrap();
    let url = postgres.url();
    let migrated = crate::common::output(folder.path(), &["migrate", "--ledger", &url], &[]);
    assert!(migrated.status.success(), "{migrated:?}");
    let keys = [("ledger.url", url.as_str())];
    let node = Program::on_redis(folder.path(), "serve", "moving-in", &keys);
    node.ready(200).await;
    let addr = node.addr().await;
    let (files, token) = (folder.path().to_owned(), token("olga"));
    let moved = tokio::task::spawn_blocking(move || {
        let shop = Shop {
            addr,
            folder: &files,
            token,
        };
        move_in(&shop);
    });
    moved.await.unwrap();
    let audit = qiang_audit::audit_ledger(&url).await.unwrap();
    assert!(audit.ok, "{audit:?}");
}
