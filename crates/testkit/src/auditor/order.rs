//! Whether the entries of several logs can have happened in some order without anybody taking what was not there.
//!
//! Each log gives a sequence of takings and returns. What they take from is one stock for all, and nothing says
//! which of two logs was first, so what can be proved is that no order explains them. It is found without trying
//! orders: a stretch that returns at least what it takes is done as soon as the stock lasts for it, since it leaves no
//! less. Where every log only loses from here on, the same is done from the end backwards.

/// What is left of one log, as changes of the stock.
struct Left<'a> {
    changes: &'a [i64],
    /// From the end backwards, where a taking is what puts back.
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

    /// The shortest stretch that leaves the stock no smaller: its length, what it needs, and what it adds.
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

/// Applies all stretches for which the stock suffices, and returns what is left.
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

/// Whether some order of the logs' changes never takes more than there is, beginning with `stock`.
pub(super) fn exists(stock: i64, logs: &[Vec<i64>]) -> bool {
    let forwards = |changes| Left {
        changes,
        backwards: false,
    };
    let mut left: Vec<_> = logs.iter().map(|log| forwards(log.as_slice())).collect();
    let stock = grow(stock, &mut left);
    if stock < 0 || left.iter().any(|log| log.stretch().is_some()) {
        return false; // it needs more than there will ever be
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

    /// By trying all orders.
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
        // Each could go on only if the other had.
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
