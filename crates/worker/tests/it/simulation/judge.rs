//! Judges the end of a world: the auditor checks decisions and answers, and further checks follow.

use std::collections::HashMap;

use qiang_core::{
    book::Setup,
    campaign::CampaignKind,
    event::{Entry, Event},
    id::CampaignId,
    rows::AccountPurpose,
    time::{JUMP_MS_MAX, Timestamp},
};
use qiang_testkit::{
    auditor::{self, ExpectedLedger, History},
    campaign::user,
    simulation::{Decided, GRACE_MS, Rows, SAYS_UP_EVERY_MS},
};

use crate::simulation::world::{DEPOSIT_MINOR, Ending, World};

/// Tolerance for clocks that count whole milliseconds.
const ROUNDING_MS: i64 = 5;
/// Maximum delay of an expiry. Ticks are less than a second apart while the engine is up.
const LATE_MS: i64 = 10_000;

impl World {
    /// Adds all other breaches to those of the late retries.
    pub(crate) fn judge(&self, setups: &[Setup], late: Vec<String>) -> Ending {
        let decided = self.engine.decided();
        let rows = self.rows.lock().unwrap();
        let mut breaches = dates(&decided);
        breaches.extend(holds(&decided, setups));
        breaches.extend(late);
        // The calm at the end is longer than any hold with its grace.
        let held = rows.held_orders().into_iter();
        breaches.extend(held.map(|order| format!("order {order} is still held")));
        breaches.extend(
            setups
                .iter()
                .filter_map(|setup| closed(&decided.log, setup)),
        );
        if rows.entries() != decided.log {
            breaches.push("the ledger has other entries than the log".to_owned());
        }
        let reveals = self.reveals.lock().unwrap().clone();
        let packets = setups.iter().filter(|setup| is_packet(setup)).count();
        if reveals.len() != packets {
            breaches.push(format!("{} of {packets} seeds were shown", reveals.len()));
        }
        let mut numbers = *self.numbers.lock().unwrap();
        let granted = |entry: &&Entry| matches!(entry.event, Event::Granted { .. });
        numbers.grants = decided.log.iter().filter(granted).count() as u64;
        let expired = |entry: &&Entry| matches!(entry.event, Event::Expired { .. });
        numbers.expired = decided.log.iter().filter(expired).count() as u64;
        numbers.entries = decided.log.len() as u64;
        numbers.seeds_shown = reveals.len() as u64;
        (numbers.left, numbers.recalled) = decided.left_and_recalled;
        let history = History {
            setups: setups.to_vec(),
            deposits: vec![(user("owner"), DEPOSIT_MINOR)],
            exchanges: self.exchanges.lock().unwrap().clone(),
            in_order: true,
            reveals,
            logs: vec![decided.log],
            ..History::default()
        };
        match auditor::audit(&history) {
            Ok(expected) => breaches.extend(accounts(&expected, &rows)),
            Err(found) => breaches.extend(found),
        }
        Ending {
            breaches,
            numbers,
            history: format!("{:?}{:?}", history.logs, history.exchanges),
        }
    }
}

fn is_packet(setup: &Setup) -> bool {
    setup.campaign.kind() == CampaignKind::RedPacket
}

/// No entry has the time of a clock that has jumped.
fn dates(decided: &Decided) -> Vec<String> {
    let off =
        |(entry, truth): &(&Entry, &Timestamp)| entry.at.millis_since(**truth).abs() > JUMP_MS_MAX;
    let mut pairs = decided.log.iter().zip(&decided.truths);
    let found = pairs.find(off);
    let say = |(entry, _): (&Entry, _)| {
        let seq = entry.seq;
        format!("entry {seq} is dated by a jump of the clock")
    };
    found.map(say).into_iter().collect()
}

/// An order expires soon after the engine was up for the duration of its hold.
fn holds(decided: &Decided, setups: &[Setup]) -> Vec<String> {
    let sales = setups.iter().filter_map(|setup| {
        let sale = setup.campaign.rules.sale()?;
        Some((setup.campaign.id, sale.hold_ms()))
    });
    let sales: HashMap<CampaignId, i64> = sales.collect();
    let mut granted: HashMap<(CampaignId, u32), Timestamp> = HashMap::new();
    let mut breaches = Vec::new();
    for (entry, truth) in decided.log.iter().zip(&decided.truths) {
        match entry.event {
            Event::Granted { number, .. } => {
                granted.insert((entry.campaign, number), *truth);
            }
            Event::Expired { number } => {
                let since = granted.get(&(entry.campaign, number)).unwrap_or(truth);
                let hold_ms = sales.get(&entry.campaign).copied().unwrap_or(0);
                let off = off_hold(&decided.outages, (*since, *truth), hold_ms);
                let id = entry.campaign;
                breaches.extend(off.map(|off| format!("order {number} of {id} {off}")));
            }
            _ => {}
        }
    }
    breaches
}

/// Error in the time from a grant to its expiry. Holds pause while the engine is down. The grace follows the hold, or
/// the last start if that is later. Jumps of the clock have no effect, because the engine uses its steady clock during
/// them.
fn off_hold(
    outages: &[(Timestamp, Timestamp)],
    (since, upto): (Timestamp, Timestamp),
    hold_ms: i64,
) -> Option<String> {
    let mut held_ms = upto.millis_since(since);
    let (mut since_start_ms, mut late_ms) = (held_ms, LATE_MS);
    // The engine was up at both ends.
    let within = |(died, started): &&(Timestamp, Timestamp)| *died >= since && *started <= upto;
    for (died, started) in outages.iter().filter(within) {
        held_ms -= started.millis_since(*died);
        since_start_ms = upto.millis_since(*started);
        // Uptime that the engine had not recorded yet counts as a part of the outage.
        late_ms += SAYS_UP_EVERY_MS;
    }
    let after_ms = (held_ms - hold_ms).min(since_start_ms);
    if held_ms + ROUNDING_MS < hold_ms {
        Some(format!("has not had its hold: {held_ms} of {hold_ms} ms"))
    } else if after_ms > GRACE_MS.min(hold_ms) + late_ms {
        Some(format!(
            "has had more than its hold: {held_ms} of {hold_ms} ms"
        ))
    } else {
        None
    }
}

/// A campaign is closed once. A packet is closed after its window, unless all of it is claimed.
fn closed(log: &[Entry], setup: &Setup) -> Option<String> {
    let id = setup.campaign.id;
    let close = |entry: &Entry| match entry.event {
        Event::Closed { returned, .. } if entry.campaign == id => Some((entry.at, returned)),
        _ => None,
    };
    let closes: Vec<_> = log.iter().filter_map(close).collect();
    match closes[..] {
        [(at, returned)] => {
            let is_early = at < setup.campaign.window.ends_at() && returned > 0;
            let early = is_early && is_packet(setup);
            early.then(|| format!("packet {id} was closed early, with {returned} shares left"))
        }
        _ => Some(format!("campaign {id} is not closed, or not once")),
    }
}

/// The ledger's accounts match the log.
fn accounts(expected: &ExpectedLedger, rows: &Rows) -> Vec<String> {
    let mut breaches = Vec::new();
    for (user, (spendable, owed)) in &expected.balances {
        let [has, is_owed] = [AccountPurpose::User, AccountPurpose::RefundsDue]
            .map(|of| rows.balance(user.as_str(), of));
        if (has, is_owed) != (*spendable, *owed) {
            breaches.push(format!(
                "{user} has {has} and refunds due of {is_owed} in the ledger, but {spendable} and {owed} by the log"
            ));
        }
    }
    if rows.residue_and_escrow() != (0, 0) {
        let (residue, left) = rows.residue_and_escrow();
        breaches.push(format!(
            "{residue} were found in escrow at a close, {left} are there"
        ));
    }
    breaches
}
