//! Verdict after every kill: settled grants equal answered grants, nothing exists twice, money is conserved, and the
//! audit finds no fault.

use std::{collections::BTreeSet, process::Command as Program, sync::Arc};

use qiang_core::{
    book::{CampaignAction, Command, Reply},
    campaign::Tally,
    outcome::Outcome,
    ports::{Engine as _, GrantRecord, Ledger},
};
use qiang_testkit::campaign::{Target, user};
use serde_json::Value;

use crate::crash_matrix::{
    TransportKind,
    harness::{Harness, OWNER, PACKET_MINOR, UNIT_MINOR, blocking},
    ledgers::CellLedger,
    settler::Settler,
    users::{Answer, by_number},
};

const PAGE: u32 = 5_000;
/// Log message of a failed settlement.
pub(crate) const STUCK: &str = "a reconciler is stuck";
/// Part of the log message if entries did not arrive by the transport and were read from the log.
pub(crate) const REFILLED: &str = "did not bring all entries";

/// Closes the campaigns, waits until `settler` has settled all entries, and checks the result.
pub(crate) async fn judge(harness: &Harness, settler: Settler, answers: &[Answer]) {
    let targets = harness.targets();
    assert!(harness.engine.stopped().is_none() && blocking(|| harness.halted()).is_empty());
    let mut tallies = Vec::new();
    for Target { id, .. } in targets {
        let (campaign, action) = (id, CampaignAction::Close);
        let closed = harness
            .engine
            .submit(Command::Act { campaign, action })
            .await;
        assert!(matches!(closed, Ok(Reply::Acted(_))), "{closed:?}");
        let tally = harness.engine.tally(id).await.unwrap().expect("a campaign");
        assert!(tally.conserves(), "{tally:?}");
        tallies.push(tally);
    }
    replay(harness, answers).await;
    harness.wait_for_all(&settler).await;
    harness.wait_for_nothing_left().await;
    if harness.transport_kind != TransportKind::RabbitMq {
        // The transport delivers the entries of the dead process again. RabbitMQ takes longer than settlement waits.
        let output = settler.output();
        let since = output
            .split_once(STUCK)
            .map_or(&*output, |(_, since)| since);
        assert!(!since.contains(REFILLED), "{output}");
    }
    // A file has one writer.
    if let CellLedger::File { .. } = harness.ledger {
        blocking(|| settler.stop());
    }
    let check =
        async |ledger: Arc<dyn Ledger>| check_ledger(&*ledger, targets, &tallies, answers).await;
    harness.ledger.with(check).await;
    blocking(|| {
        let address = harness.ledger.address();
        let flag = match harness.ledger {
            CellLedger::File { .. } => "--db",
            CellLedger::Postgres(..) | CellLedger::MariaDb(..) => "--ledger",
        };
        audit(&[flag, address]);
        let beside = harness.engine_flags();
        let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
        let report = audit(&[&[flag, address], &beside[..]].concat());
        assert_eq!(report["in_flight"], 0, "{report}");
    });
    harness.engine.close().await;
    drop(settler);
    harness.clear_rabbit().await;
}

/// Checks that a repeated claim of a user with a grant gets the same grant.
async fn replay(harness: &Harness, answers: &[Answer]) {
    let tickets: Vec<_> = answers
        .iter()
        .map(|answer| harness.engine.claim(answer.claim.clone()))
        .collect();
    for (ticket, answer) in tickets.into_iter().zip(answers) {
        let again = ticket.await.map(|claimed| claimed.outcome);
        let Ok(Outcome::AlreadyGranted(again)) = again else {
            panic!("{answer:?} is {again:?} now");
        };
        let (again, first) = (again, answer.grant);
        assert_eq!(
            (again.number, again.amount_minor, again.granted_at),
            (first.number, first.amount_minor, first.granted_at)
        );
    }
}

async fn check_ledger(
    ledger: &dyn Ledger,
    targets: [Target; 2],
    tallies: &[Tally],
    answers: &[Answer],
) {
    let mut claimed_minor = 0;
    for (target, tally) in targets.into_iter().zip(tallies) {
        let answers = by_number(answers, target);
        assert!(!answers.is_empty(), "no user has a grant");
        let grants = grants(ledger, target).await;
        assert_eq!(
            grants.len(),
            tally.granted as usize,
            "settled grants differ from the tally"
        );
        let users: BTreeSet<&str> = grants.iter().map(|grant| grant.user.as_str()).collect();
        assert_eq!(users.len(), grants.len(), "a user has two grants");
        let settled: Vec<_> = grants
            .iter()
            .map(|grant| (grant.number, grant.user.as_str(), grant.amount_minor))
            .collect();
        let granted: Vec<_> = answers
            .values()
            .map(|answer| {
                (
                    answer.grant.number,
                    answer.claim.user.as_str(),
                    answer.grant.amount_minor,
                )
            })
            .collect();
        assert!(settled == granted, "settled grants differ from the answers");
        if target == targets[1] {
            claimed_minor = grants.iter().map(|grant| grant.amount_minor).sum();
        }
    }
    let paid = answers.iter().filter(|answer| answer.paid).count() as i64;
    let balances = ledger.balances(&user(OWNER)).await.unwrap();
    let [balance] = balances[..] else {
        panic!("{balances:?}")
    };
    let expected = PACKET_MINOR - claimed_minor + paid * UNIT_MINOR;
    assert_eq!(balance.available.minor, expected, "money is not conserved");
}

async fn grants(ledger: &dyn Ledger, target: Target) -> Vec<GrantRecord> {
    let mut grants: Vec<GrantRecord> = Vec::new();
    loop {
        let after = grants.last().map_or(0, |grant| grant.number);
        let page = ledger.grants(target.id, after, PAGE).await.unwrap();
        if page.is_empty() {
            return grants;
        }
        grants.extend(page);
    }
}

/// Runs `qiang audit` as an operator does.
pub(crate) fn audit(flags: &[&str]) -> Value {
    let output = Program::new(env!("CARGO_BIN_EXE_qiang"))
        .args(["audit", "--json"])
        .args(flags)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}{errors}");
    serde_json::from_str(&report).unwrap()
}
