//! Replies of the scripts, and their parsers.
//!
//! The reply to a batch of claims of one campaign consists of lines. The first is `now seq left version mode`, followed
//! by the admission in percent for a sale. `seq` is the end of the log right after the decision: the batch's last
//! grant, if there is one. In mode `*` all claims were granted, and the log's body follows, as alternating users and
//! rows. In mode `=` one outcome per claim follows, in order:
//!
//! | line | outcome |
//! |---|---|
//! | a row | granted; paid as well if it costs nothing |
//! | `A` and a row, or an order | granted before |
//! | `P` `N` `E` | paused, not started, ended |
//! | `L` and a number | limit reached; units held |
//! | `S` and a number | sold out; units left |
//! | `K` | the idempotency key was used for another request |
//!
//! The reply to claims of several packets has one part per packet: its length in bytes, a line feed, and such a reply.
//! Instead of a reply, `?` means that Redis lacks the packet, and `#` that its keys are damaged. `-` and a text mean
//! that nothing was decided, and `!` and a text that the result is unknown.
//!
//! A packet's row is `NNNNNNamount \t offset [\t key]`, NNNNNN the number in base 36; a sale's is `number \t amount \t
//! offset \t units \t key`; an order is `number \t state \t refunds \t user \t units \t amount \t offset \t key`. If
//! units of a paid order were returned, a hyphen, their count, a hyphen, and the number of returns follow its units.
//! Offsets are milliseconds after the start. If the hold of an order was extended, a plus sign and the milliseconds
//! follow its offset.

use qiang_core::{
    admission::AdmissionBound,
    book::{OrderView, Refusal},
    campaign::CampaignKind,
    event::{Event, Seq},
    id::{IdempotencyKey, UserId},
    order::{OrderState, PartKind, price_of_units},
    outcome::{Grant, OrderTerms, Outcome},
    payment::{PaymentOutcome, PaymentState, ReceivedMoney},
    ports::EngineError,
    time::Timestamp,
};

use crate::protocol::campaign_meta::CachedCampaign;

/// Parts of the reply to claims of several packets. `None` if there are not `count`.
pub(crate) fn parts(mut text: &[u8], count: usize) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::with_capacity(count);
    while !text.is_empty() {
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let length: usize = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
        let (part, rest) = text[end + 1..].split_at_checked(length)?;
        parts.push(part);
        text = rest;
    }
    (parts.len() == count).then_some(parts)
}

/// Reply to a batch of claims: its first line, and the remaining lines.
pub(crate) struct ClaimsReply<'a> {
    pub(crate) now: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) left: u64,
    /// The admission of a sale; `None` for a red packet.
    pub(crate) admission: Option<AdmissionBound>,
    all_granted: bool,
    lines: std::str::Split<'a, char>,
}

impl<'a> ClaimsReply<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = first.split(' ');
        Some(Self {
            now: Timestamp::from_millis(words.next()?.parse().ok()?),
            seq: words.next()?.parse().ok()?,
            left: words.next()?.parse().ok()?,
            // The version has no use here.
            all_granted: words.nth(1)? == "*",
            admission: match words.next() {
                Some(percent) => Some(AdmissionBound::from_percent(percent.parse().ok()?).ok()?),
                None => None,
            },
            lines: rest.split('\n'),
        })
    }

    /// Outcome of the next claim. `None` if the reply cannot be read.
    pub(crate) fn next(&mut self, meta: &CachedCampaign) -> Option<Result<Outcome, EngineError>> {
        if self.all_granted {
            self.lines.next()?;
        }
        let line = self.lines.next()?;
        let rest = line.get(1..)?;
        let outcome = match line.as_bytes()[0] {
            b'A' if meta.kind == CampaignKind::Sale => {
                Outcome::AlreadyGranted(order(meta, rest)?.grant)
            }
            b'A' => Outcome::AlreadyGranted(grant(meta, rest)?),
            b'P' => Outcome::Paused,
            // The line of a sale has its start and its limit, because they may change.
            b'N' => Outcome::NotStarted {
                starts_at: match rest {
                    "" => meta.window.starts_at(),
                    millis => Timestamp::from_millis(millis.parse().ok()?),
                },
            },
            b'E' => Outcome::Ended,
            b'L' => {
                let (held, limit) = rest.split_once(' ').unwrap_or((rest, ""));
                Outcome::LimitReached {
                    limit: limit.parse().unwrap_or(meta.limit),
                    held: held.parse().ok()?,
                }
            }
            b'S' => Outcome::SoldOut {
                remaining: rest.parse().ok()?,
            },
            b'K' => return Some(Err(Refusal::KeyReused.into())),
            _ => Outcome::Granted(grant(meta, line)?),
        };
        Some(Ok(outcome))
    }
}

/// Row of a grant.
pub(crate) struct GrantLine<'a> {
    pub(crate) number: u32,
    pub(crate) amount_minor: i64,
    /// Milliseconds after the start.
    pub(crate) offset: &'a str,
    pub(crate) quantity: u32,
    /// Units that were cancelled since. Units and amount are without them.
    pub(crate) cancelled: u32,
    /// Milliseconds by which the hold was extended since.
    pub(crate) extension_ms: i64,
    /// Empty if the claim had none.
    pub(crate) key: &'a str,
}

impl<'a> GrantLine<'a> {
    pub(crate) fn parse(kind: CampaignKind, text: &'a str) -> Option<Self> {
        let mut fields = text.split('\t');
        let mut next = || fields.next();
        Some(match kind {
            CampaignKind::RedPacket => {
                let (number, amount_minor) = share(next()?)?;
                Self {
                    number,
                    amount_minor,
                    offset: next()?,
                    quantity: 1,
                    cancelled: 0,
                    extension_ms: 0,
                    key: next().unwrap_or_default(),
                }
            }
            CampaignKind::Sale => Self {
                number: next()?.parse().ok()?,
                amount_minor: next()?.parse().ok()?,
                offset: next()?,
                quantity: next()?.parse().ok()?,
                cancelled: 0,
                extension_ms: 0,
                key: next().unwrap_or_default(),
            },
        })
    }

    /// The event of the grant.
    pub(crate) fn event(&self, user: &str) -> Option<Event> {
        Some(Event::Granted {
            number: self.number,
            user: UserId::new(user).ok()?,
            quantity: self.quantity.saturating_add(self.cancelled),
            amount_minor: match self.cancelled {
                0 => self.amount_minor,
                // With the cancelled units, as it was granted.
                cancelled => {
                    let units = self.quantity.saturating_add(cancelled);
                    price_of_units(self.amount_minor, units, self.quantity)
                }
            },
            key: self.key()?,
        })
    }

    /// The claim's key, if it had one. `None` if it cannot be read.
    pub(crate) fn key(&self) -> Option<Option<IdempotencyKey>> {
        match self.key {
            "" => Some(None),
            key => Some(Some(IdempotencyKey::new(key).ok()?)),
        }
    }

    fn grant(
        &self,
        meta: &CachedCampaign,
        state: OrderState,
        (refunds_due, returned_quantity): (u32, u32),
    ) -> Option<Grant> {
        let granted_at = meta.at(self.offset)?;
        let order = OrderTerms {
            state,
            hold_until: granted_at.plus_millis(meta.hold_ms.saturating_add(self.extension_ms)),
            extension_ms: self.extension_ms,
            refunds_due: {
                // No refund is due for an order that costs nothing.
                let is_price_due = returned_quantity > 0 && self.amount_minor != 0;
                refunds_due + u32::from(is_price_due)
            },
            returned_quantity,
            cancelled_quantity: self.cancelled,
        };
        Some(Grant {
            campaign: meta.id,
            number: self.number,
            quantity: self.quantity,
            amount_minor: self.amount_minor,
            granted_at,
            order: (meta.kind == CampaignKind::Sale).then_some(order),
        })
    }
}

/// A new grant.
fn grant(meta: &CachedCampaign, row: &str) -> Option<Grant> {
    let row = GrantLine::parse(meta.kind, row)?;
    let state = match row.amount_minor {
        0 => OrderState::Paid,
        _ => OrderState::Held,
    };
    row.grant(meta, state, (0, 0))
}

/// Number and amount of a share.
pub(crate) fn share(text: &str) -> Option<(u32, i64)> {
    let number = u32::from_str_radix(text.get(..6)?, 36).ok()?;
    Some((number, text.get(6..)?.parse().ok()?))
}

/// Text of a share in the scripts.
pub(crate) fn share_text(number: u32, amount_minor: i64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(16);
    for place in (0..6).rev() {
        let digit = number / 36_u32.pow(place) % 36;
        text.push(char::from(DIGITS[digit as usize]));
    }
    text.push_str(&amount_minor.to_string());
    text
}

/// Reply to a payment: its state, `None` if nothing was recorded, and the text of the order.
pub(crate) fn payment(text: &str) -> Option<(Option<PaymentState>, &str)> {
    let (before, _) = text.split_once('\t')?;
    let (state, _) = before.rsplit_once(' ')?;
    let order = text.get(state.len() + 1..)?;
    match state {
        "f" => Some((None, order)),
        state => Some((Some(read_payment_state(state)?), order)),
    }
}

/// Text of a payment's outcome in Redis, with its money unless that is the price.
pub(crate) fn payment_text(state: PaymentState) -> String {
    let word = match state.outcome {
        PaymentOutcome::Paid => "p",
        PaymentOutcome::Reinstated => "r",
        PaymentOutcome::RefundDue => "d",
    };
    format!("{word}{}", state.received)
}

/// Text of a part of an order that was restocked, in Redis: its units, after a letter for a cancellation.
pub(crate) fn part_text(kind: PartKind, units: u32) -> String {
    match kind {
        PartKind::Cancellation => format!("c{units}"),
        PartKind::Return => units.to_string(),
    }
}

/// Reads [`part_text`].
pub(crate) fn part_units(text: &str) -> Option<(PartKind, u32)> {
    let (kind, units) = match text.strip_prefix('c') {
        Some(units) => (PartKind::Cancellation, units),
        None => (PartKind::Return, text),
    };
    Some((kind, units.parse().ok()?))
}

/// Reads [`payment_text`].
pub(crate) fn read_payment_state(text: &str) -> Option<PaymentState> {
    let mut words = text.split(' ');
    let outcome = match words.next()? {
        "p" => PaymentOutcome::Paid,
        "r" => PaymentOutcome::Reinstated,
        "d" => PaymentOutcome::RefundDue,
        _ => return None,
    };
    let received = ReceivedMoney::from_words(words)?;
    Some(PaymentState::new(outcome, received))
}

/// An order and its user.
pub(crate) fn order(meta: &CachedCampaign, text: &str) -> Option<OrderView> {
    let (number, text) = text.split_once('\t')?;
    let order = OrderText::parse(number.parse().ok()?, text)?;
    let user = UserId::new(order.user).ok()?;
    let owed = (order.refunds_due, order.returned);
    let grant = order.row.grant(meta, order.state, owed)?;
    Some(OrderView { user, grant })
}

/// State for a letter.
pub(crate) fn order_state(letter: &str) -> Option<OrderState> {
    Some(match letter {
        "h" => OrderState::Held,
        "p" => OrderState::Paid,
        "c" => OrderState::Cancelled,
        "x" => OrderState::Expired,
        "r" => OrderState::Returned,
        _ => return None,
    })
}

/// Text of an order in Redis, stored under the order's number.
pub(crate) struct OrderText<'a> {
    pub(crate) state: OrderState,
    pub(crate) refunds_due: u32,
    /// Returned units; all units of a returned order.
    pub(crate) returned: u32,
    pub(crate) user: &'a str,
    pub(crate) row: GrantLine<'a>,
}

impl<'a> OrderText<'a> {
    pub(crate) fn parse(number: u32, text: &'a str) -> Option<Self> {
        let mut fields = text.split('\t');
        let mut next = || fields.next();
        let state = order_state(next()?)?;
        let (refunds_due, user) = (next()?.parse().ok()?, next()?);
        let units = next()?;
        // Units; then returned ones, the number of parts, and cancelled units, if there are any.
        let mut units = units.split('-').map(str::parse::<u32>);
        let quantity = units.next()?.ok()?;
        let mut rest = || units.next().unwrap_or(Ok(0)).ok();
        let (returned, _parts, cancelled) = (rest()?, rest()?, rest()?);
        if returned > quantity || units.next().is_some() {
            return None;
        }
        let (amount_minor, offset) = (next()?.parse().ok()?, next()?);
        let (offset, extension_ms) = match offset.split_once('+') {
            Some((offset, millis)) => (offset, millis.parse().ok()?),
            None => (offset, 0),
        };
        Some(Self {
            state,
            refunds_due,
            returned: match state {
                OrderState::Returned => quantity,
                _ => returned,
            },
            user,
            row: GrantLine {
                number,
                quantity,
                cancelled,
                extension_ms,
                amount_minor,
                offset,
                key: next().unwrap_or_default(),
            },
        })
    }
}

/// Row of a buyer of a sale, as `claim_sale.lua` writes it.
pub(crate) struct BuyerLine {
    /// Units that the buyer holds.
    pub(crate) held: u64,
    /// Numbers of orders that the row names: the newest one, and those with keys in the row.
    pub(crate) numbers: Vec<u32>,
}

impl BuyerLine {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (numbers, keys) = text.split_once('\n').unwrap_or((text, ""));
        let mut numbers = numbers.trim_end_matches('+').split('\t');
        let held = numbers.next()?.parse().ok()?;
        let newest = numbers.nth(1)?.parse().ok()?;
        let named = keys.split('\n').filter_map(|key| key.rsplit_once('\t'));
        let named = named.filter_map(|(_, number)| number.parse().ok());
        Some(Self {
            held,
            numbers: std::iter::once(newest).chain(named).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_long_as_they_say() {
        let text = b"1\n?4\nab\n\n0\n";
        assert_eq!(parts(text, 3), Some(vec![&b"?"[..], b"ab\n\n", b""]));
        assert_eq!(parts(text, 2), None);
        for broken in [&b"2\n?"[..], b"?", b"x\n?", b"1\n?1"] {
            assert_eq!(parts(broken, 1), None, "{broken:?}");
        }
        assert_eq!(parts(b"", 0), Some(vec![]));
    }

    #[test]
    fn returned_units_follow_those_of_the_order() {
        let check = |text: &str, expected: Option<(u32, u32, u32)>| {
            let order = OrderText::parse(7, text);
            let units =
                order.map(|order| (order.row.quantity, order.returned, order.row.cancelled));
            assert_eq!(units, expected, "{text}");
        };
        check("p\t0\tann\t3\t30\t5\tkey", Some((3, 0, 0)));
        check("p\t0\tann\t3-2\t30\t5\t", Some((3, 2, 0)));
        check("p\t0\tann\t3-2-1\t30\t5\t", Some((3, 2, 0)));
        check("h\t0\tann\t3-0-1-2\t30\t5\t", Some((3, 0, 2)));
        check("p\t0\tann\t3-2-2-2\t30\t5\t", Some((3, 2, 2)));
        check("r\t0\tann\t3-0-2-2\t30\t5\t", Some((3, 3, 2)));
        check("r\t0\tann\t3\t30\t5\t", Some((3, 3, 0)));
        check("h\t0\tann\t3-0-1-2-1\t30\t5\t", None);
        check("p\t0\tann\t3-4\t30\t5\t", None);
        check("p\t0\tann\t3-\t30\t5\t", None);
    }

    #[test]
    fn an_extension_follows_the_offset() {
        let check = |text: &str, expected: Option<(&str, i64, &str)>| {
            let order = OrderText::parse(7, text);
            let row = order.map(|order| (order.row.offset, order.row.extension_ms, order.row.key));
            assert_eq!(row, expected, "{text}");
        };
        check("h\t0\tann\t3\t30\t5\tkey", Some(("5", 0, "key")));
        check("h\t0\tann\t3\t30\t-5+900\t+k", Some(("-5", 900, "+k")));
        check("h\t0\tann\t3\t30\t5+\tkey", None);
    }

    #[test]
    fn a_share_reads_as_it_was_written() {
        for (number, amount) in [(1, 1), (36, 52_000), (10_000_000, 1_000_000_000_000_000)] {
            assert_eq!(share(&share_text(number, amount)), Some((number, amount)));
        }
        assert_eq!(share_text(35, 7), "00000z7");
    }
}
