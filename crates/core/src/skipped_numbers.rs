//! Order numbers that are skipped, because users may have received them before the orders were lost.

/// Minimum numbers skipped per sale: more than a backup can lack.
const SKIPPED_MIN: u32 = 1 << 20;
/// Maximum random addition: two restores from one backup then give different numbers.
const SKIPPED_BY_CHANCE: u32 = 1 << 27;
/// Divisor of the remaining numbers that bounds a skip: each restore leaves enough for later ones.
const SKIPPED_SHARE: u32 = 4;

/// Number of order numbers to skip after the last known one. `chance` is random.
#[must_use]
pub fn numbers_to_skip(last: u32, chance: u32) -> u32 {
    let skipped = SKIPPED_MIN + chance % SKIPPED_BY_CHANCE;
    skipped.min((u32::MAX - last) / SKIPPED_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_leave_numbers_for_later_ones() {
        assert_eq!(numbers_to_skip(0, 0), SKIPPED_MIN);
        assert_eq!(
            numbers_to_skip(7, u32::MAX),
            SKIPPED_MIN + SKIPPED_BY_CHANCE - 1
        );
        let (mut last, mut skips) = (0_u32, 0);
        while numbers_to_skip(last, u32::MAX) > 0 {
            last += numbers_to_skip(last, u32::MAX);
            skips += 1;
        }
        assert!(skips > 80, "{skips}");
        assert_eq!(numbers_to_skip(u32::MAX, u32::MAX), 0);
    }
}
