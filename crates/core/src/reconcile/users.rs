//! Comparison of the units that an engine counts for each user of a sale with the user's orders.
//!
//! A buyer is held to the limit by this count. So a count that is too low lets the buyer buy again.

use std::collections::BTreeSet;

use super::{Difference, DifferenceKind};
use crate::{
    event::{Entry, Event},
    id::{CampaignId, UserId},
};

/// Units of a user of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserUnits {
    /// The user.
    pub user: UserId,
    /// Units that the engine counts; `None` if it does not have the user.
    pub counted: Option<u64>,
    /// The user's orders in the engine: number, and units that the user has by it.
    pub orders: Vec<(u32, u32)>,
    /// Units that the user has by orders in the ledger.
    pub settled: u64,
}

/// Users whose count differs from their orders on both sides, given the part's unsettled entries. If it agrees with one
/// side, an order differs, which [`compare`](super::compare()) finds. Count and orders may be read at different
/// moments, so users with an entry in flight are not compared.
#[must_use]
pub fn compare_users(
    campaign: CampaignId,
    users: &[UserUnits],
    in_flight: &[Entry],
) -> Vec<Difference> {
    let (mut numbers, mut buyers) = (BTreeSet::new(), BTreeSet::new());
    for entry in in_flight.iter().filter(|entry| entry.campaign == campaign) {
        numbers.extend(entry.event.number());
        if let Event::Granted { user, .. } = &entry.event {
            buyers.insert(user);
        }
    }
    let mut found = Vec::new();
    for it in users {
        let is_moving = buyers.contains(&it.user)
            || it.orders.iter().any(|(number, _)| numbers.contains(number));
        let units: u64 = it.orders.iter().map(|(_, units)| u64::from(*units)).sum();
        let is_right = match it.counted {
            Some(counted) => counted == units || counted == it.settled,
            None => units == 0,
        };
        if is_moving || is_right {
            continue;
        }
        let counted = it.counted.map(|counted| format!("counts {counted} units"));
        found.push(Difference {
            kind: DifferenceKind::UserDiffers,
            campaign,
            number: it.orders.last().map_or(0, |(number, _)| *number),
            user: it.user.clone(),
            engine: counted.unwrap_or_default(),
            ledger: format!("{units} units in {} orders", it.orders.len()),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn users_whose_count_differs_from_their_orders_are_found() {
        let campaign: CampaignId = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap();
        let user = |name: &str| UserId::new(name).unwrap();
        let units = |name: &str, counted, orders: &[(u32, u32)]| UserUnits {
            user: user(name),
            counted,
            orders: orders.to_vec(),
            settled: 1,
        };
        let users = [
            units("same", Some(3), &[(1, 2), (2, 1)]),
            units("fewer", Some(0), &[(3, 1)]),
            units("more", Some(2), &[(4, 0)]),
            units("gone", None, &[(5, 1)]),
            units("cancelled", None, &[(6, 0)]),
            units("buys", Some(2), &[(7, 1)]),
            units("pays", Some(2), &[(8, 1)]),
            units("settled", Some(1), &[(10, 0)]),
        ];
        let entry = |seq, event| Entry {
            seq,
            at: Timestamp::from_millis(1),
            campaign,
            event,
        };
        let bought = Event::Granted {
            number: 9,
            user: user("buys"),
            quantity: 1,
            amount_minor: 1,
            key: None,
        };
        let in_flight = [entry(1, bought), entry(2, Event::Cancelled { number: 8 })];
        let found = compare_users(campaign, &users, &in_flight);
        let names: Vec<_> = found.iter().map(|it| it.user.as_str()).collect();
        assert_eq!(names, ["fewer", "more", "gone"]);
        let text = found[0].to_string();
        let id = campaign.to_string();
        let expected = format!(
            "user_differs: {id}: user fewer: engine counts 0 units; orders 1 units in 1 orders"
        );
        assert_eq!(text, expected);
    }
}
