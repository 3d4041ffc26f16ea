//! Text format of a message: a run of log entries.
//!
//! The first line is `qiang 2 EPOCH PARTITION FIRST LAST`: the version of the format, the partition's epoch (`-` if it
//! has none), the partition, and the positions of the first and the last entry. Each further line is an entry, as
//! `qiang_core` writes it, in order and without a gap. A message in another format is unreadable.
//!
//! A message of another epoch is stale. A partition that was rebuilt after a loss has a new epoch, and its entries
//! differ from the lost ones. Version 1 had no epoch, so its messages are stale, too. The consumer reads missing
//! entries from the log.

use std::fmt::Write as _;

use qiang_core::event::{Entry, PartitionId};

const FORM: &str = "qiang 2";
/// Format without an epoch.
const FORM_1: &str = "qiang 1 ";
/// Stands for an empty epoch.
const NONE: &str = "-";

/// Parsed message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BrokerMessage {
    /// A run of entries.
    Run(Vec<Entry>),
    /// Entries that may belong to another history.
    Stale,
}

/// Formats a run of entries as a message.
pub(crate) fn encode(partition: PartitionId, epoch: &str, run: &[Entry]) -> String {
    let place = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.seq);
    let (first, last) = (place(run.first()), place(run.last()));
    let mut text = format!("{FORM} {} {} {first} {last}", word(epoch), partition.0);
    for entry in run {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}", entry.to_text());
    }
    text
}

/// Parses a message for a partition with this current epoch; `None` if it is unreadable.
pub(crate) fn decode(partition: PartitionId, epoch: &str, message: &[u8]) -> Option<BrokerMessage> {
    let text = std::str::from_utf8(message).ok()?;
    if text.starts_with(FORM_1) {
        return Some(BrokerMessage::Stale);
    }
    let mut lines = text.split('\n');
    let head = lines.next()?.strip_prefix(FORM)?.strip_prefix(' ')?;
    let mut words = head.split(' ');
    if words.next()? != word(epoch) {
        return Some(BrokerMessage::Stale);
    }
    let mut number = || words.next()?.parse::<u64>().ok();
    let (of, first, last) = (number()?, number()?, number()?);
    let run: Vec<Entry> = lines
        .map(|line| Entry::from_text(line).ok())
        .collect::<Option<_>>()?;
    let places = run.iter().map(|entry| entry.seq);
    let sound = words.next().is_none() && of == u64::from(partition.0) && !run.is_empty();
    (sound && places.eq(first..=last)).then_some(BrokerMessage::Run(run))
}

fn word(epoch: &str) -> &str {
    if epoch.is_empty() { NONE } else { epoch }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

    #[test]
    fn messages_are_read_as_they_were_written() {
        let line = |seq| format!("{seq} 5 {ID} granted {seq} alice 1 100");
        let run = || {
            let entry = |seq| Entry::from_text(&line(seq)).expect("a valid entry");
            Vec::from_iter((7..=9).map(entry))
        };
        for (epoch, head) in [("0af3", "qiang 2 0af3 3 7 9"), ("", "qiang 2 - 3 7 9")] {
            let message = encode(PartitionId(3), epoch, &run());
            assert_eq!(message.lines().next(), Some(head));
            let decoded =
                |partition, epoch| decode(PartitionId(partition), epoch, message.as_bytes());
            assert_eq!(decoded(3, epoch), Some(BrokerMessage::Run(run())));
            assert_eq!(decoded(4, epoch), None);
            assert_eq!(decoded(3, "0af4"), Some(BrokerMessage::Stale));
        }
        let old = format!("qiang 1 3 7 7\n{}", line(7));
        assert_eq!(
            decode(PartitionId(3), "", old.as_bytes()),
            Some(BrokerMessage::Stale)
        );
    }

    #[test]
    fn other_messages_are_refused() {
        let refused = |message: &str| {
            let decoded = decode(PartitionId(3), "e", message.as_bytes());
            assert_eq!(decoded, None, "{message}");
        };
        let entry = format!("7 5 {ID} paused");
        let sound = format!("qiang 2 e 3 7 7\n{entry}");
        assert!(decode(PartitionId(3), "e", sound.as_bytes()).is_some());
        refused("");
        refused("rubbish");
        refused("qiang 2 e 3 7 7");
        refused("qiang 2 e 3 1 0");
        refused(&format!("qiang 3 e 3 7 7\n{entry}"));
        refused(&format!("qiang 2 e 3 7 8\n{entry}"));
        refused(&format!("qiang 2 e 3 6 7\n{entry}"));
        refused(&format!("qiang 2 e 3 7 7 1\n{entry}"));
        refused(&format!("qiang 2 e 3 7 7\n{entry}\n"));
        refused(&format!("qiang 2 e 3 7 8\n{entry}\n{entry}"));
    }
}
