//! What must be so at the end, whatever was killed: settled is granted, nothing is twice, money is conserved, and the
//! audit finds nothing.

use std::{collections::BTreeSet, process::Command as Program, sync::Arc};

use qiang_core::{
    book::{CampaignAction, Command, Reply},
    campaign::Tally,
    outcome::Outcome,
    ports::{Engine as _, GrantRecord, Ledger},
};
use qiang_testkit::campaign::{Target, user};
use serde_json::Value;

use crate::{
    TransportKind,
    books::Books,
    crowd::{Told, by_number},
    rig::{OWNER, PACKET_MINOR, Rig, UNIT_MINOR, blocking},
    settler::Settler,
};

const PAGE: u32 = 5_000;
/// What a process says when settlement has met a failure.
pub(crate) const STUCK: &str = "settlement is stuck";
/// What it says when something did not come by the transport, and was read from the log.
pub(crate) const REFILLED: &str = "did not bring all entries";

/// Closes the campaigns, waits until all is settled by `settler`, and judges.
pub(crate) async fn judge(rig: &Rig, settler: Settler, told: &[Told]) {
    let targets = rig.targets();
    assert!(rig.engine.stopped().is_none() && blocking(|| rig.halted()).is_empty());
    let mut tallies = Vec::new();
    for Target { id, .. } in targets {
        let (campaign, action) = (id, CampaignAction::Close);
        let closed = rig.engine.submit(Command::Act { campaign, action }).await;
        assert!(matches!(closed, Ok(Reply::Acted(_))), "{closed:?}");
        let tally = rig.engine.tally(id).await.unwrap().expect("a campaign");
        assert!(tally.conserves(), "{tally:?}");
        tallies.push(tally);
    }
    replay(rig, told).await;
    rig.wait_for_all(&settler).await;
    rig.wait_for_nothing_left().await;
    if rig.transport_kind != TransportKind::RabbitMq {
        // What the dead one had comes again by the same way. RabbitMQ has to be waited for longer than settlement does.
        let output = settler.output();
        let since = output
            .split_once(STUCK)
            .map_or(&*output, |(_, since)| since);
        assert!(!since.contains(REFILLED), "{output}");
    }
    // A file has one writer.
    if let Books::File { .. } = rig.books {
        blocking(|| settler.stop());
    }
    let check =
        async |ledger: Arc<dyn Ledger>| check_books(&*ledger, targets, &tallies, told).await;
    rig.books.with(check).await;
    blocking(|| {
        let address = rig.books.address();
        let flag = match rig.books {
            Books::File { .. } => "--db",
            Books::Postgres(..) | Books::MariaDb(..) => "--ledger",
        };
        audit(&[flag, address]);
        let beside = rig.engine_flags();
        let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
        let report = audit(&[&[flag, address], &beside[..]].concat());
        assert_eq!(report["in_flight"], 0, "{report}");
    });
    rig.engine.close().await;
    drop(settler);
    rig.clear_rabbit().await;
}

/// Whoever was told of a grant is told of the same one again.
async fn replay(rig: &Rig, told: &[Told]) {
    let tickets: Vec<_> = told
        .iter()
        .map(|told| rig.engine.claim(told.claim.clone()))
        .collect();
    for (ticket, told) in tickets.into_iter().zip(told) {
        let again = ticket.await.map(|claimed| claimed.outcome);
        let Ok(Outcome::AlreadyGranted(again)) = again else {
            panic!("{told:?} is {again:?} now");
        };
        let (again, first) = (again, told.grant);
        assert_eq!(
            (again.number, again.amount_minor, again.granted_at),
            (first.number, first.amount_minor, first.granted_at)
        );
    }
}

async fn check_books(ledger: &dyn Ledger, targets: [Target; 2], tallies: &[Tally], told: &[Told]) {
    let mut claimed_minor = 0;
    for (target, tally) in targets.into_iter().zip(tallies) {
        let told = by_number(told, target);
        assert!(!told.is_empty(), "nobody was granted anything");
        let grants = grants(ledger, target).await;
        assert_eq!(grants.len(), tally.granted as usize, "settled is granted");
        let users: BTreeSet<&str> = grants.iter().map(|grant| grant.user.as_str()).collect();
        assert_eq!(users.len(), grants.len(), "a user has two");
        let settled: Vec<_> = grants
            .iter()
            .map(|grant| (grant.number, grant.user.as_str(), grant.amount_minor))
            .collect();
        let granted: Vec<_> = told
            .values()
            .map(|told| {
                (
                    told.grant.number,
                    told.claim.user.as_str(),
                    told.grant.amount_minor,
                )
            })
            .collect();
        assert!(settled == granted, "what is settled is not what was told");
        if target == targets[1] {
            claimed_minor = grants.iter().map(|grant| grant.amount_minor).sum();
        }
    }
    let paid = told.iter().filter(|told| told.paid).count() as i64;
    let balances = ledger.balances(&user(OWNER)).await.unwrap();
    let [balance] = balances[..] else {
        panic!("{balances:?}")
    };
    let expected = PACKET_MINOR - claimed_minor + paid * UNIT_MINOR;
    assert_eq!(balance.available.minor, expected, "money is conserved");
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

/// The audit, as an operator makes it.
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
