//! Text form of an entry, one line each: for messages that carry it, and for tables that store it unchanged.
//!
//! `position milliseconds campaign event fields…`, separated by one space, because no id contains a space. All later
//! versions must read the lines of a version; a new event needs a new word.

use std::fmt::{self, Write as _};

use super::{Entry, Event, PartitionId};
use crate::{
    admission::AdmissionBound,
    campaign::SaleSettings,
    id::{IdempotencyKey, PaymentRef, UserId},
    order::ReturnPart,
    payment::{PaymentOutcome, PaymentState, ReceivedMoney},
    time::{Timestamp, Window},
};

/// Error of a line that is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the text of an entry")]
pub struct NotAnEntry;

impl Entry {
    /// The entry as one line, without an end of line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (seq, at, campaign) = (self.seq, self.at.as_millis(), self.campaign);
        let mut line = String::with_capacity(96);
        // Writes to a string do not fail.
        let _ = write!(line, "{seq} {at} {campaign} {}", self.event);
        line
    }

    /// Parses the text of [`Entry::to_text`].
    ///
    /// # Errors
    /// If the line has any other form.
    pub fn from_text(line: &str) -> Result<Self, NotAnEntry> {
        let mut words = line.split(' ');
        let entry = read(&mut words).filter(|_| words.next().is_none());
        entry.ok_or(NotAnEntry)
    }
}

/// The event in the form of an entry's text.
impl fmt::Display for Event {
    fn fmt(&self, line: &mut fmt::Formatter<'_>) -> fmt::Result {
        line.write_str(self.name())?;
        match self {
            Event::Opened { parts } => write!(line, " {parts}"),
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                key,
            } => {
                write!(line, " {number} {user} {quantity} {amount_minor}")?;
                key.as_ref().map_or(Ok(()), |key| write!(line, " {key}"))
            }
            Event::Paid {
                number,
                payment,
                received,
            }
            | Event::Reinstated {
                number,
                payment,
                received,
            }
            | Event::RefundDue {
                number,
                payment,
                received,
            } => write!(line, " {number} {payment}{received}"),
            Event::Cancelled { number } | Event::Expired { number } => write!(line, " {number}"),
            Event::HoldExtended {
                number,
                extension_ms,
            } => write!(line, " {number} {extension_ms}"),
            Event::PartCancelled {
                number,
                part: ReturnPart { quantity, key },
            } => write!(line, " {number} {quantity} {key}"),
            Event::Returned { number, part } => {
                write!(line, " {number}")?;
                match part {
                    Some(ReturnPart { quantity, key }) => write!(line, " {quantity} {key}"),
                    None => Ok(()),
                }
            }
            Event::TransferredOut {
                to: PartitionId(other),
                units,
                amount_minor,
            }
            | Event::TransferredIn {
                from: PartitionId(other),
                units,
                amount_minor,
            }
            | Event::TransferReturned {
                to: PartitionId(other),
                units,
                amount_minor,
            } => write!(line, " {other} {units} {amount_minor}"),
            Event::Paused | Event::Resumed | Event::Ended => Ok(()),
            Event::Closed {
                returned,
                refunded_minor,
            } => write!(line, " {returned} {refunded_minor}"),
            Event::StockChanged { units } => write!(line, " {units}"),
            Event::ChangeMade { id } => write!(line, " {id}"),
            Event::TermsChanged { revision, terms } => {
                let (starts_at, ends_at) = (terms.window.starts_at(), terms.window.ends_at());
                let (from, upto) = (starts_at.as_millis(), ends_at.as_millis());
                let (limit, price) = (terms.per_user_limit, terms.unit_price_minor);
                let percent = terms.admission.percent();
                write!(line, " {revision} {from} {upto} {limit} {price} {percent}")
            }
        }
    }
}

impl Event {
    /// Parses the part of an entry's line after the campaign.
    ///
    /// # Errors
    /// [`NotAnEntry`].
    pub fn from_text(text: &str) -> Result<Self, NotAnEntry> {
        let mut words = text.split(' ');
        let name = words.next().ok_or(NotAnEntry)?;
        let event = event(name, &mut words).filter(|_| words.next().is_none());
        event.ok_or(NotAnEntry)
    }
}

fn read<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Entry> {
    let seq = words.next()?.parse().ok()?;
    let at = Timestamp::from_millis(words.next()?.parse().ok()?);
    let campaign = words.next()?.parse().ok()?;
    let name = words.next()?;
    let event = event(name, words)?;
    Some(Entry {
        seq,
        at,
        campaign,
        event,
    })
}

fn event<'a>(name: &str, words: &mut impl Iterator<Item = &'a str>) -> Option<Event> {
    let mut next = || words.next();
    Some(match name {
        "opened" => Event::Opened {
            parts: next()?.parse().ok()?,
        },
        "granted" => Event::Granted {
            number: next()?.parse().ok()?,
            user: UserId::new(next()?).ok()?,
            quantity: next()?.parse().ok()?,
            amount_minor: next()?.parse().ok()?,
            key: match next() {
                Some(key) => Some(IdempotencyKey::new(key).ok()?),
                None => None,
            },
        },
        "paid" | "reinstated" | "refund_due" => {
            let number = next()?.parse().ok()?;
            let payment = PaymentRef::new(next()?).ok()?;
            let state = PaymentState {
                outcome: PaymentOutcome::from_name(name)?,
                received: ReceivedMoney::from_words(words)?,
            };
            Event::payment_recorded(number, payment, state)
        }
        "cancelled" => Event::Cancelled {
            number: next()?.parse().ok()?,
        },
        "part_cancelled" => Event::PartCancelled {
            number: next()?.parse().ok()?,
            part: part(next()?, next()?)?,
        },
        "expired" => Event::Expired {
            number: next()?.parse().ok()?,
        },
        "hold_extended" => Event::HoldExtended {
            number: next()?.parse().ok()?,
            extension_ms: next()?.parse().ok().filter(|millis| *millis > 0)?,
        },
        "transferred_out" => Event::TransferredOut {
            to: PartitionId(next()?.parse().ok()?),
            units: next()?.parse().ok()?,
            amount_minor: next()?.parse().ok()?,
        },
        "transferred_in" => Event::TransferredIn {
            from: PartitionId(next()?.parse().ok()?),
            units: next()?.parse().ok()?,
            amount_minor: next()?.parse().ok()?,
        },
        "transfer_returned" => Event::TransferReturned {
            to: PartitionId(next()?.parse().ok()?),
            units: next()?.parse().ok()?,
            amount_minor: next()?.parse().ok()?,
        },
        "paused" => Event::Paused,
        "resumed" => Event::Resumed,
        "ended" => Event::Ended,
        "closed" => Event::Closed {
            returned: next()?.parse().ok()?,
            refunded_minor: next()?.parse().ok()?,
        },
        "returned" => Event::Returned {
            number: next()?.parse().ok()?,
            part: match next() {
                Some(quantity) => Some(part(quantity, next()?)?),
                None => None,
            },
        },
        "stock_changed" => Event::StockChanged {
            units: next()?.parse().ok()?,
        },
        "change_made" => Event::ChangeMade {
            id: next()?.parse().ok()?,
        },
        "terms_changed" => Event::TermsChanged {
            revision: next()?.parse().ok()?,
            terms: SaleSettings {
                window: {
                    let mut instant = || Some(Timestamp::from_millis(next()?.parse().ok()?));
                    Window::new(instant()?, instant()?).ok()?
                },
                per_user_limit: next()?.parse().ok()?,
                unit_price_minor: next()?.parse().ok()?,
                admission: AdmissionBound::from_percent(next()?.parse().ok()?).ok()?,
            },
        },
        _ => return None,
    })
}

fn part(quantity: &str, key: &str) -> Option<ReturnPart> {
    Some(ReturnPart {
        quantity: quantity.parse().ok().filter(|quantity| *quantity > 0)?,
        key: IdempotencyKey::new(key).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

    #[test]
    fn lines_are_read_as_they_were_written() {
        for rest in [
            "opened 3",
            "change_made 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81",
            "granted 7 alice@example 2 -500",
            "granted 7 alice 2 500 key-1",
            "paid 7 pay-1",
            "reinstated 7 pay-1",
            "paid 7 pay-1 1999 CNY",
            "reinstated 7 pay-1 2001 CNY",
            "refund_due 7 pay-1",
            "refund_due 7 pay-1 1999 CNY",
            "refund_due 7 pay-1 9007199254740991 EUR",
            "cancelled 7",
            "part_cancelled 7 2 key-1",
            "expired 4294967295",
            "hold_extended 7 900000",
            "transferred_out 3 10 500",
            "transferred_in 0 10 0",
            "transfer_returned 65535 1 7",
            "paused",
            "resumed",
            "ended",
            "closed 3 99",
            "closed 9007199254740991 0",
            "transferred_in 0 9007199254740991 0",
            "returned 7",
            "returned 7 2 key-1",
            "stock_changed 50",
            "stock_changed -9007199254740990",
            "terms_changed 18446744073709551615 0 253370764799999 4294967295 0 150",
            "terms_changed 9 0 1 1 0 0",
            "terms_changed 9 0 1 1 0 10000",
        ] {
            let line = format!("18446744073709551615 -5 {ID} {rest}");
            let entry = Entry::from_text(&line).expect("an entry");
            assert_eq!(entry.to_text(), line);
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            String::new(),
            format!("1 2 {ID}"),
            format!("1 2 {ID} sold"),
            format!("1 2 {ID} paused "),
            format!("1 2 {ID} paused more"),
            format!("1 2 {ID} granted 7 alice 2"),
            format!("1 2 {ID} granted 7 alice 2 500 key more"),
            format!("1 2 {ID} refund_due 7 pay-1 1999"),
            format!("1 2 {ID} refund_due 7 pay-1 0 CNY"),
            format!("1 2 {ID} refund_due 7 pay-1 1999 CNY more"),
            format!("1 2 {ID} paid 7 pay-1 1999"),
            format!("1 2 {ID} reinstated 7 pay-1 0 CNY"),
            format!("1 2 {ID} cancelled 7 2 key"),
            format!("1 2 {ID} part_cancelled 7"),
            format!("1 2 {ID} part_cancelled 7 2"),
            format!("1 2 {ID} part_cancelled 7 0 key"),
            format!("1 2 {ID} part_cancelled 7 2 key more"),
            format!("1 2 {ID} hold_extended 7"),
            format!("1 2 {ID} hold_extended 7 0"),
            format!("1 2 {ID} hold_extended 7 -1"),
            format!("1 2 {ID} hold_extended 7 1 more"),
            format!("1 2 {ID} returned 7 2"),
            format!("1 2 {ID} returned 7 0 key"),
            format!("1 2 {ID} returned 7 2 key more"),
            format!("1 2 {ID} terms_changed 9 0 1 1 0"),
            format!("1 2 {ID} terms_changed 9 0 1 1 0 99"),
            format!("-1 2 {ID} paused"),
            format!("1  2 {ID} paused"),
        ] {
            assert_eq!(Entry::from_text(&line), Err(NotAnEntry), "{line}");
        }
    }
}
