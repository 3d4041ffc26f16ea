//! Decides whether the entries of several logs can have happened in some order without overselling.
//!
//! Each log gives a sequence of takings and returns. All take from one stock. Nothing records which of two logs was
//! first, so the only provable breach is that no order explains them.
//!
//! The search does not try orders. A stretch that returns at least as much as it takes leaves the stock no smaller. It
//! is applied as soon as the stock suffices for it. If every log only loses from here on, the same is done from the end
//! backwards.

/// Unapplied rest of one log, as changes of the stock.
struct Left<'a> {
    changes: &'a [i64],
    /// Whether the changes are read from the end backwards. A taking then adds to the stock.
    backwards: bool,
}

impl Left<'_> {
    fn change(&self, n: usize) -> i64 {
        if self.backwards {
            -self.changes[self.changes.len() - 1 - n]
        } else {
            self.changes[n]
        }
    }

    /// The shortest stretch that leaves the stock no smaller: its length, the stock that it needs, and the sum that it
    /// adds.
    fn stretch(&self) -> Option<(usize, i64, i64)> {
        let (mut sum, mut needs) = (0, 0);
        for n in 0..self.changes.len() {
            sum += self.change(n);
            needs = needs.max(-sum);
            if sum >= 0 {
                return Some((n + 1, needs, sum));
            }
        }
        None
    }

    fn skip(&mut self, count: usize) {
        self.changes = if self.backwards {
            &self.changes[..self.changes.len() - count]
        } else {
            &self.changes[count..]
        };
    }
}

/// Applies all stretches for which the stock suffices, and returns the stock after them.
fn grow(mut stock: i64, logs: &mut [Left<'_>]) -> i64 {
    loop {
        let mut done = false;
        for log in &mut *logs {
            while let Some((count, needs, adds)) = log.stretch()
                && needs <= stock
            {
                stock += adds;
                log.skip(count);
                done = true;
            }
        }
        if !done {
            return stock;
        }
    }
}

/// Whether some order of the logs' changes never takes more than the stock has, starting with `stock`.
pub(super) fn exists(stock: i64, logs: &[Vec<i64>]) -> bool {
    let forwards = |changes| Left {
        changes,
        backwards: false,
    };
    let mut left: Vec<_> = logs.iter().map(|log| forwards(log.as_slice())).collect();
    let stock = grow(stock, &mut left);
    if stock < 0 || left.iter().any(|log| log.stretch().is_some()) {
        return false; // it needs more than the stock can reach
    }
    for log in &mut left {
        log.backwards = true;
    }
    let end = stock + left.iter().flat_map(|log| log.changes).sum::<i64>();
    grow(end, &mut left);
    end >= 0 && left.iter().all(|log| log.changes.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::exists;

    /// The same by trying all orders.
    fn exists_by_trial(stock: i64, logs: &[Vec<i64>]) -> bool {
        if stock < 0 {
            return false;
        }
        let mut over = true;
        for n in 0..logs.len() {
            if let Some((first, rest)) = logs[n].split_first() {
                over = false;
                let mut left = logs.to_vec();
                left[n] = rest.to_vec();
                if exists_by_trial(stock + first, &left) {
                    return true;
                }
            }
        }
        over
    }

    #[test]
    fn orders_that_are_plain() {
        assert!(exists(1, &[vec![-1, 1], vec![-1]]));
        assert!(exists(1, &[vec![-1], vec![-1, 1]]));
        assert!(!exists(1, &[vec![-1], vec![-1]]));
        // Each could continue only after the other.
        assert!(!exists(0, &[vec![-1, 1], vec![-1, 1]]));
        assert!(exists(2, &[vec![-2, 2, -2, 2, -1], vec![-2, 2, -1]]));
        assert!(exists(2, &[vec![-2, 1, -1, 2, -1], vec![-2, 2, -1]]));
        assert!(!exists(2, &[vec![-2, 1], vec![-2, 1]]));
    }

    proptest! {
        #[test]
        fn agrees_with_trying_all(
            stock in 0_i64..4,
            logs in proptest::collection::vec(proptest::collection::vec(-3_i64..4, 0..5), 1..4),
        ) {
            prop_assert_eq!(exists(stock, &logs), exists_by_trial(stock, &logs));
        }
    }
}
