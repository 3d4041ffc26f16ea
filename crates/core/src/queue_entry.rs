//! Queue in front of a campaign: its entries, their decisions, and the texts by which engines store both.

use crate::{
    book::{Claim, Refusal},
    campaign::{AckLevel, CampaignKind},
    id::{CampaignId, IdempotencyKey, UserId},
    order::OrderState,
    outcome::{Grant, OrderTerms, Outcome},
    time::Timestamp,
};

/// Limits of queues, and the retention time of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum entries of one campaign.
    pub entries_max: u64,
    /// Maximum entries of all campaigns of a partition.
    pub partition_entries_max: u64,
    /// Retention time of results, in milliseconds.
    pub result_ttl_ms: u64,
}

/// An entry in the queue of a campaign. A user has one at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// Number, ascending in the order of entry.
    pub number: u64,
    /// Time of entry.
    pub entered_at: Timestamp,
    /// Claim of the user.
    pub claim: Claim,
}

impl QueueEntry {
    /// The claim for the engine. An order always gets an idempotency key, so a repeated submission stays one order.
    #[must_use]
    pub fn keyed_claim(&self) -> Claim {
        let mut claim = self.claim.clone();
        if claim.kind == CampaignKind::Sale && claim.key.is_none() {
            let name = format!("place-{}-{}", self.number, self.entered_at.as_millis());
            claim.key = IdempotencyKey::new(&name).ok();
        }
        claim
    }

    /// Checks that a later claim of the same user repeats this one. A claim without a key repeats any order of as many
    /// units. A claim of a packet is always for the user's one share, with any key.
    ///
    /// # Errors
    /// [`Refusal::KeyReused`] for the same key and other units, [`Refusal::WaitsWithAnother`] for another order.
    pub fn check_repeated(&self, claim: &Claim) -> Result<(), Refusal> {
        let own = &self.claim;
        if claim.kind == CampaignKind::RedPacket {
            return Ok(());
        }
        let is_same_key = claim.key == own.key;
        match claim.quantity == own.quantity {
            true if is_same_key || claim.key.is_none() => Ok(()),
            false if is_same_key && own.key.is_some() => Err(Refusal::KeyReused),
            _ => Err(Refusal::WaitsWithAnother),
        }
    }

    /// Encodes everything except the campaign and the user as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Claim {
            kind,
            quantity,
            key,
            ..
        } = &self.claim;
        let key = key.as_ref().map_or("", IdempotencyKey::as_str);
        let at = self.entered_at.as_millis();
        format!("{} {at} {kind} {quantity} {key}", self.number)
    }

    /// Parses the text of [`to_text`](Self::to_text).
    #[must_use]
    pub fn parse(campaign: CampaignId, user: UserId, text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        let mut next = || words.next();
        let number = next()?.parse().ok()?;
        let entered_at = Timestamp::from_millis(next()?.parse().ok()?);
        let kind = CampaignKind::from_name(next()?)?;
        let quantity = next()?.parse().ok()?;
        let key = match next()? {
            "" => None,
            key => Some(IdempotencyKey::new(key).ok()?),
        };
        let claim = Claim {
            campaign,
            kind,
            user,
            quantity,
            key,
        };
        Some(Self {
            number,
            entered_at,
            claim,
        })
    }
}

/// Result of a queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDecision {
    /// The engine has decided the claim: the outcome, and the failures that the decision survives.
    Claimed(Outcome, AckLevel),
    /// The claim's key was used for another request.
    KeyReused,
}

impl QueueDecision {
    /// Name of the result: the outcome's name, or `key_reused`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claimed(outcome, _) => outcome.name(),
            Self::KeyReused => "key_reused",
        }
    }

    /// Encodes the decision as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let name = self.name();
        let Self::Claimed(outcome, ack) = self else {
            return name.to_owned();
        };
        match outcome {
            Outcome::Granted(grant) | Outcome::AlreadyGranted(grant) => {
                let (number, units, minor) = (grant.number, grant.quantity, grant.amount_minor);
                let at = grant.granted_at.as_millis();
                let order = grant.order.map_or_else(String::new, |order| {
                    let until = order.hold_until.as_millis();
                    // Absent words at the end are 0.
                    let units = (order.returned_quantity, order.cancelled_quantity);
                    let returned = match (units, order.extension_ms) {
                        ((0, 0), 0) => String::new(),
                        ((units, 0), 0) => format!(" {units}"),
                        ((units, cancelled), 0) => format!(" {units} {cancelled}"),
                        ((units, cancelled), millis) => format!(" {units} {cancelled} {millis}"),
                    };
                    format!(" {} {until} {}{returned}", order.state, order.refunds_due)
                });
                format!("{name} {ack} {number} {units} {minor} {at}{order}")
            }
            Outcome::LimitReached { limit, held } => format!("{name} {ack} {limit} {held}"),
            Outcome::SoldOut { remaining } => format!("{name} {ack} {remaining}"),
            Outcome::NotStarted { starts_at } => format!("{name} {ack} {}", starts_at.as_millis()),
            Outcome::UnknownCampaign | Outcome::Paused | Outcome::Ended => format!("{name} {ack}"),
        }
    }

    /// Parses the text of [`to_text`](Self::to_text).
    #[must_use]
    pub fn parse(campaign: CampaignId, text: &str) -> Option<Self> {
        fn next<'a, T: std::str::FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
            words.next()?.parse().ok()
        }
        let mut words = text.split(' ');
        let name = words.next()?;
        if name == "key_reused" {
            return Some(Self::KeyReused);
        }
        let ack: AckLevel = next(&mut words)?;
        let outcome = match name {
            "granted" | "already_granted" => {
                let grant = Grant {
                    campaign,
                    number: next(&mut words)?,
                    quantity: next(&mut words)?,
                    amount_minor: next(&mut words)?,
                    granted_at: Timestamp::from_millis(next(&mut words)?),
                    order: match words.next() {
                        None => None,
                        Some(state) => Some(OrderTerms {
                            state: OrderState::from_name(state)?,
                            hold_until: Timestamp::from_millis(next(&mut words)?),
                            refunds_due: next(&mut words)?,
                            returned_quantity: match words.next() {
                                None => 0,
                                Some(units) => units.parse().ok()?,
                            },
                            cancelled_quantity: match words.next() {
                                None => 0,
                                Some(units) => units.parse().ok()?,
                            },
                            extension_ms: match words.next() {
                                None => 0,
                                Some(millis) => millis.parse().ok()?,
                            },
                        }),
                    },
                };
                match name {
                    "granted" => Outcome::Granted(grant),
                    _ => Outcome::AlreadyGranted(grant),
                }
            }
            "limit_reached" => Outcome::LimitReached {
                limit: next(&mut words)?,
                held: next(&mut words)?,
            },
            "sold_out" => Outcome::SoldOut {
                remaining: next(&mut words)?,
            },
            "not_started" => Outcome::NotStarted {
                starts_at: Timestamp::from_millis(next(&mut words)?),
            },
            "ended" => Outcome::Ended,
            "paused" => Outcome::Paused,
            "unknown_campaign" => Outcome::UnknownCampaign,
            _ => return None,
        };
        Some(Self::Claimed(outcome, ack))
    }
}

/// Status of a user in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStatus {
    /// The user waits.
    Waiting {
        /// Number of the entry.
        number: u64,
        /// Maximum number of entries before it.
        ahead: u64,
    },
    /// The entry is decided.
    Decided {
        /// Number of the entry.
        number: u64,
        /// Result of the entry.
        decision: QueueDecision,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn campaign() -> CampaignId {
        let id = Uuid::parse_str("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80").expect("a uuid");
        CampaignId::new(id).expect("of version 7")
    }

    #[test]
    fn places_are_read_as_they_were_written() {
        let check = |kind, key: Option<&str>| {
            let user = UserId::new("ann").expect("a user");
            let claim = Claim {
                campaign: campaign(),
                kind,
                user: user.clone(),
                quantity: 3,
                key: key.map(|key| IdempotencyKey::new(key).expect("a key")),
            };
            let place = QueueEntry {
                number: 7,
                entered_at: Timestamp::from_millis(1_795_262_400_000),
                claim,
            };
            assert_eq!(
                QueueEntry::parse(campaign(), user, &place.to_text()),
                Some(place.clone())
            );
            let keyed = place.keyed_claim();
            assert_eq!(
                keyed.key.is_some(),
                key.is_some() || kind == CampaignKind::Sale
            );
            assert!(key.is_none() || keyed.key == place.claim.key);
        };
        check(CampaignKind::Sale, None);
        check(CampaignKind::Sale, Some("k-1"));
        check(CampaignKind::RedPacket, None);
    }

    #[test]
    fn a_place_is_for_one_order() {
        let claim = |kind, quantity, key: Option<&str>| Claim {
            campaign: campaign(),
            kind,
            user: UserId::new("ann").expect("a user"),
            quantity,
            key: key.map(|key| IdempotencyKey::new(key).expect("a key")),
        };
        let check = |kind, own: (u32, Option<&str>), asked: (u32, Option<&str>), expected| {
            let place = QueueEntry {
                number: 1,
                entered_at: Timestamp::from_millis(5),
                claim: claim(kind, own.0, own.1),
            };
            let repeated = place.check_repeated(&claim(kind, asked.0, asked.1));
            assert_eq!(repeated, expected, "{own:?} {asked:?}");
        };
        let (sale, a, b) = (CampaignKind::Sale, Some("a"), Some("b"));
        check(sale, (2, a), (2, a), Ok(()));
        check(sale, (2, a), (2, None), Ok(()));
        check(sale, (2, None), (2, None), Ok(()));
        check(sale, (2, a), (3, a), Err(Refusal::KeyReused));
        for (own, asked) in [
            ((2, a), (2, b)),
            ((2, a), (3, b)),
            ((2, a), (3, None)),
            ((2, None), (2, b)),
            ((2, None), (3, None)),
        ] {
            check(sale, own, asked, Err(Refusal::WaitsWithAnother));
        }
        check(CampaignKind::RedPacket, (1, a), (1, b), Ok(()));
    }

    #[test]
    fn decisions_are_read_as_they_were_written() {
        let grant = Grant {
            campaign: campaign(),
            number: 12,
            quantity: 2,
            amount_minor: 1_000,
            granted_at: Timestamp::from_millis(5),
            order: None,
        };
        let order = OrderTerms {
            state: OrderState::Held,
            hold_until: Timestamp::from_millis(65),
            refunds_due: 0,
            returned_quantity: 0,
            cancelled_quantity: 0,
            extension_ms: 0,
        };
        let sold = Grant {
            order: Some(order),
            ..grant
        };
        let returned = Grant {
            order: Some(OrderTerms {
                state: OrderState::Paid,
                returned_quantity: 1,
                ..order
            }),
            ..grant
        };
        let reduced = Grant {
            order: Some(OrderTerms {
                cancelled_quantity: 2,
                ..order
            }),
            ..grant
        };
        let extended = Grant {
            order: Some(OrderTerms {
                extension_ms: 60,
                ..order
            }),
            ..grant
        };
        let starts_at = Timestamp::from_millis(9);
        let outcomes = [
            Outcome::UnknownCampaign,
            Outcome::AlreadyGranted(sold),
            Outcome::AlreadyGranted(returned),
            Outcome::AlreadyGranted(reduced),
            Outcome::AlreadyGranted(extended),
            Outcome::Paused,
            Outcome::NotStarted { starts_at },
            Outcome::Ended,
            Outcome::LimitReached { limit: 2, held: 1 },
            Outcome::SoldOut { remaining: 1 },
            Outcome::Granted(grant),
        ];
        let ack = AckLevel::Fsync;
        let decisions = outcomes.map(|outcome| QueueDecision::Claimed(outcome, ack));
        for decision in decisions.into_iter().chain([QueueDecision::KeyReused]) {
            let text = decision.to_text();
            assert_eq!(
                QueueDecision::parse(campaign(), &text),
                Some(decision),
                "{text}"
            );
        }
        assert_eq!(QueueDecision::parse(campaign(), "granted fsync 1"), None);
    }
}
