//! Shares sorted into bins, and the bins as bars of text.

use std::io::{self, Write};

/// Number of shares in each of several equally wide ranges of amounts.
pub(crate) struct Histogram {
    /// The smallest amount of the first bin.
    pub(crate) start: i64,
    /// Amounts per bin. The last bin may reach above the largest share.
    pub(crate) width: u64,
    pub(crate) counts: Vec<u64>,
}

impl Histogram {
    /// Histogram of at least one share. The number of bins is about the square root of the number of shares, between 5
    /// and `bins_max`.
    pub(crate) fn from_shares(shares: &[i64], bins_max: u64) -> Self {
        let Summary { min, max, .. } = Summary::from_shares(shares);
        // Shares are positive, so the span cannot overflow.
        let span = max.abs_diff(min) + 1;
        let width = span.div_ceil((shares.len() as u64).isqrt().clamp(5, bins_max));
        let mut counts = vec![0; span.div_ceil(width) as usize];
        for share in shares {
            counts[(share.abs_diff(min) / width) as usize] += 1;
        }
        Self {
            start: min,
            width,
            counts,
        }
    }

    /// Smallest and largest amount of a bin, both included.
    pub(crate) fn range(&self, bin: usize) -> (i64, i64) {
        let first = self.start.saturating_add_unsigned(self.width * bin as u64);
        (first, first.saturating_add_unsigned(self.width - 1))
    }

    /// Writes one line per bin. The bar of the fullest bin is `bar_width` columns long.
    pub(crate) fn write_bars(&self, out: &mut impl Write, bar_width: u64) -> io::Result<()> {
        let fullest = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let digits = self.range(self.counts.len() - 1).1.to_string().len();
        for (bin, count) in self.counts.iter().enumerate() {
            let (first, last) = self.range(bin);
            let label = if first == last {
                format!("{first:>width$}", width = 2 * digits + 3)
            } else {
                format!("{first:>digits$} – {last:>digits$}")
            };
            writeln!(out, "{label} │{} {count}", bar(*count, fullest, bar_width))?;
        }
        Ok(())
    }
}

/// A bar of block characters, exact to an eighth of a column. If the count is above 0, the bar is not empty.
fn bar(count: u64, fullest: u64, width: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = (count * width * 8 / fullest).max(u64::from(count > 0));
    "█".repeat((length / 8) as usize) + EIGHTHS[(length % 8) as usize]
}

/// Statistics of shares, in minor units.
pub(crate) struct Summary {
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) mean: f64,
    /// Population standard deviation: divided by the number of shares.
    pub(crate) stddev: f64,
}

impl Summary {
    pub(crate) fn from_shares(shares: &[i64]) -> Self {
        let count = shares.len() as f64;
        let sum: i128 = shares.iter().map(|share| i128::from(*share)).sum();
        let mean = sum as f64 / count;
        let squares: f64 = shares
            .iter()
            .map(|share| (*share as f64 - mean).powi(2))
            .sum();
        Self {
            min: shares.iter().copied().min().unwrap_or(0),
            max: shares.iter().copied().max().unwrap_or(0),
            mean,
            stddev: (squares / count).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shares: &[i64], expected: &str) {
        let mut out = Vec::new();
        Histogram::from_shares(shares, 20)
            .write_bars(&mut out, 4)
            .expect("write to a Vec");
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn every_share_is_in_its_bin() {
        check(&[7, 7, 7], "    7 │████ 3\n");
        check(
            &[1, 2, 2, 2, 2, 10],
            " 1 –  2 │████ 5\n 3 –  4 │ 0\n 5 –  6 │ 0\n 7 –  8 │ 0\n 9 – 10 │▊ 1\n",
        );
        // 4 of 5 bins suffice when each spans 2 amounts.
        check(
            &[1, 7],
            "1 – 2 │████ 1\n3 – 4 │ 0\n5 – 6 │ 0\n7 – 8 │████ 1\n",
        );
    }

    #[test]
    fn the_largest_amounts_fit() {
        let histogram = Histogram::from_shares(&[1, i64::MAX], 20);
        assert_eq!(histogram.counts, [1, 0, 0, 0, 1]);
        assert_eq!(histogram.range(4).1, i64::MAX);
    }

    #[test]
    fn a_bar_is_never_empty_for_a_share() {
        assert_eq!(bar(1, 1_000_000, 48), "▏");
        assert_eq!(bar(0, 1_000_000, 48), "");
    }

    #[test]
    fn figures_are_those_of_the_shares() {
        let summary = Summary::from_shares(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!((summary.min, summary.max), (2, 9));
        assert_eq!((summary.mean, summary.stddev), (5.0, 2.0));
    }
}
