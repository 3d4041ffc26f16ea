//! Checks of money and units: none appear from nowhere, and none disappear.

use std::collections::BTreeMap;

use super::{Breach, Findings};
use crate::{
    history::{Evidence, Level},
    rows::{CampaignRow, GrantRow, Rows},
};

pub(super) fn check(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    let mut of_campaign: BTreeMap<&str, Vec<&GrantRow>> = BTreeMap::new();
    for ((campaign, _), row) in &rows.grants {
        of_campaign.entry(campaign).or_default().push(row);
    }
    let (mut funded, mut refunded) = (0, 0);
    let taken = taken_max(evidence);
    for campaign in evidence.campaigns.values() {
        let withheld = rows.withheld.get(&campaign.id).copied().unwrap_or(0);
        let most = taken.saturating_mul(u64::from(campaign.limit));
        if u64::from(withheld) > most {
            let text = format!(
                "campaign {}: repairs withhold {withheld} units, but faults can have taken only {most}",
                campaign.id
            );
            findings.violation(Breach::Units, text);
        }
        let Some(row) = rows.campaigns.get(&campaign.id) else {
            let text = format!("the ledger does not have campaign {}", campaign.id);
            findings.violation(Breach::Lost, text);
            continue;
        };
        let grants = of_campaign.get(campaign.id.as_str());
        let grants = grants.map_or(&[][..], Vec::as_slice);
        units(&campaign.id, row, grants, rows, findings);
        limits(&campaign.id, campaign.limit, grants, findings);
        if campaign.is_packet {
            funded += campaign.minor;
            refunded += row.refunded;
            let claimed: i64 = grants.iter().map(|grant| grant.amount).sum();
            let sum = claimed + row.refunded + row.escrow;
            if sum != campaign.minor {
                let text = format!(
                    "packet {}: funded {}, but claimed {claimed} + refunded {} + escrow {} = {sum}",
                    campaign.id, campaign.minor, row.refunded, row.escrow
                );
                findings.violation(Breach::Money, text);
            }
        }
    }
    accounts(evidence, rows, funded, refunded, findings);
    accepted(evidence, rows, findings);
}

/// Checks that every payment of an order has an amount that its sale accepts.
fn accepted(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    for (campaign, number, reference, outcome, amount) in &rows.payments {
        let grant = rows.grants.get(&(campaign.clone(), *number));
        let Some((grant, sale)) = grant.zip(evidence.campaigns.get(campaign)) else {
            continue;
        };
        let is_accepted = sale.policy.accepts(amount - grant.amount);
        if outcome != "refund_due" && !is_accepted {
            let text = format!(
                "payment {reference} of {amount} is {outcome}: order {campaign}-{number} costs {}",
                grant.amount
            );
            findings.violation(Breach::Money, text);
        }
    }
}

/// Maximum log entries that faults can have taken without a node that can name them. Each request in flight counts one,
/// and one more for an ended hold or for units moved because of it.
fn taken_max(evidence: &Evidence) -> u64 {
    let attempts = evidence.operations.iter().flat_map(|o| &o.attempts);
    let under_way = attempts.filter(|attempt| evidence.excuses(attempt, Level::Memory));
    2 * under_way.count() as u64
}

fn units(id: &str, row: &CampaignRow, grants: &[&GrantRow], rows: &Rows, findings: &mut Findings) {
    let units: u32 = grants.iter().map(|grant| grant.units()).sum();
    let mut wrong = |what: String| {
        findings.violation(Breach::Units, format!("campaign {id}: {what}"));
    };
    if units != row.granted {
        wrong(format!(
            "grants have {units} units, but the campaign counts {}",
            row.granted
        ));
    }
    if row.granted + row.returned > row.supply {
        wrong(format!("oversold: {row:?}"));
    }
    if row.phase == "closed" && row.granted + row.returned != row.supply {
        wrong(format!("closed, but units are missing: {row:?}"));
    }
    let Some(engine) = rows.engine.get(id) else {
        return;
    };
    let engine_units = engine.granted + engine.remaining + engine.returned + engine.withheld;
    if engine_units != engine.supply {
        wrong(format!("the engine's numbers do not add up: {engine:?}"));
    }
    if (engine.granted, engine.returned) != (row.granted, row.returned) {
        wrong(format!(
            "the engine has {engine:?}, but the ledger has {row:?}"
        ));
    }
}

fn limits(id: &str, limit: u32, grants: &[&GrantRow], findings: &mut Findings) {
    let mut of_user: BTreeMap<&str, u32> = BTreeMap::new();
    for grant in grants.iter().filter(|grant| grant.is_held()) {
        *of_user.entry(&grant.user).or_default() += grant.units();
    }
    for (user, units) in of_user.into_iter().filter(|(_, units)| *units > limit) {
        let text = format!("{user} has {units} units of {id}, but the limit is {limit}");
        findings.violation(Breach::Twice, text);
    }
}

/// Checks that users have exactly their shares, the seller exactly the payments, and the sender the rest.
fn accounts(evidence: &Evidence, rows: &Rows, funded: i64, refunded: i64, findings: &mut Findings) {
    let mut wrong = |what: String| findings.violation(Breach::Money, what);
    if rows.sum != 0 {
        wrong(format!("all balances add up to {} instead of 0", rows.sum));
    }
    let mut due: BTreeMap<&str, i64> = BTreeMap::new();
    for row in rows.grants.values().filter(|row| row.state == "granted") {
        *due.entry(&row.user).or_default() += row.amount;
    }
    for (user, balance) in &rows.balances {
        let due = due.remove(user.as_str()).unwrap_or_default();
        if *balance != due {
            wrong(format!("{user} has {balance} instead of shares of {due}"));
        }
    }
    for (user, due) in due {
        wrong(format!("{user} has no account, but shares of {due}"));
    }
    let sender = evidence.deposited - funded + refunded;
    if rows.sender != sender {
        wrong(format!(
            "the sender has {} instead of {sender}",
            rows.sender
        ));
    }
    let mut sold = 0;
    let mut owed: BTreeMap<&str, i64> = BTreeMap::new();
    for (campaign, number, _, outcome, amount) in &rows.payments {
        let Some(grant) = rows.grants.get(&(campaign.clone(), *number)) else {
            continue;
        };
        // A refund is due for returned units, as for a payment that buys nothing.
        let back = match outcome.as_str() {
            "refund_due" => *amount,
            _ => grant.owed_of(*amount),
        };
        if back > 0 {
            *owed.entry(&grant.user).or_default() += back;
        }
        sold += amount - back;
    }
    if rows.seller != sold {
        wrong(format!("the seller has {} instead of {sold}", rows.seller));
    }
    for (user, balance) in &rows.refunds_due {
        let owed = owed.remove(user.as_str()).unwrap_or_default();
        if *balance != owed {
            wrong(format!("{user} is owed {balance} instead of {owed}"));
        }
    }
    for (user, owed) in owed {
        wrong(format!("{user} is owed nothing instead of {owed}"));
    }
}
