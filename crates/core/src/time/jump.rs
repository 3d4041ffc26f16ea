//! A wall clock held against one that nobody can set.

use super::Timestamp;

/// A wall clock may run away from the steady one by so much, either way, and is followed. One that goes further at once
/// has jumped.
pub const JUMP_MS_MAX: i64 = 60_000;
/// How long a clock that has jumped has to stay there until it is followed.
pub const JUMP_CONFIRMED_MS: i64 = 600_000;

/// What the time is, as long as a wall clock is not to be believed: as late as the steady clock says that it is. A jump
/// is believed once the clock has stayed where it is for [`JUMP_CONFIRMED_MS`]; one that is taken back has never been.
#[derive(Debug, Clone, Copy, Default)]
pub struct JumpGuard {
    /// The wall clock less the steady one; none before the first look.
    offset_ms: Option<i64>,
    /// Since when the clock is somewhere else by the steady one, and its offset there.
    jumped: Option<(i64, i64)>,
}

/// What a look at the clocks has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedTime {
    /// The time to go by.
    pub now: Timestamp,
    /// By how many milliseconds the wall clock is ahead of it, while it is not believed; 0 while it is.
    pub jump_ms: i64,
    /// Whether a jump has just been believed.
    pub confirmed: bool,
}

impl JumpGuard {
    /// Looks at both clocks at one moment; the steady one in milliseconds since any instant.
    pub fn look(&mut self, wall: Timestamp, steady_ms: i64) -> GuardedTime {
        let seen_ms = wall.as_millis().saturating_sub(steady_ms);
        let offset_ms = *self.offset_ms.get_or_insert(seen_ms);
        let is_near = |offset_ms: i64| seen_ms.abs_diff(offset_ms) <= JUMP_MS_MAX as u64;
        let confirmed = match self.jumped {
            _ if is_near(offset_ms) => None,
            Some((since_ms, jumped_ms)) if is_near(jumped_ms) => {
                Some(steady_ms.saturating_sub(since_ms) >= JUMP_CONFIRMED_MS)
            }
            _ => {
                self.jumped = Some((steady_ms, seen_ms));
                Some(false)
            }
        };
        if confirmed == Some(false) {
            return GuardedTime {
                now: Timestamp::from_millis(steady_ms.saturating_add(offset_ms)),
                jump_ms: seen_ms.saturating_sub(offset_ms),
                confirmed: false,
            };
        }
        (self.offset_ms, self.jumped) = (Some(seen_ms), None);
        GuardedTime {
            now: wall,
            jump_ms: 0,
            confirmed: confirmed.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    /// Looks at a wall clock that is so far off at each of these steady instants; returns how far off it goes by.
    fn check(looks: &[(i64, i64)], expected: &[i64]) {
        let mut guard = JumpGuard::default();
        let off = |(steady_ms, off_ms): &(i64, i64)| {
            let wall = Timestamp::from_millis(1_000_000_000 + steady_ms + off_ms);
            let found = guard.look(wall, *steady_ms);
            assert_eq!(wall.millis_since(found.now), found.jump_ms);
            found.now.as_millis() - 1_000_000_000 - steady_ms
        };
        assert_eq!(looks.iter().map(off).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn small_steps_are_followed_however_many() {
        check(
            &[(0, 0), (10, 60_000), (20, 100_000), (30, -10_000)],
            &[0, 60_000, 100_000, 100_000],
        );
        check(&[(0, 0), (10, -60_000), (20, -5)], &[0, -60_000, -5]);
    }

    #[test]
    fn a_jump_that_is_taken_back_has_never_been() {
        for off_ms in [HOUR_MS, -HOUR_MS, i64::MAX / 2] {
            check(
                &[(0, 0), (10, off_ms), (500_000, off_ms), (500_010, 3)],
                &[0, 0, 0, 3],
            );
        }
    }

    #[test]
    fn a_jump_that_stays_is_followed_after_a_while() {
        for off_ms in [HOUR_MS, -HOUR_MS] {
            let until = 10 + JUMP_CONFIRMED_MS;
            check(
                &[
                    (0, 0),
                    (10, off_ms),
                    (until - 1, off_ms + 7),
                    (until, off_ms),
                ],
                &[0, 0, 0, off_ms],
            );
        }
    }

    #[test]
    fn a_clock_that_jumps_on_is_never_confirmed() {
        let looks: Vec<_> = (0..50).map(|n| (n * 100_000, n * HOUR_MS)).collect();
        check(&looks, &[0; 50]);
    }
}
