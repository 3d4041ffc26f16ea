//! Rate limit per key, metered by governor (GCRA) in a table of fixed size. The check of a known key allocates
//! nothing.
//!
//! Limits keep a node usable for all clients. The engine protects the stock, not this file.

mod table;

use std::{
    hash::{BuildHasher as _, Hash, RandomState},
    num::NonZeroU32,
    time::Duration,
};

use governor::{
    NotUntil, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock, QuantaInstant},
    middleware::StateInformationMiddleware,
};
use metrics::Counter;

use self::table::QuotaTable;
use crate::http::problem::{ApiProblem, Exceeded, LimitHeaders, Policy};

/// A limit, or none.
pub(crate) struct Throttle(Option<MeteredCaller>);

struct MeteredCaller {
    policy: Policy,
    quota: Quota,
    limiter: RateLimiter<u64, QuotaTable, DefaultClock, StateInformationMiddleware>,
    hasher: RandomState,
    refused: Counter,
}

impl Throttle {
    /// Without a quota there is no limit. The table tracks `keys_max` keys; `refused` counts refusals.
    pub(crate) fn new(
        policy: Policy,
        quota: Option<Quota>,
        keys_max: usize,
        refused: Counter,
    ) -> Self {
        Self(quota.map(|quota| MeteredCaller {
            policy,
            quota,
            limiter: RateLimiter::new(quota, QuotaTable::new(keys_max), DefaultClock::default()),
            hasher: RandomState::new(),
            refused,
        }))
    }

    /// Uses one unit of a key's quota.
    pub(crate) fn check(&self, who: &impl Hash) -> Result<(), ApiProblem> {
        self.remaining_after(who).map(drop)
    }

    /// Uses one unit of a key's quota. Returns the units that are left; `None` without a limit.
    pub(crate) fn remaining_after(&self, who: &impl Hash) -> Result<Option<u32>, ApiProblem> {
        let Some(metered) = &self.0 else {
            return Ok(None);
        };
        let key = metered.hasher.hash_one(who);
        match metered.limiter.check_key(&key) {
            Ok(state) => Ok(Some(state.remaining_burst_capacity())),
            Err(not_until) => Err(metered.refuse(&not_until, NonZeroU32::MIN)),
        }
    }

    /// Uses `cost` units, or none. A cost above the burst uses the whole burst.
    pub(crate) fn check_cost(&self, who: &impl Hash, cost: NonZeroU32) -> Result<(), ApiProblem> {
        self.remaining_after_cost(who, cost).map(drop)
    }

    /// [`Self::check_cost`] that returns the units that are left; `None` without a limit.
    pub(crate) fn remaining_after_cost(
        &self,
        who: &impl Hash,
        cost: NonZeroU32,
    ) -> Result<Option<u32>, ApiProblem> {
        let Some(metered) = &self.0 else {
            return Ok(None);
        };
        let key = metered.hasher.hash_one(who);
        let cost = cost.min(metered.quota.burst_size());
        match metered.limiter.check_key_n(&key, cost) {
            Ok(Err(not_until)) => Err(metered.refuse(&not_until, cost)),
            Ok(Ok(state)) => Ok(Some(state.remaining_burst_capacity())),
            // A cost above the burst cannot occur, because it was capped.
            Err(_) => Ok(None),
        }
    }

    /// Header values of the limit; `None` without a limit.
    pub(crate) fn headers(&self) -> Option<LimitHeaders> {
        let MeteredCaller { policy, quota, .. } = self.0.as_ref()?;
        let window_s = seconds(quota.burst_size_replenished_in());
        Some(LimitHeaders::new(
            *policy,
            quota.burst_size().get(),
            window_s,
        ))
    }
}

impl MeteredCaller {
    #[cold]
    fn refuse(&self, not_until: &NotUntil<QuantaInstant>, cost: NonZeroU32) -> ApiProblem {
        self.refused.increment(1);
        let wait = not_until.wait_time_from(self.limiter.clock().now());
        ApiProblem::limited(&Exceeded {
            policy: self.policy,
            quota: self.quota.burst_size().get(),
            window_s: seconds(self.quota.burst_size_replenished_in()),
            // Missing units return one at a time during the wait.
            remaining: cost
                .get()
                .saturating_sub(periods(wait, self.quota.replenish_interval())),
            wait_s: seconds(wait),
        })
    }
}

/// Whole seconds, at least one.
fn seconds(duration: Duration) -> u32 {
    let seconds = duration.as_millis().div_ceil(1_000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn periods(duration: Duration, period: Duration) -> u32 {
    let periods = duration.as_nanos().div_ceil(period.as_nanos().max(1));
    u32::try_from(periods).unwrap_or(u32::MAX)
}

/// Quota of `rate` per period with a burst of `at_once`; `None` if the rate is 0.
pub(crate) fn quota(rate: u32, per: Duration, at_once: u32) -> Option<Quota> {
    let period = per.checked_div(rate)?;
    let at_once = NonZeroU32::new(at_once).unwrap_or(NonZeroU32::MIN);
    Some(Quota::with_period(period)?.allow_burst(at_once))
}

#[cfg(test)]
mod tests {
    use qiang_core::id::UserId;
    use qiang_wire::problem::ProblemKind;

    use super::*;

    const POLICY: Policy = Policy {
        name: "test",
        unit: None,
        problem: ProblemKind::Throttled,
    };

    fn throttle(rate: u32, at_once: u32, keys_max: usize) -> Throttle {
        let quota = quota(rate, Duration::from_secs(60), at_once);
        Throttle::new(POLICY, quota, keys_max, Counter::noop())
    }

    fn user(name: &str) -> UserId {
        UserId::new(name).unwrap()
    }

    #[test]
    fn each_has_an_allowance() {
        let throttle = throttle(1, 2, 100);
        let passes = |name| throttle.check(&user(name)).is_ok();
        assert_eq!([passes("a"), passes("a"), passes("a")], [true, true, false]);
        assert!(passes("b"));
    }

    #[test]
    fn what_is_left_is_said() {
        let throttle = throttle(1, 3, 100);
        let left = || throttle.remaining_after(&1).ok();
        assert_eq!(
            [left(), left(), left()],
            [Some(Some(2)), Some(Some(1)), Some(Some(0))]
        );
        assert_eq!(left(), None);
        let cost = NonZeroU32::new(2).unwrap();
        assert!(matches!(
            throttle.remaining_after_cost(&2, cost),
            Ok(Some(1))
        ));
    }

    #[test]
    fn a_cost_is_used_whole_or_not_at_all() {
        let throttle = throttle(10, 10, 100);
        let passes = |cost| {
            let cost = NonZeroU32::new(cost).unwrap();
            throttle.check_cost(&1, cost).is_ok()
        };
        assert!(passes(7));
        assert!(!passes(4));
        assert!(passes(3));
        assert!(!passes(1));
        assert!(throttle.check_cost(&2, NonZeroU32::MAX).is_ok());
        assert!(throttle.check(&2).is_err());
    }

    #[test]
    fn who_is_above_the_limit_stays_there_while_others_come() {
        let throttle = throttle(1, 2, 1_000);
        let greedy = user("greedy");
        while throttle.check(&greedy).is_ok() {}
        for n in 0..100_000 {
            assert!(throttle.check(&user(&format!("u{n}"))).is_ok());
        }
        // 100 times as many keys as the table has come once; a key with two uses outlives one with one.
        assert!(throttle.check(&greedy).is_err());
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let throttle = throttle(0, 1, 100);
        assert!((0..100).all(|_| throttle.check(&1).is_ok()));
    }
}
