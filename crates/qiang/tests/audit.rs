//! `qiang audit`: its exit codes, where it prints, and how it takes its flags. `qiang-audit` tests what it proves.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use std::{path::Path, sync::Arc};

use common::output;
use qiang_core::{id::UserId, money::Money, ports::AccountStore as _};
use qiang_embedded::{SqliteLedger, SystemClock};
use uuid::Uuid;

/// The exit code, and what was printed on standard output and standard error.
fn audit(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = output(folder, &[&["audit"], args].concat(), &[]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A ledger with one deposit, in the file where the program looks for it.
fn ledger() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ledger =
        SqliteLedger::open(&folder.path().join("qiang.db"), Arc::new(SystemClock)).unwrap();
    let amount = Money::new(5, "CNY".parse().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let user = UserId::new("ann").unwrap();
    runtime
        .block_on(ledger.deposit(Uuid::from_u128(1), &user, amount))
        .unwrap();
    ledger.close();
    folder
}

#[test]
fn the_exit_code_says_whether_every_check_holds() {
    let folder = ledger();
    let (code, text, errors) = audit(folder.path(), &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{text}");
    assert!(text.ends_with(" are not applicable\n"), "{text}");
    let (code, json, _) = audit(folder.path(), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &report["ok"]), (Some(0), &true.into()), "{json}");

    let file = rusqlite::Connection::open(folder.path().join("qiang.db")).unwrap();
    file.execute("UPDATE accounts SET balance = balance + 1", [])
        .unwrap();
    drop(file);
    for args in [&[][..], &["--json"]] {
        let (code, text, errors) = audit(folder.path(), args);
        assert_eq!((code, errors.as_str()), (Some(1), ""), "{text}");
        assert!(text.contains("balances"), "{text}");
    }
}

#[test]
fn what_cannot_be_audited_ends_with_2() {
    let folder = ledger();
    let check = |args: &[&str], expected: &str| {
        let (code, text, errors) = audit(folder.path(), args);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(!errors.contains("secret"), "{errors}");
        errors
    };
    let line = |args: &[&str], expected: &str| {
        let errors = check(args, expected);
        assert_eq!(errors.lines().count(), 1, "{errors}");
    };
    line(&["--db", "missing.db"], "no such file");
    line(
        &["--ledger", "postgres://ann:12/secret@127.0.0.1/books"],
        "cannot be read",
    );
    let database = "mysql://ann:secret@127.0.0.1/books";
    check(
        &["--db", "qiang.db", "--ledger", database],
        "cannot be used with",
    );
    // Nobody listens there.
    let redis = ["--redis", "redis://ann:secret@127.0.0.1:1"];
    line(&redis, "cannot connect to Redis");
    for topology in ["sentinel", "cluster"] {
        let flags = ["--topology", topology, "--master", "who", "--prefix", "p"];
        let flags = [&redis[..], &flags, &["--partitions", "3"]].concat();
        line(&flags, "cannot connect to Redis");
    }
    line(
        &[&redis[..], &["--topology", "ring"]].concat(),
        "redis.topology",
    );
}
