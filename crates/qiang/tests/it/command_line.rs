//! Output of the command line about itself: configuration, versions, completions, manuals, colours.

use std::{path::Path, process::Output};

use crate::common::output;
use serde_json::Value;

const KEY: (&str, &str) = (
    "QIANG__AUTH__HS256_SECRET",
    "0123456789-0123456789-0123456789",
);

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn printed(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = output(folder, args, env);
    assert!(status.success(), "{args:?}: {}", text(stderr));
    text(stdout)
}

#[test]
fn a_configuration_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &str, env: &[(&str, &str)], expected: &[&str]| {
        std::fs::write(folder.path().join("q.toml"), file).unwrap();
        let ended = output(
            folder.path(),
            &["config", "check", "--config", "q.toml"],
            env,
        );
        let stderr = text(ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{file}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
        for expected in expected {
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
    };
    check(
        "[log]\nformat = 'xml'\n",
        &[KEY],
        &["q.toml:2: ", "log.format", "text", "json"],
    );
    check("[log]\nlevel = 'x=y=z'\n", &[KEY], &["log.level"]);
    #[cfg(not(feature = "rabbitmq"))]
    check(
        "[engine]\nkind = 'redis'\n[settlement]\ntransport = 'rabbitmq'\n",
        &[KEY],
        &["q.toml:4: ", "settlement.transport", "--features rabbitmq"],
    );
    check(
        "[server]\nlistn = 'x'\n",
        &[KEY],
        &["q.toml:2: ", "listn", "`listen`"],
    );
    check("[server\n", &[KEY], &["q.toml:1: "]);
    check(
        "",
        &[KEY, ("QIANG__LOG__COLOR", "red")],
        &["QIANG__LOG__COLOR: ", "never"],
    );
    check("", &[], &["auth.hs256_secret_file"]);
    std::fs::write(
        folder.path().join("q.toml"),
        "[server]\nlisten = '127.0.0.1:1'\n",
    )
    .unwrap();
    let good = ["config", "check", "--config", "q.toml"];
    assert_eq!(
        printed(folder.path(), &good, &[KEY]),
        "the configuration is valid\n"
    );
    assert!(
        !folder.path().join("qiang.db").exists(),
        "it opened an engine"
    );
}

#[test]
fn a_configuration_is_shown_with_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[server]\n\nlisten = '127.0.0.1:1'\n[redis]\nurls = 'redis://ann:hunter2@h'\n";
    std::fs::write(folder.path().join("q.toml"), file).unwrap();
    let args = [
        "config",
        "show",
        "--changed",
        "--config",
        "q.toml",
        "--data",
        "x.db",
    ];
    let shown = printed(folder.path(), &args, &[KEY]);
    let expected = "server.listen = \"127.0.0.1:1\"  # q.toml:3\n\
                    engine.data = \"x.db\"  # flag\n\
                    redis.urls = \"redis://(hidden)@h\"  # q.toml:5\n\
                    auth.hs256_secret = \"(hidden)\"  # QIANG__AUTH__HS256_SECRET\n";
    assert_eq!(shown, expected);
    let all = printed(folder.path(), &["config", "show", "--json"], &[KEY]);
    let all: Vec<Value> = all
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kind = all
        .iter()
        .find(|setting| setting["key"] == "engine.kind")
        .unwrap();
    assert_eq!(
        (&kind["value"], &kind["source"]),
        (&"embedded".into(), &"default".into())
    );
    assert!(all.len() > 80 && !format!("{all:?}").contains(KEY.1));
}

#[test]
fn an_audit_reads_the_ledger_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &str, args: &[&str], env: &[(&str, &str)], expected: &str| {
        std::fs::write(folder.path().join("q.toml"), file).unwrap();
        let args = [&["audit", "--config", "q.toml"], args].concat();
        let ended = output(folder.path(), &args, env);
        let stderr = text(ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    };
    let engine = "[engine]\ndata = 'of_the_file.db'\n";
    check(engine, &[], &[], "of_the_file.db");
    check(
        engine,
        &[],
        &[("QIANG__ENGINE__DATA", "of_a_variable.db")],
        "of_a_variable.db",
    );
    check(engine, &["--db", "of_a_flag.db"], &[], "of_a_flag.db");
    let database = "[engine]\nkind = 'redis'\n[ledger]\nurl = 'oracle://h/d'\n";
    check(database, &[], &[], "postgres");
}

/// All users of the machine can read a password in an argument.
#[test]
fn no_password_is_taken_from_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let check = |args: &[&str], flag: &str, variable: &str| {
        for url in ["x://ann:sesame@127.0.0.1:1/d", "x://:sesame@127.0.0.1:1"] {
            let ended = output(folder.path(), &[args, &[flag, url]].concat(), &[KEY]);
            let stderr = text(ended.stderr);
            assert_eq!(ended.status.code(), Some(2), "{args:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            let is_named = stderr.contains(flag) && stderr.contains(variable);
            assert!(is_named && !stderr.contains("sesame"), "{stderr}");
        }
    };
    for command in [
        &["serve"][..],
        &["worker"],
        &["config", "check"],
        &["config", "show"],
        &["migrate"],
        &["quarantine", "list"],
        &["quarantine", "redrive", "--all"],
        &["partition", "list"],
        &["partition", "repair", "0"],
        &["reconciler", "run", "keys"],
        &["reconcile"],
    ] {
        check(command, "--ledger", "QIANG__LEDGER__URL");
        check(command, "--redis", "QIANG__REDIS__PASSWORD");
        check(command, "--rabbitmq", "QIANG__SETTLEMENT__RABBITMQ_URL");
    }
    check(&["demo"], "--ledger", "QIANG_DEMO_LEDGER");
    check(&["demo"], "--redis", "QIANG_DEMO_REDIS");
    check(&["demo"], "--rabbitmq", "QIANG_DEMO_RABBITMQ");
    assert!(folder.path().read_dir().unwrap().next().is_none());
}

#[test]
fn shells_and_manuals_know_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(folder.path(), &["completions", shell], &[]);
        assert!(
            script.contains("set-stock") && script.contains("idempotency-key"),
            "{shell}"
        );
    }
    std::fs::create_dir(folder.path().join("man")).unwrap();
    printed(folder.path(), &["man", "man"], &[]);
    let page = std::fs::read_to_string(folder.path().join("man/qiang-sale-create.1")).unwrap();
    assert!(
        page.contains("Example") && page.contains("units one user")
            || page.contains("one user may have"),
        "{page}"
    );
    assert_eq!(
        output(folder.path(), &["man", "missing"], &[])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn the_version_says_which_build_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let short = printed(folder.path(), &["-V"], &[]);
    let long = printed(folder.path(), &["--version"], &[]);
    let date = short
        .trim_end()
        .trim_end_matches(')')
        .rsplit(", ")
        .next()
        .unwrap();
    let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
    assert!(is_date || date == "date unknown", "{short}");
    assert!(long.starts_with(short.trim_end()), "{long}");
    let schemas = qiang::SCHEMAS.map(|(name, version)| format!("{name} {version}"));
    assert!(long.contains(&schemas.join(", ")), "{long}");
}

#[test]
fn colours_are_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let is_coloured = |args: &[&str], env: &[(&str, &str)]| {
        let ended = output(folder.path(), args, env);
        text(ended.stdout).contains('\u{1b}') || text(ended.stderr).contains('\u{1b}')
    };
    assert!(is_coloured(&["--color", "always", "--help"], &[]));
    assert!(is_coloured(
        &["sale", "--help", "--color=always"],
        &[("NO_COLOR", "1")]
    ));
    assert!(!is_coloured(&["--color", "never", "--help"], &[]));
    assert!(!is_coloured(&["--help"], &[]));
    // The log of a service that cannot listen at its address.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let color = |when: &str| {
        printed(
            folder.path(),
            &["config", "show", "--changed", "--color", when],
            &[],
        )
    };
    assert_eq!(color("never"), "log.color = \"never\"  # flag\n");
    let wrong = output(
        folder.path(),
        &["serve", "--listen", &listen, "--color", "x"],
        &[KEY],
    );
    assert!(text(wrong.stderr).contains("auto, always, never"));
}
