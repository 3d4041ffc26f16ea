//! Skipped numbers, which no grant has: a restore skips numbers that users may have received before it.

/// Runs of skipped numbers, and the positions of the grants after them.
#[derive(Debug, Default)]
pub(super) struct Skipped(Vec<SkippedRange>);

#[derive(Debug)]
struct SkippedRange {
    /// Position of the first grant after the run.
    place: u32,
    /// Count of skipped numbers up to there.
    skipped: u32,
}

impl Skipped {
    /// Builds the runs from first and last numbers, ascending. If a run overlaps the previous one, it starts after its
    /// end.
    pub(super) fn from_numbers(numbers: &[(u32, u32)]) -> Self {
        let (mut runs, mut skipped, mut end) = (Vec::new(), 0_u32, 0_u32);
        for (first, last) in numbers {
            let first = (*first).max(end.saturating_add(1));
            if first > *last {
                continue;
            }
            let place = first - skipped;
            skipped += last - first + 1;
            end = *last;
            runs.push(SkippedRange { place, skipped });
        }
        Self(runs)
    }

    /// Number at a position, at most the largest `u32`.
    pub(super) fn number_at(&self, place: u32) -> u32 {
        let before = self.0.partition_point(|run| run.place <= place);
        let run = before.checked_sub(1).and_then(|last| self.0.get(last));
        place.saturating_add(run.map_or(0, |run| run.skipped))
    }

    /// Position of a number; 0 if the number is skipped.
    pub(super) fn place_of(&self, number: u32) -> u32 {
        let before = self
            .0
            .partition_point(|run| run.place <= number.saturating_sub(run.skipped));
        let run = before.checked_sub(1).and_then(|last| self.0.get(last));
        let place = number - run.map_or(0, |run| run.skipped);
        match self.0.get(before) {
            Some(next) if place >= next.place => 0,
            _ => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_place_or_is_skipped() {
        // The second run follows the first one, the third overlaps it, and the last is separate.
        let runs = [(3, 5), (6, 7), (7, 9), (12, 12)];
        let skipped = Skipped::from_numbers(&runs);
        let is_skipped = |number: u32| (3..=9).contains(&number) || number == 12;
        let given: Vec<u32> = (1..=20).filter(|number| !is_skipped(*number)).collect();
        for (place, number) in (1..).zip(&given) {
            assert_eq!(skipped.number_at(place), *number, "place {place}");
            assert_eq!(skipped.place_of(*number), place, "number {number}");
        }
        for number in (1..=20).filter(|number| is_skipped(*number)) {
            assert_eq!(skipped.place_of(number), 0, "number {number}");
        }
        assert_eq!(skipped.place_of(0), 0);
    }

    #[test]
    fn numbers_may_be_skipped_from_the_first_and_up_to_the_last() {
        let skipped = Skipped::from_numbers(&[(1, 1 << 20)]);
        assert_eq!(skipped.number_at(1), (1 << 20) + 1);
        assert_eq!((skipped.place_of(1), skipped.place_of(1 << 20)), (0, 0));
        assert_eq!(skipped.place_of((1 << 20) + 1), 1);
        let skipped = Skipped::from_numbers(&[(2, u32::MAX)]);
        assert_eq!((skipped.number_at(1), skipped.number_at(2)), (1, u32::MAX));
        assert_eq!(skipped.place_of(u32::MAX), 0);
    }
}
