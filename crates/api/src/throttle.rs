//! How often one user may claim, or guess a passphrase. Its memory is bounded: inactive users are forgotten, and above
//! the bound nobody is limited until then. The engine protects the supply, not this file.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicBool, Ordering},
};

use governor::{DefaultKeyedRateLimiter, Quota, clock::Clock as _};
use qiang_core::id::UserId;

use crate::{config::LimitsConfig, problem::Problem};

pub(crate) struct Throttle(Option<Metered>);

struct Metered {
    limiter: DefaultKeyedRateLimiter<UserId>,
    clock: governor::clock::DefaultClock,
    users_max: usize,
    /// No more users are metered until some have been forgotten.
    full: AtomicBool,
}

impl Throttle {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let rate = NonZeroU32::new(limits.claims_per_user_per_second);
        let burst = NonZeroU32::new(limits.claims_burst).unwrap_or(NonZeroU32::MIN);
        rate.map_or(Self(None), |rate| {
            let quota = Quota::per_second(rate).allow_burst(burst);
            Self::of(quota, limits.users_metered_max)
        })
    }

    /// Each of so many users may do something so often.
    pub(crate) fn of(quota: Quota, users_max: usize) -> Self {
        Self(Some(Metered {
            limiter: DefaultKeyedRateLimiter::keyed(quota),
            clock: governor::clock::DefaultClock::default(),
            users_max,
            full: AtomicBool::new(false),
        }))
    }

    pub(crate) fn check(&self, user: &UserId) -> Result<(), Problem> {
        let Some(metered) = &self.0 else {
            return Ok(());
        };
        if metered.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        metered.limiter.check_key(user).map_err(|not_until| {
            let wait = not_until.wait_time_from(metered.clock.now());
            Problem::throttled(u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX))
        })
    }

    /// Forgets users whose allowance is whole again. To be called about once a second, where blocking is allowed.
    pub(crate) fn upkeep(&self) {
        let Some(metered) = &self.0 else { return };
        metered.limiter.retain_recent();
        metered.full.store(
            metered.limiter.len() >= metered.users_max,
            Ordering::Relaxed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(users_metered_max: usize) -> Throttle {
        Throttle::new(&LimitsConfig {
            claims_per_user_per_second: 1,
            claims_burst: 2,
            users_metered_max,
            shares_max: 1,
            buyer_return_ms: 0,
        })
    }

    fn user(name: &str) -> UserId {
        UserId::new(name).unwrap()
    }

    #[test]
    fn each_user_has_an_allowance() {
        let throttle = throttle(100);
        let passes = |name| throttle.check(&user(name)).is_ok();
        assert_eq!([passes("a"), passes("a"), passes("a")], [true, true, false]);
        assert!(passes("b"));
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = throttle(10);
        for n in 0..20 {
            assert!(throttle.check(&user(&format!("u{n}"))).is_ok());
        }
        throttle.upkeep();
        for n in 20..1_000 {
            assert!(throttle.check(&user(&format!("u{n}"))).is_ok());
        }
        assert!(throttle.0.as_ref().unwrap().limiter.len() <= 20);
    }
}
