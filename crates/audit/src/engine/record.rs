//! Records of the engine's log, as far as the audit needs them.

use std::sync::Arc;

/// Unsettled entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) seq: i64,
    pub(super) campaign: Arc<str>,
    pub(super) kind: String,
    /// Number of the order.
    pub(super) number: Option<i64>,
    /// For a grant, its units. For a close, the returned units. For a change of the stock, the added units, negative
    /// for removed ones. For a return, the units of a partial one; `None` for all remaining units.
    pub(super) quantity: Option<i64>,
}

/// Parses the entries of one record, whose id is the position of the last one. The fields are grants of packets (`g`)
/// or sales (`o`), as alternating users and rows, or other events (`e`), one per line. Returns `None` if the record is
/// invalid.
pub(super) fn entries(id: &str, fields: &[(String, String)]) -> Option<Vec<InFlight>> {
    let last: i64 = id.strip_suffix("-0")?.parse().ok()?;
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.map(|(_, text)| text.as_str())
    };
    let campaign: Arc<str> = field("c")?.into();
    let events: Vec<(&str, Option<i64>, Option<i64>)> = if let Some(body) = field("g") {
        rows(body).map(|_| ("granted", None, Some(1))).collect()
    } else if let Some(body) = field("o") {
        rows(body).map(order).collect::<Option<_>>()?
    } else {
        field("e")?.split('\n').map(event).collect::<Option<_>>()?
    };
    let first = last + 1 - i64::try_from(events.len()).ok()?;
    let entry = |(seq, (kind, number, quantity)): (i64, (&str, _, _))| InFlight {
        seq,
        campaign: Arc::clone(&campaign),
        kind: kind.to_owned(),
        number,
        quantity,
    };
    Some((first..).zip(events).map(entry).collect())
}

/// Rows, each after its user.
fn rows(body: &str) -> impl Iterator<Item = &str> {
    body.split('\n').skip(1).step_by(2)
}

/// Columns: number, price, time, units, key.
fn order(row: &str) -> Option<(&'static str, Option<i64>, Option<i64>)> {
    let mut columns = row.split('\t');
    let number = columns.next()?.parse().ok()?;
    let units = columns.nth(2)?.parse().ok()?;
    Some(("granted", Some(number), Some(units)))
}

fn event(line: &str) -> Option<(&str, Option<i64>, Option<i64>)> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    if kind == "change_made" {
        return Some((kind, None, None));
    }
    let number = words.next().map(str::parse).transpose().ok()?;
    Some(match kind {
        "granted" => (kind, Some(number?), Some(words.nth(1)?.parse().ok()?)),
        "closed" | "stock_changed" => (kind, None, Some(number?)),
        "returned" => {
            let units = words.next().map(str::parse).transpose().ok()?;
            (kind, Some(number?), units)
        }
        "part_cancelled" => (kind, Some(number?), Some(words.next()?.parse().ok()?)),
        "paid" | "cancelled" | "expired" | "hold_extended" | "reinstated" | "refund_due" => {
            (kind, Some(number?), None)
        }
        "opened" | "paused" | "resumed" | "ended" | "transferred_out" | "transferred_in"
        | "transfer_returned" | "terms_changed" => (kind, None, None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Position, kind, number and units of an entry.
    type Event = (i64, String, Option<i64>, Option<i64>);

    fn events(id: &str, field: &str, body: &str) -> Option<Vec<Event>> {
        let fields = [("c", "X"), ("t", "1"), (field, body)];
        let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let entry = |entry: InFlight| (entry.seq, entry.kind, entry.number, entry.quantity);
        Some(entries(id, &fields)?.into_iter().map(entry).collect())
    }

    #[test]
    fn records_are_entries_up_to_their_id() {
        let granted = "granted".to_owned();
        assert_eq!(
            events("7-0", "g", "ann\n00000150\t9\nbob\n00000220\t9"),
            Some(vec![
                (6, granted.clone(), None, Some(1)),
                (7, granted.clone(), None, Some(1))
            ])
        );
        assert_eq!(
            events("3-0", "o", "ann\n5\t700\t12\t2\tkey"),
            Some(vec![(3, granted, Some(5), Some(2))])
        );
        assert_eq!(
            events(
                "9-0",
                "e",
                "stock_changed -2\ntransferred_out 3 10 0\ncancelled 5\nended\nclosed 4 0"
            ),
            Some(vec![
                (5, "stock_changed".to_owned(), None, Some(-2)),
                (6, "transferred_out".to_owned(), None, None),
                (7, "cancelled".to_owned(), Some(5), None),
                (8, "ended".to_owned(), None, None),
                (9, "closed".to_owned(), None, Some(4)),
            ])
        );
        assert_eq!(
            events("4-0", "e", "granted 5 ann 2 0 key\npaid 5 free"),
            Some(vec![
                (3, "granted".to_owned(), Some(5), Some(2)),
                (4, "paid".to_owned(), Some(5), None),
            ])
        );
        assert_eq!(
            events(
                "9-0",
                "e",
                "part_cancelled 6 3 key\nreturned 5\nreturned 5 2 key"
            ),
            Some(vec![
                (7, "part_cancelled".to_owned(), Some(6), Some(3)),
                (8, "returned".to_owned(), Some(5), None),
                (9, "returned".to_owned(), Some(5), Some(2)),
            ])
        );
        assert_eq!(events("9-0", "e", "vanished 5"), None);
        assert_eq!(events("9", "e", "ended"), None);
    }
}
