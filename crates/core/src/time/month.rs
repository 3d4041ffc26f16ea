//! Calendar months, in UTC.

use std::{fmt, str::FromStr};

use super::Timestamp;

const DAY_MS: i64 = 86_400_000;
/// Days in the calendar's cycle of 400 years.
const CYCLE_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to the epoch.
const EPOCH_DAYS: i64 = 719_468;

/// A month of the Gregorian calendar, in UTC. Its text is `YYYY-MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    /// Months since January of the year 0.
    count: i64,
}

/// Error for a text that is no month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a month is a year and a month with a hyphen between, as in 2026-10")]
pub struct MonthError;

impl Month {
    /// The month of an instant.
    ///
    /// Converts days to dates by Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms". Its years begin in
    /// March, so the leap day is the last day of a year.
    #[must_use]
    pub const fn containing(at: Timestamp) -> Self {
        let days = at.as_millis().div_euclid(DAY_MS) + EPOCH_DAYS;
        let (cycle, day) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        Self {
            count: (cycle * 400 + year) * 12 + from_march + 2,
        }
    }

    /// First instant of the month.
    #[must_use]
    pub const fn begins(self) -> Timestamp {
        let from_march = self.count - 2;
        let (year, month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
        let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
        let day = 365 * year + year / 4 - year / 100 + (153 * month + 2) / 5;
        let days = cycle * CYCLE_DAYS + day - EPOCH_DAYS;
        Timestamp::from_millis(days.saturating_mul(DAY_MS))
    }

    /// The next month.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            count: self.count + 1,
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month) = (self.count.div_euclid(12), self.count.rem_euclid(12) + 1);
        write!(f, "{year:04}-{month:02}")
    }
}

impl FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        let number = |text: &str, digits: usize| {
            let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<i64>().ok()).flatten()
        };
        let (year, month) = text.split_once('-').ok_or(MonthError)?;
        match (number(year, 4), number(month, 2)) {
            (Some(year), Some(month @ 1..=12)) => Ok(Self {
                count: year * 12 + month - 1,
            }),
            _ => Err(MonthError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_in_their_months() {
        let check = |millis: i64, month: &str, begins: i64| {
            let found = Month::containing(Timestamp::from_millis(millis));
            assert_eq!(found.to_string(), month);
            assert_eq!(found.begins().as_millis(), begins, "{month}");
        };
        check(0, "1970-01", 0);
        check(-1, "1969-12", -2_678_400_000);
        check(951_782_400_000, "2000-02", 949_363_200_000); // 29 February
        check(951_868_799_999, "2000-02", 949_363_200_000);
        check(951_868_800_000, "2000-03", 951_868_800_000);
        check(1_800_000_000_000, "2027-01", 1_798_761_600_000);
        check(Timestamp::MAX.as_millis(), "9998-12", 253_368_086_400_000);
    }

    #[test]
    fn months_follow_each_other_and_are_read_as_they_are_written() {
        let mut month = Month::containing(Timestamp::from_millis(0));
        for _ in 0..12 * 500 {
            let (begins, next) = (month.begins(), month.next());
            assert_eq!(Month::containing(begins), month);
            let last = next.begins().plus_millis(-1);
            assert_eq!(Month::containing(last), month, "{month}");
            assert!((28..=31).contains(&((next.begins().millis_since(begins)) / DAY_MS)));
            assert_eq!(month.to_string().parse(), Ok(month));
            month = next;
        }
        for text in [
            "",
            "2026",
            "2026-13",
            "2026-00",
            "2026-1",
            "26-10",
            "2026-10-01",
            "+026-10",
        ] {
            assert_eq!(text.parse::<Month>(), Err(MonthError), "{text}");
        }
    }
}
