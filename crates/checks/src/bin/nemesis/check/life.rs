//! Checks of ended campaigns: everything is closed, every unit is sold or returned, and every packet is refunded once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, Findings};
use crate::{
    history::{Answer, Campaign, Evidence, Operation, Wish},
    rows::Rows,
};

pub(super) fn check(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    for campaign in evidence.campaigns.values() {
        ended(evidence, campaign, rows, findings);
        if campaign.is_packet {
            refunded(campaign, rows, findings);
            sold_out(evidence, campaign, rows, findings);
        }
    }
    orders(evidence, rows, findings);
    windows(evidence, findings);
    late_claims(evidence, findings);
}

/// Checks that the campaign is closed, has the seller's last supply, and that all of it is granted or returned.
fn ended(evidence: &Evidence, campaign: &Campaign, rows: &Rows, findings: &mut Findings) {
    // The check of units reports a missing campaign.
    let Some(row) = rows.campaigns.get(&campaign.id) else {
        return;
    };
    let id = &campaign.id;
    if row.phase != "closed" || row.escrow != 0 {
        findings.violation(Breach::Open, format!("campaign {id}: {row:?}"));
    }
    let supply = stock(evidence, campaign);
    if row.supply != supply {
        let text = format!(
            "campaign {id} has a supply of {} instead of {supply}",
            row.supply
        );
        findings.violation(Breach::Units, text);
    }
    if let Some(engine) = rows.engine.get(id).filter(|engine| engine.remaining > 0) {
        let text = format!("the engine still has units of campaign {id}: {engine:?}");
        findings.violation(Breach::Open, text);
    }
}

/// The last answered stock. One seller sends the requests one after the other.
fn stock(evidence: &Evidence, campaign: &Campaign) -> u32 {
    let of_it = |operation: &&Operation| operation.campaign == campaign.id;
    let answers = evidence.operations.iter().filter(of_it);
    let mut stocks = answers
        .flat_map(|operation| &operation.attempts)
        .filter_map(|attempt| match attempt.answer {
            Answer::Stock(stock) => Some(stock),
            _ => None,
        });
    stocks.next_back().unwrap_or(campaign.supply)
}

/// Checks that unclaimed shares were refunded to the sender, once by the log of each shard.
fn refunded(campaign: &Campaign, rows: &Rows, findings: &mut Findings) {
    let id = &campaign.id;
    let of_it = rows.refunds.iter().filter(|(of, ..)| of == id);
    let (mut sources, mut sum) = (BTreeSet::new(), 0);
    for (_, source, amount) in of_it {
        sum += amount;
        if *source < 0 || !sources.insert(*source) {
            let text = format!("packet {id}: log {source} refunded {amount} again or as residue");
            findings.violation(Breach::Money, text);
        }
    }
    let grants = rows.grants.iter().filter(|((of, _), _)| of == id);
    let claimed: i64 = grants.map(|(_, row)| row.amount).sum();
    if sum != campaign.minor - claimed {
        let text = format!(
            "packet {id}: of {}, {claimed} are claimed and {sum} refunded",
            campaign.minor
        );
        findings.violation(Breach::Money, text);
    }
}

/// Shares do not return to stock. So if a user was answered `sold-out`, no share may be left.
fn sold_out(evidence: &Evidence, campaign: &Campaign, rows: &Rows, findings: &mut Findings) {
    let refused = Answer::Refused("sold-out".to_owned());
    let heard = evidence.operations.iter().any(|operation| {
        operation.campaign == campaign.id && operation.attempts.iter().any(|a| a.answer == refused)
    });
    let row = rows.campaigns.get(&campaign.id);
    if heard && let Some(row) = row.filter(|row| row.granted < row.supply) {
        let text = format!("packet {} was reported as sold out: {row:?}", campaign.id);
        findings.violation(Breach::Units, text);
    }
}

/// Checks that every order has ended as its buyer or the seller requested. A paid order has exactly one payment.
fn orders(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    let mut wanted = BTreeSet::new();
    for operation in &evidence.operations {
        let (what, number) = match &operation.wish {
            Wish::Pay { number, .. } => ("paid", number),
            Wish::Cancel { number } | Wish::CancelUnits { number, .. } => ("cancelled", number),
            Wish::Return { number } | Wish::ReturnUnits { number, .. } => ("returned", number),
            Wish::Claim { .. } | Wish::SetStock { .. } => continue,
        };
        wanted.insert((operation.campaign.as_str(), *number, what));
    }
    let mut paid: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for (campaign, number, _, outcome, _) in &rows.payments {
        if outcome != "refund_due" {
            *paid.entry((campaign, *number)).or_default() += 1;
        }
    }
    for ((campaign, number), row) in &rows.grants {
        let state = row.state.as_str();
        let place = (campaign.as_str(), *number);
        let payments = paid.get(&place).copied().unwrap_or_default();
        let (is_wanted, payments_due) = match state {
            "granted" | "expired" => (true, 0),
            "cancelled" => (wanted.contains(&(place.0, place.1, state)), 0),
            "paid" | "returned" => (wanted.contains(&(place.0, place.1, state)), 1),
            _ => {
                findings.violation(Breach::Open, format!("order {campaign}-{number}: {row:?}"));
                continue;
            }
        };
        if !is_wanted {
            let text = format!("order {campaign}-{number} is {state} without a request");
            findings.violation(Breach::Phantom, text);
        }
        if payments != payments_due {
            let text = format!("order {campaign}-{number} is {state} but has {payments} payments");
            findings.violation(Breach::Money, text);
        }
    }
}

/// Checks that no unit is granted before the start, or at the end or later.
fn windows(evidence: &Evidence, findings: &mut Findings) {
    for operation in &evidence.operations {
        let campaign = evidence.campaigns.get(&operation.campaign);
        let Some(window) = campaign.and_then(|campaign| campaign.window) else {
            continue;
        };
        for (_, grant, ..) in operation.grants() {
            let at = grant.granted_at.parse::<jiff::Timestamp>();
            let is_in = |at: jiff::Timestamp| {
                (window.starts_ms..window.ends_ms).contains(&at.as_millisecond())
            };
            if !at.is_ok_and(is_in) {
                let text = format!("{grant:?} of {} is not in {window:?}", operation.campaign);
                findings.violation(Breach::Units, text);
            }
        }
    }
}

/// A user's last claim arrives after the start, so its answer must not be `not-started`.
fn late_claims(evidence: &Evidence, findings: &mut Findings) {
    let refused = Answer::Refused("not-started".to_owned());
    let mut last: BTreeMap<(&str, &str), &Operation> = BTreeMap::new();
    for operation in &evidence.operations {
        if let Wish::Claim { user, .. } = &operation.wish {
            last.insert((&operation.campaign, user), operation);
        }
    }
    for ((campaign, user), operation) in last {
        if operation
            .attempts
            .iter()
            .any(|attempt| attempt.answer == refused)
        {
            let text = format!("{user} got `not-started` for {campaign} after its start");
            findings.violation(Breach::Unexpected, text);
        }
    }
}
