//! Tests of `qiang-bench schemes` on real servers: exactness of each scheme, and removal of its data.

use std::{
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    redis::{Options, Reply, Standalone},
    wait_for,
};
use serde_json::Value;

use crate::beside_others;

const RUSH: &str = "--rush --users 500 --shares 20 --repeat 2";
const DRAIN: &str = "--drain --shares 2000 --waiting 200 --repeat 1";
/// Time limit of a run.
const RUN_MAX: Duration = Duration::from_secs(120);

fn schemes(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qiang-bench"));
    command.arg("schemes").args(line.split_whitespace());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs the benchmark on `redis` and expects this exit code. Returns the output.
fn bench(redis: &Standalone, line: &str, code: i32) -> Output {
    let output = schemes(&format!("--redis {} {line}", redis.url()))
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {errors}");
    output
}

/// Runs it with `--json` on the default schemes and expects success. Returns the schemes of the one load.
fn measured(redis: &Standalone, line: &str) -> Vec<Value> {
    let output = bench(redis, &format!("{line} --json"), 0);
    assert_eq!(text(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert!(report["redis"].as_str().unwrap().contains(' '), "{report}");
    let [load] = report["loads"].as_array().unwrap().as_slice() else {
        panic!("not one load: {report}");
    };
    load["schemes"].as_array().unwrap().clone()
}

fn names(schemes: &[Value]) -> Vec<&str> {
    schemes
        .iter()
        .map(|scheme| scheme["name"].as_str().unwrap())
        .collect()
}

fn named<'a>(schemes: &'a [Value], name: &str) -> &'a Value {
    schemes
        .iter()
        .find(|scheme| scheme["name"] == name)
        .unwrap()
}

fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn call(redis: &Standalone, words: &[&str]) -> Reply {
    redis.primary().call(words).unwrap()
}

const USUAL: [&str; 6] = ["queue", "counter", "deduct", "lock", "unlocked", "qiang"];

#[test]
fn a_rush_is_exact_where_it_must_be_and_every_figure_is_there() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let schemes = measured(&redis, RUSH);
    assert_eq!(names(&schemes), USUAL);
    for scheme in &schemes {
        let runs = scheme["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            // 500 users, 50 of whom click twice.
            assert_eq!(run["claims"], 550, "{scheme}");
            assert_eq!(run["failed"], 0, "{scheme}");
            let answered = ["grants", "already", "sold_out", "refused"].map(|of| figure(&run[of]));
            assert!((answered.iter().sum::<f64>() - 550.0).abs() < 1e-9, "{run}");
            for positive in ["claims_per_second", "redis_cpu_us_per_grant", "p50_us"] {
                assert!(figure(&run[positive]) > 0.0, "{run}");
            }
            assert!(figure(&run["p50_us"]) <= figure(&run["p99_us"]), "{run}");
        }
        let worst = |what: &str| scheme["median"][what].as_u64().unwrap();
        match scheme["exact"].as_str().unwrap() {
            "supply_and_users" => {
                assert_eq!(
                    worst("oversold") + worst("duplicates") + worst("stranded"),
                    0
                );
                assert!((figure(&scheme["median"]["success"]) - 1.0).abs() < 1e-9);
            }
            "supply" => assert_eq!(worst("oversold") + worst("stranded"), 0, "{scheme}"),
            _ => assert_eq!(scheme["name"], "unlocked"),
        }
    }
    let trips = |name| figure(&named(&schemes, name)["median"]["round_trips_per_claim"]);
    assert!((trips("queue") - 1.0).abs() < 1e-9);
    // 20 orders are pushed besides the 550 scripts.
    assert!((trips("counter") - 570.0 / 550.0).abs() < 1e-9);
    // Each claim also reads the status, and the first ones of a connection may have to send the script.
    let deduct = trips("deduct") * 550.0;
    assert!((1_120.0..=1_140.0).contains(&deduct.round()), "{deduct}");
    assert_eq!(named(&schemes, "queue")["published"]["qps"], 12_000);
    assert_eq!(named(&schemes, "lock")["published"]["qps"], 8_500);
    assert_eq!(named(&schemes, "unlocked")["published"]["qps"], 28_000);
}

#[test]
fn a_drain_leaves_no_unit_behind() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let schemes = measured(&redis, DRAIN);
    assert_eq!(names(&schemes), USUAL);
    for scheme in schemes.iter().filter(|scheme| scheme["name"] != "unlocked") {
        let run = &scheme["runs"][0];
        assert_eq!(
            (&run["claims"], &run["grants"]),
            (&2_200.into(), &2_000.into()),
            "{run}"
        );
        assert_eq!(run["right"], 2_000, "{run}");
        assert_eq!(run["broken"], serde_json::json!([]));
    }
    let trips = |name| figure(&named(&schemes, name)["median"]["round_trips_per_claim"]);
    // Six calls per grant; a loser has one, or more if it came with the last shares.
    assert!(
        trips("lock") >= (6.0 * 2_000.0 + 200.0) / 2_200.0,
        "{}",
        trips("lock")
    );
}

#[test]
fn second_clicks_take_twice_where_no_user_is_known() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let line = "--rush --users 100 --shares 20 --twice 1 --connections 1 --repeat 1";
    let schemes = measured(&redis, line);
    let duplicates = |name| {
        named(&schemes, name)["median"]["duplicates"]
            .as_u64()
            .unwrap()
    };
    // One after another, the first ten users take all twenty.
    for name in ["counter", "deduct", "unlocked"] {
        assert_eq!(duplicates(name), 10, "{name}");
    }
    for name in ["queue", "lock", "qiang"] {
        assert_eq!(duplicates(name), 0, "{name}");
    }
}

#[test]
fn nothing_is_left_behind_and_nothing_of_others_is_touched() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    call(&redis, &["SET", "hongBaoList", "mine"]);
    bench(&redis, RUSH, 0);
    bench(&redis, &format!("{RUSH} --scheme lock_printed"), 0);
    assert_eq!(call(&redis, &["DBSIZE"]), Reply::Integer(1));
    let mine = call(&redis, &["GET", "hongBaoList"]);
    assert_eq!(mine, Reply::Text("mine".to_owned()));
}

fn start(redis: &Standalone, line: &str) -> Child {
    schemes(&format!("--redis {} {line}", redis.url()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the drain of one scheme while the script cache is flushed repeatedly.
fn flushed(redis: &Standalone, scheme: &str) -> (Option<i32>, String) {
    let mut running = start(redis, &format!("{DRAIN} --scheme {scheme}"));
    let give_up = Instant::now() + RUN_MAX;
    let status = loop {
        call(redis, &["SCRIPT", "FLUSH"]);
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > give_up {
            running.kill().unwrap();
            panic!("{scheme} was not done within {RUN_MAX:?}");
        }
    };
    let errors = running.wait_with_output().unwrap().stderr;
    (status.code(), text(&errors).to_owned())
}

#[test]
fn a_scheme_that_must_be_exact_and_is_not_fails_the_run() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    // As published, the scheme calls its script only by its hash.
    let (code, errors) = flushed(&redis, "counter");
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("counter must be exact and was not"),
        "{errors}"
    );
    assert!(
        errors.contains("failed") && errors.contains("NoScript"),
        "{errors}"
    );
    // `queue` sends the text with every claim, and `lock` falls back to it.
    for scheme in ["queue", "lock"] {
        assert_eq!(
            flushed(&redis, scheme),
            (Some(0), String::new()),
            "{scheme}"
        );
    }
}

#[test]
fn an_order_that_cannot_be_published_is_lost_or_rolled_back() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new().line(r#"rename-command LPUSH """#));
    let line = format!("{RUSH} --scheme counter --scheme deduct --json");
    let output = bench(&redis, &line, 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let schemes = report["loads"][0]["schemes"].as_array().unwrap();
    let run = |name| named(schemes, name)["runs"][0].clone();
    // Twenty units are booked without an order.
    let lost = run("counter");
    assert_eq!(
        (&lost["mismatched"], &lost["failed"]),
        (&20.into(), &20.into()),
        "{lost}"
    );
    // Every unit is restocked, and taken again by the next user.
    let rolled_back = run("deduct");
    assert_eq!(rolled_back["mismatched"], 0, "{rolled_back}");
    assert_eq!(rolled_back["notes"]["rollbacks"], rolled_back["failed"]);
    assert!(figure(&rolled_back["failed"]) > 20.0, "{rolled_back}");
    let errors = text(&output.stderr);
    assert_eq!(errors.lines().count(), 2, "{errors}");
}

/// Blocks Redis for longer than the 3 s of a lock, but for less than the benchmark's time limit of 10 s for an answer.
/// It does nothing if no lock exists at that moment, because all waiting users may be between two locks.
const HOLD_UP: &str = "
    local seconds = function()
        local now = redis.call('TIME')
        return now[1] + now[2] / 1e6
    end
    if #redis.call('KEYS', 'qiang-bench:*:lock:*') == 0 then return 'no lock' end
    local till = seconds() + 3.5
    while seconds() < till do end
    return 'held up'";

#[test]
fn locks_that_expire_before_their_release_are_counted() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let running = start(
        &redis,
        "--drain --shares 20000 --repeat 1 --scheme lock --json",
    );
    wait_for("a user with a lock", RUN_MAX, || {
        // A blocked call fails at its time limit.
        let held_up = redis.primary().call(&["EVAL", HOLD_UP, "0"]);
        let nobody = held_up.is_ok_and(|reply| reply.text() == Some("no lock"));
        (!nobody).then_some(())
    });
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &report["loads"][0]["schemes"][0]["runs"][0];
    assert!(figure(&run["notes"]["lock_timeouts"]) >= 1.0, "{run}");
}

/// Checks that the row lock is exact under both loads, also if all users click twice.
fn row_lock_is_exact(sql: &str) {
    for (line, claims, grants) in [
        ("--rush --users 200 --shares 20 --twice 1", 400, 20),
        ("--drain --shares 200 --waiting 40", 240, 200),
    ] {
        let line = format!("--sql {sql} --scheme row_lock --repeat 1 --json {line}");
        let output = schemes(&line).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), errors), (Some(0), ""));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = &report["loads"][0]["schemes"][0]["runs"][0];
        assert_eq!(
            (&run["claims"], &run["right"]),
            (&claims.into(), &grants.into()),
            "{run}"
        );
        assert_eq!(run["broken"], serde_json::json!([]));
        // There is no Redis.
        assert_eq!(run["redis_cpu_us_per_claim"], Value::Null);
    }
}

#[test]
fn row_lock_on_postgres() {
    let _run = beside_others();
    let server = Postgres::start(&postgres::Options::new().without_fsync());
    row_lock_is_exact(&server.url());
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'qiang%'";
    assert_eq!(server.sql(tables).trim(), "0");
}

#[test]
fn row_lock_on_mariadb() {
    let _run = beside_others();
    let server = MariaDb::start(&mariadb::Options::new().without_fsync());
    row_lock_is_exact(&server.url());
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'qiang%'";
    assert_eq!(server.sql(tables).trim(), "0");
}

#[test]
fn the_table_and_the_picture_name_every_scheme() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("schemes.svg");
    let line = format!("{RUSH} --svg {}", picture.display());
    let output = bench(&redis, &line, 0);
    let table = text(&output.stdout);
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for name in USUAL {
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
        assert!(svg.contains(name), "{name} is not in the picture");
    }
    assert!(table.contains("28,000/s, 73%, oversold"), "{table}");
}

/// Expects exit code 2 and one line with this hint.
#[track_caller]
fn refuse(line: &str, hint: &str) {
    let output = schemes(line).output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains(hint) && errors.lines().count() == 1,
        "{errors}"
    );
}

#[test]
fn says_in_one_line_what_to_do() {
    let _run = beside_others();
    refuse("", "redis-server --port");
    refuse("--redis redis://192.0.2.1:6379", "--anywhere");
    refuse("--scheme row_lock", "--sql");
}

#[test]
fn a_redis_that_is_not_there_is_an_error_and_no_result() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    redis.kill();
    let output = bench(&redis, RUSH, 1);
    assert_eq!(text(&output.stdout), "");
    assert!(
        text(&output.stderr).contains("cannot connect to Redis"),
        "{output:?}"
    );
}
