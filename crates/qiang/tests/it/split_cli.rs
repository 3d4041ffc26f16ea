//! `qiang split` and `qiang split verify` as programs.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// The commitment of [`PACKET`] to [`NORMAL`] under [`SEED`].
const COMMITMENT: &str = "85e043d5ad5b9c3b2bc01fd2c5da4a71b4a2ad0035f1d3bad8f989f652728557";
const PACKET: &str = "--id 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --currency CNY";
const NORMAL: &str = "--total 10000 --count 10 --rule normal --min 500 --max 2000";
const SHARES: &str = "863,945,985,1104,843,1150,821,1177,882,1230";

/// Runs `qiang split` with the options of `line`.
fn split(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qiang"))
        .arg("split")
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Expects exit code 0 and no standard error; returns standard output.
fn succeed(line: &str) -> String {
    let output = split(line);
    assert_eq!(text(&output.stderr), "", "{line}");
    assert_eq!(output.status.code(), Some(0), "{line}");
    text(&output.stdout).to_owned()
}

fn json(line: &str) -> Value {
    serde_json::from_str(&succeed(line)).unwrap()
}

#[test]
fn json_has_all_that_verifying_needs() {
    let report = json(&format!("{NORMAL} {PACKET} --seed {SEED} --json"));
    let shares: Vec<i64> = SHARES
        .split(',')
        .map(|share| share.parse().unwrap())
        .collect();
    let expected = serde_json::json!({
        "seed": SEED, "commitment": COMMITMENT, "version": 1, "total": 10000, "count": 10,
        "rule": "normal", "min": 500, "max": 2000, "shares": shares,
    });
    assert_eq!(report, expected);
    let equal = json(&format!(
        "--total 30 --count 3 --rule equal --seed {SEED} --json"
    ));
    assert_eq!(equal["shares"], serde_json::json!([10, 10, 10]));
    assert!(equal.get("min").is_none() && equal.get("max").is_none());
    assert_eq!(equal.get("commitment"), None, "binds no packet");
}

#[test]
fn text_shows_the_proof_the_figures_and_every_share() {
    let text = succeed(&format!("{NORMAL} {PACKET} --seed {SEED} --shares"));
    let (head, rest) = text.split_once("\n\n").unwrap();
    let (bars, shares) = rest.split_once("\n\n").unwrap();
    assert_eq!(
        head,
        format!(
            "seed        {SEED}  (secret until the red packet is closed)\n\
             commitment  {COMMITMENT}  (publish it first)\n\
             split       10000 in 10 shares, normal, min 500, max 2000, version 1\n\
             shares      min 821, max 1230, mean 1000.00, stddev 144.98"
        )
    );
    let in_bar = |bar: &str| bar.rsplit(' ').next().unwrap().parse::<u32>().unwrap();
    assert_eq!(bars.lines().map(in_bar).sum::<u32>(), 10);
    assert_eq!(shares.lines().collect::<Vec<_>>().join(","), SHARES);
    // Without a packet there is no commitment.
    let unbound = succeed(&format!("{NORMAL} --seed {SEED} --shares"));
    let line = format!("commitment  {COMMITMENT}  (publish it first)\n");
    assert_eq!(unbound, text.replace(&line, ""));
}

#[test]
fn a_seed_is_drawn_afresh_when_none_is_given() {
    let line = "--total 1000000 --count 5 --rule double_average --json";
    let (one, two) = (json(line), json(line));
    assert_ne!(one["seed"], two["seed"]);
    assert_ne!(one["shares"], two["shares"]);
    let seed = one["seed"].as_str().unwrap();
    assert_eq!(json(&format!("{line} --seed {seed}")), one);
}

#[test]
fn svg_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("histogram.svg");
    for rule in ["double_average", "equal", "lazy"] {
        for (total, count) in [(1, 1), (7, 3), (1_000_000, 5000), (i64::MAX, 2)] {
            let split = format!("--total {total} --count {count} --rule {rule}");
            succeed(&format!("{split} --svg {}", path.display()));
            let svg = std::fs::read_to_string(&path).unwrap();
            assert!(
                svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
                "{svg}"
            );
            assert!(svg.contains(rule) && !svg.contains("NaN"), "{svg}");
        }
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let check = |line: &str, message: &str| {
        let output = split(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(text(&output.stdout), "", "{line}");
        let expected = format!("qiang split: {message}\n");
        assert_eq!(text(&output.stderr), expected, "{line}");
    };
    let impossible = "impossible split: change --total, --count, --min or --max";
    check(
        "--total 10 --count 20 --rule lazy",
        &format!("{impossible}: a total of 10 is too little for 20 shares of at least 1"),
    );
    check(
        "--total 101 --count 10 --rule normal --max 10",
        &format!("{impossible}: a total of 101 is too much for 10 shares of at most 10"),
    );
    check(
        "--total -5 --count 1 --rule equal",
        &format!("{impossible}: the total must be at least 1 minor unit, not -5"),
    );
    check(
        "--total 10 --count 2 --rule normal",
        "give --max: the rule normal needs a largest share",
    );
    check(
        "--total 10 --count 2 --rule lazy --max 9",
        "omit --max: the rule lazy has no largest share",
    );
    check(
        "--total 10 --count 2 --rule equal --min 2",
        "omit --min: the rule equal has no smallest share",
    );
    let verify = format!("verify {NORMAL} {PACKET} --seed {SEED} --commitment {COMMITMENT}");
    let output = split(&format!("{verify} --shares-file no/such/file"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn options_that_cannot_be_read_are_refused() {
    for line in [
        "",
        "--total 10",
        "--total 1.50 --count 2 --rule equal",
        "--total 10 --count 2 --rule Equal",
        "--total 10 --count 2 --rule equal --seed 00",
        "verify",
        &format!("verify {NORMAL} {PACKET} --seed {SEED} --commitment 00"),
        &format!("verify {NORMAL} --seed {SEED} --commitment {COMMITMENT}"),
        &format!("{NORMAL} --currency CNY"),
        &format!("{NORMAL} --id 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"),
        &format!("--json verify {NORMAL} {PACKET} --seed {SEED} --commitment {COMMITMENT}"),
    ] {
        let output = split(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(!output.stderr.is_empty(), "{line}");
    }
}

/// Verifies with the additional options of `line`; expects the exit code and standard output.
fn check_verify(line: &str, code: i32, expected: &str) {
    let output = split(&format!("verify {line}"));
    assert_eq!(text(&output.stderr), "", "{line}");
    assert_eq!(text(&output.stdout), expected, "{line}");
    assert_eq!(output.status.code(), Some(code), "{line}");
}

#[test]
fn verify_tells_a_true_split_from_a_false_one() {
    let good = "commitment  matches\n";
    let proof = format!("{NORMAL} {PACKET} --seed {SEED} --commitment {COMMITMENT}");
    check_verify(&proof, 0, good);
    let all = format!("{good}shares      match, all 10\n");
    check_verify(&format!("{proof} --share {SHARES}"), 0, &all);
    let report = json(&format!("verify {proof} --share {SHARES} --json"));
    let fits = serde_json::json!({ "matches": true });
    let expected = serde_json::json!({ "matches": true, "commitment": fits, "shares": fits });
    assert_eq!(report, expected);
    let wrong = split(&format!("verify {proof} --share 1,2 --json"));
    let report: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    let difference = "2 were given, the split has 10";
    let expected = serde_json::json!({
        "matches": false, "commitment": fits, "shares": { "matches": false, "difference": difference }
    });
    assert_eq!((wrong.status.code(), report), (Some(1), expected));

    let no = "shares      do not match:";
    check_verify(
        &format!("{proof} --share {}", SHARES.replace("985", "986")),
        1,
        &format!("{good}{no} share 3 was given as 986, the split makes it 985\n"),
    );
    check_verify(
        &format!("{proof} --share 863 --share 945"),
        1,
        &format!("{good}{no} 2 were given, the split has 10\n"),
    );
    let other = proof.replace("--max 2000", "--max 2001");
    let output = split(&format!("verify {other}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("commitment  does not match"));
    // Matching shares do not compensate for a wrong commitment.
    check_verify(
        &format!("{NORMAL} {PACKET} --seed {SEED} --commitment {SEED} --share {SHARES}"),
        1,
        &format!(
            "commitment  does not match: this seed and split commit to {COMMITMENT}\n\
             shares      match, all 10\n"
        ),
    );
}

#[test]
fn verify_compares_a_server_seed_with_its_hash() {
    let client_seed = "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8e7e6e5e4e3e2e1e0";
    let (seed, commitment) = (
        "ac952f3e1412836d4b6259d3f7eb1547371ea5ebf8669f33b3c03bdf8122a6ff",
        "864e69af4743001275501a7ee0abdcfe6d59b678052f6186f35965484b2034ab",
    );
    let hash = "b50ad7a0c71f1b8068b6c633cedf514b4e4d9674f6e6d952191465883e6ac164";
    let bound = format!("{NORMAL} --seed {seed} --commitment {commitment} {PACKET}");
    let proof = format!(
        "{bound} --server-seed-hash {hash} --server-seed {SEED} --client-seed {client_seed}"
    );
    let good = "commitment  matches\n";
    check_verify(&bound, 0, good);
    let kept = "server seed matches its hash, and the seed is made of both parts\n";
    check_verify(&proof, 0, &format!("{kept}{good}"));
    for (from, to, fault) in [
        (hash, seed, "the hash is not that of this server seed"),
        (
            client_seed,
            seed,
            "server seed and client seed do not make the seed",
        ),
    ] {
        let wrong = format!("server seed differs: {fault}\n{good}");
        check_verify(&proof.replace(from, to), 1, &wrong);
    }
    for (from, to) in [("CNY", "USD"), ("6f80", "6f81")] {
        let output = split(&format!("verify {}", bound.replace(from, to)));
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stdout).starts_with("commitment  does not match"));
    }
    // Part of the proof is refused.
    for missing in [
        " --currency CNY".to_owned(),
        format!(" --client-seed {client_seed}"),
    ] {
        let output = split(&format!("verify {}", proof.replace(&missing, "")));
        assert_eq!(output.status.code(), Some(2), "{missing}");
    }
}

#[test]
fn verify_reads_what_split_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shares");
    let proof = format!("{NORMAL} {PACKET} --seed {SEED} --commitment {COMMITMENT}");
    let good = "commitment  matches\nshares      match, all 10\n";
    for written in [
        succeed(&format!("{NORMAL} {PACKET} --seed {SEED} --json")),
        SHARES.replace(',', "\n"),
    ] {
        std::fs::write(&path, &written).unwrap();
        let file = path.display();
        check_verify(&format!("{proof} --shares-file {file}"), 0, good);
    }

    let mut child = Command::new(env!("CARGO_BIN_EXE_qiang"))
        .args(["split", "verify", "--shares-file", "-"])
        .args(proof.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(SHARES.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), good);
    assert_eq!(output.status.code(), Some(0));
}

/// A reader that closes the pipe causes no error message.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_qiang"))
        .args("split --total 1000000 --count 500000 --rule equal --shares".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
}
