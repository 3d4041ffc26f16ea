//! Check of the users' answers: one grant per user, one user per grant, and grants within the supply.

use std::collections::{HashMap, HashSet};

use anyhow::Context as _;
use serde::Deserialize;

use crate::load::load_generator::SeenGrant;

/// Grant as in the service's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SeenGrantBody {
    /// Its number in the campaign, from 1.
    pub number: u32,
    /// Number of units; 1 for a share.
    #[serde(default = "one")]
    pub quantity: u32,
    /// Its money.
    pub amount: AmountBody,
}

fn one() -> u32 {
    1
}

/// Money as in the service's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AmountBody {
    /// Minor units.
    pub amount: i64,
}

/// Result of the check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Number of distinct grants.
    pub granted: u64,
    /// Number of violations: users with a second grant, grants with a second user, and users with a second status 201.
    pub duplicates: u64,
    /// Units granted beyond the supply.
    pub oversold: u64,
    /// Minor units granted.
    pub claimed_minor: i64,
    /// Number, user and amount in minor units of every grant.
    pub grants: Vec<(u32, u32, i64)>,
}

/// Checks the successes of users. Each user may have one grant.
///
/// # Errors
/// If the body of a success is no grant.
pub fn judge(seen: &[SeenGrant], supply: u64) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    let mut of_user: HashMap<u32, SeenGrantBody> = HashMap::new();
    let mut of_number: HashMap<u32, u32> = HashMap::new();
    let mut created: HashSet<u32> = HashSet::new();
    let mut units = 0_u64;
    for success in seen {
        let grant: SeenGrantBody =
            serde_json::from_slice(&success.body).context("a grant has an unknown body")?;
        if success.status.as_u16() == 201 && !created.insert(success.user) {
            verdict.duplicates += 1;
        }
        if of_number
            .insert(grant.number, success.user)
            .is_some_and(|before| before != success.user)
        {
            verdict.duplicates += 1;
        }
        match of_user.get(&success.user) {
            Some(before) if *before == grant => {}
            Some(_) => verdict.duplicates += 1,
            None => {
                units += u64::from(grant.quantity);
                verdict.claimed_minor += grant.amount.amount;
                verdict
                    .grants
                    .push((grant.number, success.user, grant.amount.amount));
                of_user.insert(success.user, grant);
            }
        }
    }
    verdict.granted = of_number.len() as u64;
    verdict.oversold = units.saturating_sub(supply);
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::StatusCode;

    use super::*;

    fn seen(user: u32, status: u16, number: u32, amount: i64) -> SeenGrant {
        let body = format!(r#"{{"number":{number},"quantity":1,"amount":{{"amount":{amount}}}}}"#);
        SeenGrant {
            user,
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::from(body),
        }
    }

    #[test]
    fn judges_what_users_saw() {
        let check = |seen: &[SeenGrant], granted, duplicates, oversold| {
            let verdict = judge(seen, 2).unwrap();
            assert_eq!(
                (verdict.granted, verdict.duplicates, verdict.oversold),
                (granted, duplicates, oversold)
            );
        };
        check(
            &[seen(1, 201, 1, 5), seen(1, 200, 1, 5), seen(2, 201, 2, 5)],
            2,
            0,
            0,
        );
        check(&[seen(1, 201, 1, 5), seen(1, 200, 1, 6)], 1, 1, 0); // a replay that differs
        check(&[seen(1, 201, 1, 5), seen(1, 201, 1, 5)], 1, 1, 0); // granted twice
        check(&[seen(1, 201, 1, 5), seen(1, 201, 2, 5)], 2, 2, 0);
        check(&[seen(1, 201, 1, 5), seen(2, 201, 1, 5)], 1, 1, 0); // one grant, two users
        check(
            &[seen(1, 201, 1, 5), seen(2, 201, 2, 5), seen(3, 201, 3, 5)],
            3,
            0,
            1,
        );
    }
}
