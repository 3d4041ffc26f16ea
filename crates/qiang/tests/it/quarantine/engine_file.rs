//! The file of an embedded engine: the program lists and settles entries that its ledger refused, while no node serves
//! the file.

use std::{path::Path, process::Command, time::Duration};

use qiang_core::{
    book,
    event::PartitionId,
    money::Money,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EventLog as _, SettlementStore as _,
    },
    split::SplitRule,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, red_packet, user},
};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

const SHARES: u32 = 9;
const WAIT_MAX: Duration = Duration::from_secs(20);

fn run(path: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(path).unwrap();
    assert_eq!(conn.execute(sql, []).unwrap(), 1, "{sql}");
}

/// File of a stopped engine that granted all shares of a packet. Its ledger lacks one of the shares.
async fn engine_file(path: &Path) {
    let embedded = Embedded::open(path, ManualClock::new(OPENS)).unwrap();
    let setup = red_packet(900, SHARES, SplitRule::Equal).setup(1);
    let (id, owner) = (Uuid::from_u128(1), user("owner"));
    let funds = Money::new(900, currency());
    embedded.deposit(id, &owner, funds).await.unwrap();
    embedded.create(&setup).await.unwrap();
    run(
        path,
        "UPDATE shares SET number = number + 1000 WHERE number = 5",
    );
    let packet = Target::of(&setup);
    let open = book::Command::Open(Box::new(setup));
    embedded.submit(open).await.unwrap();
    for n in 0..SHARES {
        let claimed = embedded.claim(packet.one(&format!("u{n}"))).await;
        assert!(claimed.unwrap().outcome.grant().is_some());
    }
    let partition = PartitionId(0);
    let head = embedded.head(partition).await.unwrap();
    let settled = embedded.await_settled(partition, head, WAIT_MAX).await;
    assert_eq!(settled, Ok(true));
    embedded.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quarantine_of_an_engine_is_listed_and_settled() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    engine_file(&path).await;
    let qiang = |args: &[&str]| -> (Option<i32>, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
        let output = command.args(args).arg("--json").env_clear();
        let output = output.current_dir(folder.path()).output().unwrap();
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|_| {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        });
        (output.status.code(), report)
    };
    let data = ["--data", path.to_str().unwrap()];
    let redrive = || qiang(&[&["quarantine", "redrive", "--all"], &data[..]].concat());
    let audit = || qiang(&["audit", "--db", data[1]]);

    let (code, listed) = qiang(&[&["quarantine", "list"], &data[..]].concat());
    assert_eq!(
        (code, listed["data"].as_array().unwrap().len()),
        (Some(0), 1)
    );
    let event = listed["data"][0]["event"].as_str().unwrap();
    assert!(event.starts_with("granted 5 "), "{listed}");
    assert_eq!(audit().0, Some(1));
    let (code, driven) = redrive();
    assert_eq!(
        (code, driven["settled"].as_array().unwrap().len()),
        (Some(1), 0)
    );

    run(
        &path,
        "UPDATE shares SET number = number - 1000 WHERE number > 1000",
    );
    // A dry run lists entries, and changes nothing.
    for (which, code, tried, absent) in [(&["--all"][..], 0, 1, 0), (&["0", "999"][..], 1, 0, 1)] {
        let rehearse = ["quarantine", "redrive", "--dry-run"];
        let (ended, said) = qiang(&[&rehearse, which, &data[..]].concat());
        let count = |field: &str| said[field].as_array().unwrap().len();
        assert_eq!(ended, Some(code), "{said}");
        assert_eq!(
            (count("would_try"), count("not_set_aside")),
            (tried, absent)
        );
    }
    assert_eq!(audit().0, Some(1), "a dry run settled an entry");
    let (code, driven) = redrive();
    assert_eq!(
        (code, driven["settled"].as_array().unwrap().len()),
        (Some(0), 1)
    );
    let (code, report) = audit();
    assert_eq!(code, Some(0), "{report:#}");
}
