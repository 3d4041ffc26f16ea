//! `qiang audit`: its exit codes, its output and its flags. `qiang-audit` tests its checks.

use std::{path::Path, sync::Arc};

use crate::common::output;
use qiang_core::{id::UserId, money::Money, ports::AccountStore as _};
use qiang_embedded::{SqliteLedger, SystemClock};
use uuid::Uuid;

/// Exit code, standard output and standard error of an audit.
fn audit(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    audit_with(folder, args, &[])
}

/// An audit with these variables.
fn audit_with(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = output(folder, &[&["audit"], args].concat(), env);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A ledger with one deposit, in the default file.
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

    // Like other commands, it reads the environment.
    std::fs::copy(
        folder.path().join("qiang.db"),
        folder.path().join("copy.db"),
    )
    .unwrap();
    let elsewhere = |name| audit_with(folder.path(), &[], &[("QIANG__ENGINE__DATA", name)]).0;
    assert_eq!(
        (elsewhere("copy.db"), elsewhere("missing.db")),
        (Some(0), Some(2))
    );

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
    let check_with = |args: &[&str], env: &[(&str, &str)], expected: &str| {
        let (code, text, errors) = audit_with(folder.path(), args, env);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(!errors.contains("secret"), "{errors}");
        errors
    };
    let check = |args: &[&str], expected: &str| check_with(args, &[], expected);
    let line_with = |args: &[&str], env: &[(&str, &str)], expected: &str| {
        let errors = check_with(args, env, expected);
        assert_eq!(errors.lines().count(), 1, "{errors}");
    };
    let line = |args: &[&str], expected: &str| line_with(args, &[], expected);
    line(&["--db", "missing.db"], "no such file");
    let database = "postgres://ann:12/secret@127.0.0.1/books";
    line(&["--ledger", database], "QIANG__LEDGER__URL");
    let variable = [("QIANG__LEDGER__URL", database)];
    line_with(&["--ledger"], &variable, "cannot be read");
    line(&["--ledger"], "names no database");
    check(
        &[
            "--db",
            "qiang.db",
            "--ledger",
            "mysql://ann@127.0.0.1/books",
        ],
        "cannot be used with",
    );
    let redis = "redis://ann:secret@127.0.0.1:1";
    line(&["--redis", redis], "QIANG__REDIS__PASSWORD");
    // No server listens there.
    let variable = [("QIANG__REDIS__URLS", redis)];
    line_with(&["--redis"], &variable, "cannot connect to Redis");
    let redis = ["--redis", "redis://ann@127.0.0.1:1"];
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
