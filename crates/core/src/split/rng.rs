//! Random numbers with values that are part of the published algorithm.
//!
//! A library provides only ChaCha20's key stream, which its specification fixes. Bounded draws and the shuffle are
//! implemented here, because a random-number library may change its values in another release.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Seed;

/// Random words of one seed and one nonce.
pub(super) struct Stream(ChaCha20Rng);

impl Stream {
    /// Begins at the start of the key stream of `seed` and `nonce`.
    pub(super) fn new(seed: &Seed, nonce: u64) -> Self {
        let mut rng = ChaCha20Rng::from_seed(*seed.as_bytes());
        rng.set_stream(nonce);
        Self(rng)
    }

    /// The next word, uniform over all of `u64`.
    pub(super) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform over `0..bound`; `bound` is at least 1.
    ///
    /// Lemire, "Fast Random Integer Generation in an Interval" (2019): the high half of `word × bound`. A word is drawn
    /// again if its low half is in the uneven part.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let mut product = u128::from(self.word()) * u128::from(bound);
        if (product as u64) < bound {
            let uneven = bound.wrapping_neg() % bound;
            while (product as u64) < uneven {
                product = u128::from(self.word()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// True with probability `part / whole`. Draws nothing if `part` is 0.
    pub(super) fn chance(&mut self, part: u64, whole: u64) -> bool {
        part > 0 && self.below(whole) < part
    }

    /// Puts the items into a uniformly random order (Fisher and Yates, from the last place down).
    pub(super) fn shuffle(&mut self, items: &mut [i64]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(byte: u8) -> Stream {
        Stream::new(&Seed::from_bytes([byte; 32]), 0)
    }

    /// The words are as specified: key stream of the all-zero key, from RFC 8439 appendix A.1, vectors 1 and 5.
    #[test]
    fn words_are_the_chacha20_key_stream() {
        let mut zero = stream(0);
        assert_eq!(
            zero.word().to_le_bytes(),
            *b"\x76\xb8\xe0\xad\xa0\xf1\x3d\x90"
        );
        assert_eq!(
            zero.word().to_le_bytes(),
            *b"\x40\x5d\x6a\xe5\x53\x86\xbd\x28"
        );
        // The vector's nonce ends in 02: the last byte of the 64-bit little-endian nonce.
        let mut other = Stream::new(&Seed::from_bytes([0; 32]), 2 << 56);
        assert_eq!(
            other.word().to_le_bytes(),
            *b"\xc2\xc6\x4d\x37\x8c\xd5\x36\x37"
        );
    }

    #[test]
    fn a_bounded_draw_stays_below_and_reaches_every_value() {
        let mut stream = stream(1);
        for bound in 1..20 {
            let mut seen = vec![0; bound];
            for _ in 0..1000 {
                seen[stream.below(bound as u64) as usize] += 1;
            }
            // Binomial: a count of 1000/bound has a standard deviation below its square root; 6 of them.
            let mean = 1000.0 / bound as f64;
            for count in seen {
                assert!(
                    (f64::from(count) - mean).abs() <= 6.0 * mean.sqrt(),
                    "{bound}: {count}"
                );
            }
        }
    }

    /// With a bound of 3/4 of the range, a draw without rejection would give some values twice as often as others.
    /// Values with remainder 0 modulo 3 would occur in half of all draws.
    #[test]
    fn a_large_bound_is_not_biased() {
        let mut stream = stream(2);
        let bound = 3 << 62;
        let hits = (0..30_000)
            .filter(|_| stream.below(bound).is_multiple_of(3))
            .count();
        // Binomial(30000, 1/3): standard deviation 82.
        assert!(hits.abs_diff(10_000) < 500, "{hits}");
    }

    #[test]
    fn every_order_comes_up_equally_often() {
        let mut stream = stream(3);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            stream.shuffle(&mut items);
            *seen.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Binomial(24000, 1/24): standard deviation 31.
        for (order, count) in seen {
            assert!(count.abs_diff(1000) < 190, "{order:?}: {count}");
        }
    }
}
