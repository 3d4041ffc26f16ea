//! The comparison as a text table.

use std::fmt::Write as _;

use super::{
    load::Name,
    report::{Loaded, Report},
    scheme::PUBLISHED_CONDITIONS,
};

/// Columns between a scheme's name and its published result.
const HEADS: &str =
    "claims/s,grants/s,×queue,success,oversold,twice,p50 ms,p99 ms,µs/claim,µs/grant,trips,overran";
const WIDTHS: [usize; 12] = [9, 9, 8, 9, 9, 6, 9, 9, 9, 9, 7, 9];

pub(super) fn of(report: &Report) -> String {
    let mut text = String::new();
    for loaded in &report.loads {
        // Writing to a string cannot fail.
        let _ = write_load(&mut text, report, loaded);
    }
    text.lines()
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect()
}

fn write_load(text: &mut String, report: &Report, loaded: &Loaded) -> std::fmt::Result {
    let load = &loaded.load;
    writeln!(
        text,
        "{}: {} users make {} claims for {} shares, {} waiting at a time, {} connections; {}\n\
         {}, client on the same {} cores\n",
        load.load.as_str(),
        whole(f64::from(load.users)),
        whole(loaded.claims as f64),
        whole(f64::from(load.shares)),
        whole(f64::from(load.waiting)),
        load.connections,
        match report.repeat {
            1 => "one run".to_owned(),
            runs => format!("medians of {runs} runs"),
        },
        report.redis.as_deref().unwrap_or("no Redis"),
        report.cores,
    )?;
    // The articles measured a rush. Their results do not compare with a drain.
    let rush = load.load == Name::Rush;
    let heads = HEADS.split(',').map(str::to_owned);
    write_row(text, "scheme", heads, if rush { "published" } else { "" })?;
    for row in &loaded.schemes {
        let Some(median) = &row.median else { continue };
        let cells = [
            whole(median.claims_per_second),
            whole(median.grants_per_second),
            or_dash(median.grants_times_queue, 2),
            format!("{:.0}%", median.success * 100.0),
            median.oversold.to_string(),
            median.duplicates.to_string(),
            format!("{:.1}", median.p50_us / 1_000.0),
            format!("{:.1}", median.p99_us / 1_000.0),
            or_dash(median.redis_cpu_us_per_claim, 1),
            or_dash(median.redis_cpu_us_per_grant, 1),
            or_dash(median.round_trips_per_claim, 3),
            median
                .lock_timeouts
                .map_or_else(|| "-".to_owned(), |count| count.to_string()),
        ];
        let published = match row.about.published.filter(|_| rush) {
            Some(it) => format!("{}/s, {}", whole(f64::from(it.qps)), it.success),
            None => if rush { "-" } else { "" }.to_owned(),
        };
        write_row(text, row.about.name, cells, &published)?;
    }
    let published = if rush {
        format!(" Published: {PUBLISHED_CONDITIONS}.")
    } else {
        String::new()
    };
    writeln!(
        text,
        "\nµs: Redis's processor time, all threads.{published}\n\
         Oversold, twice (second units of a user) and overran (locks that expired before their release) are those \
         of the worst run; counter and deduct know no users.\n"
    )
}

fn write_row(
    text: &mut String,
    name: &str,
    cells: impl IntoIterator<Item = String>,
    published: &str,
) -> std::fmt::Result {
    write!(text, "{name:<13}")?;
    for (cell, width) in cells.into_iter().zip(WIDTHS) {
        write!(text, "{cell:>width$}")?;
    }
    writeln!(text, "   {published}")
}

fn or_dash(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Formats a rounded number with thousands separators.
pub(super) fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            lock, queue,
            report::tests::{noted, report},
            scheme::LOCK_TIMEOUTS,
            unlocked,
        },
        *,
    };

    #[test]
    fn the_table_has_the_published_figures_beside() {
        let report = report(&[
            (&queue::ABOUT, &[(100, 5e5)]),
            (&unlocked::ABOUT, &[(137, 3e5)]),
        ]);
        let table = of(&report);
        assert_eq!(
            words(&table, "queue"),
            "queue 11,000 100 1.00 100% 0 0 2.5 2.5 45.5 5000.0 2.000 - 12,000/s, 100%"
        );
        assert_eq!(
            words(&table, "unlocked"),
            "unlocked 11,000 137 1.37 73% 37 0 2.5 2.5 27.3 2189.8 2.000 - 28,000/s, 73%, oversold"
        );
        assert!(table.contains("10,000 concurrent users on 100 shares"));
        assert!(table.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn the_table_has_the_locks_that_overran() {
        let report = noted(&[(&lock::ABOUT, &[(100, 5e5)])], &[(LOCK_TIMEOUTS, 7)]);
        assert_eq!(
            words(&of(&report), "lock"),
            "lock 11,000 100 - 100% 0 0 2.5 2.5 45.5 5000.0 2.000 7 8,500/s, 100%"
        );
    }

    /// Words of a scheme's line.
    fn words(table: &str, scheme: &str) -> String {
        let line = table.lines().find(|line| line.starts_with(scheme)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0.4, "0"), (999.6, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(whole(number), text);
        }
    }
}
