//! Guards a wall clock, which users may set, with a steady clock.

use super::Timestamp;

/// Maximum deviation of the wall clock from the steady one, in either direction, that is followed at once. A larger one
/// is a jump.
pub const JUMP_MS_MAX: i64 = 60_000;
/// Time for which a clock that has jumped must stay there until it is followed.
pub const JUMP_CONFIRMED_MS: i64 = 600_000;

/// Time that ignores jumps of the wall clock: during a jump, the steady clock continues the last accepted time. A jump
/// is accepted once the clock has stayed there for [`JUMP_CONFIRMED_MS`]. A jump that is undone earlier has no effect.
#[derive(Debug, Clone, Copy, Default)]
pub struct JumpGuard {
    /// Wall clock minus steady clock; `None` before the first reading.
    offset_ms: Option<i64>,
    /// Steady time of an unconfirmed jump, and the offset of the wall clock after it.
    jumped: Option<(i64, i64)>,
}

/// Result of a reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedTime {
    /// Accepted time.
    pub now: Timestamp,
    /// Milliseconds by which the wall clock is ahead of the accepted time; 0 outside a jump.
    pub jump_ms: i64,
    /// Whether this reading has accepted a jump.
    pub confirmed: bool,
}

impl JumpGuard {
    /// Reads both clocks at one moment. The steady one is in milliseconds since any instant.
    pub fn read(&mut self, wall: Timestamp, steady_ms: i64) -> GuardedTime {
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

    /// Reads a wall clock with these deviations at these steady instants, and compares the accepted deviations.
    fn check(looks: &[(i64, i64)], expected: &[i64]) {
        let mut guard = JumpGuard::default();
        let off = |(steady_ms, off_ms): &(i64, i64)| {
            let wall = Timestamp::from_millis(1_000_000_000 + steady_ms + off_ms);
            let found = guard.read(wall, *steady_ms);
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
