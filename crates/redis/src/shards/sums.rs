//! Sums of runs of shares, from the last share on. A script finds what remains of a packet by them.

/// Number of shares per stored sum; as in the scripts.
const SUM_EVERY: usize = 1_000;

/// The sums of the last 1000, 2000, … shares: the offset at which each run begins, its number, its sum.
pub(crate) fn sums_of(shares: &[(u32, i64)]) -> Vec<(usize, usize, i64)> {
    let mut sums = Vec::new();
    let mut sum = 0;
    for (at, (_, amount)) in shares.iter().enumerate().rev() {
        sum += amount;
        let length = shares.len() - at;
        if length.is_multiple_of(SUM_EVERY) {
            sums.push((at, length / SUM_EVERY, sum));
        }
    }
    sums
}
