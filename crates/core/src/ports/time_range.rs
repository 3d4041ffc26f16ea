//! Range of times that a list is filtered by.

use crate::time::Timestamp;

/// Half-open range of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    /// First instant of the range; `None` for no bound.
    pub from: Option<Timestamp>,
    /// First instant after the range; `None` for no bound.
    pub before: Option<Timestamp>,
}

impl TimeRange {
    /// Whether the instant is in the range.
    #[must_use]
    pub fn contains(self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.before.is_none_or(|before| at < before)
    }

    /// Whether no instant is in the range.
    #[must_use]
    pub fn is_empty(self) -> bool {
        let bounds = self.from.zip(self.before);
        bounds.is_some_and(|(from, before)| from >= before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_begin_with_their_start_and_end_before_their_end() {
        let at = Timestamp::from_millis;
        let range = |from: Option<i64>, before: Option<i64>| TimeRange {
            from: from.map(at),
            before: before.map(at),
        };
        for (range, contained, is_empty) in [
            (range(None, None), [true, true, true], false),
            (range(Some(2), None), [false, true, true], false),
            (range(None, Some(2)), [true, false, false], false),
            (range(Some(2), Some(3)), [false, true, false], false),
            (range(Some(2), Some(2)), [false; 3], true),
            (range(Some(3), Some(2)), [false; 3], true),
        ] {
            let found = [1, 2, 3].map(|millis| range.contains(at(millis)));
            assert_eq!(
                (found, range.is_empty()),
                (contained, is_empty),
                "{range:?}"
            );
        }
    }
}
