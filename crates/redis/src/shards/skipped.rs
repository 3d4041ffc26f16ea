//! Runs of skipped ordinals, as a sale's hash has them.

/// First and last ordinal of each run, ascending.
pub(crate) type OrdinalRuns = Vec<(u32, u32)>;

/// Text of runs in a campaign's hash.
pub(crate) fn skipped_text(runs: &[(u32, u32)]) -> String {
    let texts = runs.iter().map(|(first, last)| format!("{first}-{last}"));
    texts.collect::<Vec<_>>().join(" ")
}

/// Parses the text of runs; `None` for other text.
pub(crate) fn read_skipped(text: &str) -> Option<OrdinalRuns> {
    let runs = text.split_ascii_whitespace().map(|run| {
        let (first, last) = run.split_once('-')?;
        let run: (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (run.0 <= run.1).then_some(run)
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written() {
        for runs in [vec![], vec![(1, 1)], vec![(2, 9), (11, u32::MAX)]] {
            assert_eq!(read_skipped(&skipped_text(&runs)), Some(runs));
        }
        for text in ["1", "2-1", "a-b", "1-4294967296"] {
            assert_eq!(read_skipped(text), None, "{text}");
        }
    }
}
