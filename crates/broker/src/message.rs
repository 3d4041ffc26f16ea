//! What a message holds: a run of entries as text.
//!
//! The first line is `qiang 1 PARTITION FIRST LAST`: the version of the form, the partition, and the places of the
//! first and the last entry. Each further line is an entry, as `qiang_core` writes it, in order and without a gap. A
//! message of another form is not for us; its entries are read from the log.

use std::fmt::Write as _;

use qiang_core::event::{Entry, PartitionId};

const FORM: &str = "qiang 1";

/// A run as a message.
pub(crate) fn encode(partition: PartitionId, run: &[Entry]) -> String {
    let place = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.seq);
    let (first, last) = (place(run.first()), place(run.last()));
    let mut text = format!("{FORM} {} {first} {last}", partition.0);
    for entry in run {
        // Writing to a string does not fail.
        let _ = write!(text, "\n{}", entry.to_text());
    }
    text
}

/// The run of a message for this partition; none if it is none.
pub(crate) fn decode(partition: PartitionId, message: &[u8]) -> Option<Vec<Entry>> {
    let mut lines = std::str::from_utf8(message).ok()?.split('\n');
    let head = lines.next()?.strip_prefix(FORM)?.strip_prefix(' ')?;
    let mut words = head.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (of, first, last) = (number()?, number()?, number()?);
    let run: Vec<Entry> = lines
        .map(|line| Entry::from_text(line).ok())
        .collect::<Option<_>>()?;
    let places = run.iter().map(|entry| entry.seq);
    let sound = words.next().is_none() && of == u64::from(partition.0) && !run.is_empty();
    (sound && places.eq(first..=last)).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

    #[test]
    fn messages_are_read_as_they_were_written() {
        let line = |seq| format!("{seq} 5 {ID} granted {seq} alice 1 100");
        let run: Vec<Entry> = (7..=9)
            .map(|seq| Entry::from_text(&line(seq)).expect("an entry"))
            .collect();
        let message = encode(PartitionId(3), &run);
        assert_eq!(message.lines().next(), Some("qiang 1 3 7 9"));
        assert_eq!(decode(PartitionId(3), message.as_bytes()), Some(run));
        assert_eq!(decode(PartitionId(4), message.as_bytes()), None);
    }

    #[test]
    fn other_messages_are_refused() {
        let refused = |message: &str| {
            assert_eq!(
                decode(PartitionId(3), message.as_bytes()),
                None,
                "{message}"
            );
        };
        let entry = format!("7 5 {ID} paused");
        assert!(decode(PartitionId(3), format!("qiang 1 3 7 7\n{entry}").as_bytes()).is_some());
        refused("");
        refused("rubbish");
        refused("qiang 1 3 7 7");
        refused("qiang 1 3 1 0");
        refused(&format!("qiang 2 3 7 7\n{entry}"));
        refused(&format!("qiang 1 3 7 8\n{entry}"));
        refused(&format!("qiang 1 3 6 7\n{entry}"));
        refused(&format!("qiang 1 3 7 7 1\n{entry}"));
        refused(&format!("qiang 1 3 7 7\n{entry}\n"));
        refused(&format!("qiang 1 3 7 8\n{entry}\n{entry}"));
    }
}
