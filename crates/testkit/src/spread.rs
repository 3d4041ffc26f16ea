//! Reference for engines that spread campaigns: a book with its log spread over several partitions.
//!
//! One book decides, so no shard keeps units that another one lacks. Each grant is in the log of its user's partition,
//! with a number of that partition's series. Each partition records the opening, pauses, end and close of its own
//! shard. With one partition, the result is the plain book and its log.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use qiang_core::{
    book::{Book, Claim, Command, OrderView, Refusal, Reply, Setup},
    campaign::{CampaignKind, Tally},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, OrderId, PaymentRef, UserId},
    outcome::Outcome,
    time::Timestamp,
};

/// A number that no grant has.
const NO_GRANT: u32 = u32::MAX;

/// A book and its logs, one per partition.
#[derive(Debug)]
pub struct SpreadBook {
    book: Book,
    partitions: Vec<PartitionId>,
    logs: Vec<Vec<Entry>>,
    campaigns: HashMap<CampaignId, Spread>,
}

/// Distribution of a campaign's grants.
#[derive(Debug)]
struct Spread {
    setup: Setup,
    /// Shard and published number of each grant of the book.
    grants: Vec<(usize, u32)>,
    /// Number of grants per shard.
    of_part: Vec<u32>,
    /// The book's number of each published number.
    booked: HashMap<u32, u32>,
}

impl Spread {
    /// Assigns the book's next grant to a shard, and returns its published number. Sales number per shard: the second
    /// shard of three has 2, 5, 8. A packet's shares already have their numbers.
    fn number(&mut self, part: usize, parts: usize) -> u32 {
        let booked = self.grants.len() as u32 + 1;
        let (part_no, parts) = (part as u32, parts as u32);
        let number = match self.setup.campaign.kind() {
            CampaignKind::Sale => self.of_part[part] * parts + part_no + 1,
            CampaignKind::RedPacket => booked,
        };
        self.of_part[part] += 1;
        self.grants.push((part, number));
        self.booked.insert(number, booked);
        number
    }

    /// Units and money that each shard returns at the close. The rest is divided unit by unit.
    fn returns(&self, returned: u64, refunded_minor: i64) -> Vec<(u64, i64)> {
        let parts = self.of_part.len();
        if self.setup.campaign.kind() == CampaignKind::Sale {
            let (all, more) = (returned / parts as u64, returned % parts as u64);
            return (0..parts as u64)
                .map(|place| (all + u64::from(place < more), 0))
                .collect();
        }
        let mut returns = vec![(0, 0); parts];
        let mut left = refunded_minor;
        for n in 0..returned {
            let share = self.setup.shares.get(self.grants.len() + n as usize);
            let average = left / (returned - n) as i64;
            let minor = share.copied().unwrap_or(average);
            let part = &mut returns[n as usize % parts];
            *part = (part.0 + 1, part.1 + minor);
            left -= minor;
        }
        returns
    }
}

impl SpreadBook {
    /// Creates an empty book for these partitions.
    ///
    /// # Panics
    /// If there are no partitions.
    #[must_use]
    pub fn new(partitions: Vec<PartitionId>) -> Self {
        assert!(
            !partitions.is_empty(),
            "a book needs at least one partition"
        );
        Self {
            book: Book::new(),
            logs: vec![Vec::new(); partitions.len()],
            partitions,
            campaigns: HashMap::new(),
        }
    }

    /// Its partitions.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionId] {
        &self.partitions
    }

    /// The logs, in the order of the partitions.
    #[must_use]
    pub fn logs(&self) -> &[Vec<Entry>] {
        &self.logs
    }

    /// A partition's log; empty for an unknown partition.
    #[must_use]
    pub fn log(&self, partition: PartitionId) -> &[Entry] {
        let place = self.partitions.iter().position(|own| *own == partition);
        place.map_or(&[], |place| &self.logs[place])
    }

    /// Index of the user's partition.
    #[must_use]
    pub fn part_of(&self, user: &UserId) -> usize {
        let mut hasher = DefaultHasher::new();
        user.as_str().hash(&mut hasher);
        (hasher.finish() % self.partitions.len() as u64) as usize
    }

    /// Applies one command and appends its entries to the logs.
    ///
    /// # Errors
    /// If the book refuses it.
    pub fn apply(&mut self, now: Timestamp, command: &Command) -> Result<Reply, Refusal> {
        let command = match command {
            Command::Open(setup) => {
                self.enter(setup);
                command.clone()
            }
            Command::Pay {
                order,
                payment,
                paid_at,
                received,
                cancelled,
            } => Command::Pay {
                order: self.booked(*order),
                payment: payment.clone(),
                paid_at: *paid_at,
                received: *received,
                cancelled: *cancelled,
            },
            Command::Cancel { order, part } => Command::Cancel {
                order: self.booked(*order),
                part: part.clone(),
            },
            Command::ExtendHold {
                order,
                extension_ms,
            } => Command::ExtendHold {
                order: self.booked(*order),
                extension_ms: *extension_ms,
            },
            Command::Return { order, part } => Command::Return {
                order: self.booked(*order),
                part: part.clone(),
            },
            other => other.clone(),
        };
        let mut entries = Vec::new();
        let mut reply = self.book.apply(now, &command, &mut entries);
        for entry in entries {
            self.publish(entry);
        }
        if let Ok(
            Reply::Payment(_, view)
            | Reply::Cancelled(view)
            | Reply::HoldExtended(view)
            | Reply::Returned(view),
        ) = &mut reply
        {
            self.publish_order(view);
        }
        reply
    }

    /// Decides a claim and appends the entry of a grant to its user's log.
    ///
    /// # Errors
    /// If the book refuses it.
    pub fn claim(&mut self, now: Timestamp, claim: &Claim) -> Result<Outcome, Refusal> {
        let mut entries = Vec::new();
        let mut outcome = self.book.claim(now, claim, &mut entries)?;
        for entry in entries {
            self.publish(entry);
        }
        self.publish_outcome(&mut outcome);
        Ok(outcome)
    }

    /// Answer of the gate to a claim that needs no decision.
    #[must_use]
    pub fn peek(&self, now: Timestamp, claim: &Claim) -> Option<Outcome> {
        let mut outcome = self.book.try_gate_outcome(now, claim, Seq::MAX)?;
        self.publish_outcome(&mut outcome);
        Some(outcome)
    }

    /// A campaign's tally.
    #[must_use]
    pub fn tally(&self, now: Timestamp, campaign: CampaignId) -> Option<Tally> {
        self.book.tally(now, campaign)
    }

    /// An order with its user.
    #[must_use]
    pub fn order(&self, order: OrderId) -> Option<OrderView> {
        let mut view = self.book.order(self.booked(order))?;
        self.publish_order(&mut view);
        Some(view)
    }

    fn enter(&mut self, setup: &Setup) {
        let parts = self.partitions.len();
        let spread = || Spread {
            setup: setup.clone(),
            grants: Vec::new(),
            of_part: vec![0; parts],
            booked: HashMap::new(),
        };
        let id = setup.campaign.id;
        self.campaigns.entry(id).or_insert_with(spread);
    }

    /// The order under the book's number.
    fn booked(&self, order: OrderId) -> OrderId {
        let spread = self.campaigns.get(&order.campaign);
        let number = spread.and_then(|spread| spread.booked.get(&order.number));
        OrderId {
            number: number.copied().unwrap_or(NO_GRANT),
            ..order
        }
    }

    fn published(&self, campaign: CampaignId, booked: u32) -> (usize, u32) {
        self.campaigns[&campaign].grants[booked as usize - 1]
    }

    fn publish_outcome(&self, outcome: &mut Outcome) {
        if let Outcome::Granted(grant) | Outcome::AlreadyGranted(grant) = outcome {
            grant.number = self.published(grant.campaign, grant.number).1;
        }
    }

    fn publish_order(&self, view: &mut OrderView) {
        view.grant.number = self.published(view.grant.campaign, view.grant.number).1;
    }

    /// Appends an entry of the book to the log of its shard, or to all logs.
    fn publish(&mut self, mut entry: Entry) {
        let parts = self.partitions.len();
        let id = entry.campaign;
        match &mut entry.event {
            Event::Granted { number, user, .. } => {
                let part = self.part_of(user);
                let spread = self.campaigns.get_mut(&id).expect("it was opened");
                *number = spread.number(part, parts);
                self.append(part, entry);
            }
            Event::Paid {
                number, payment, ..
            } => {
                let booked = OrderId {
                    campaign: id,
                    number: *number,
                };
                let (part, published) = self.published(id, *number);
                if *payment == PaymentRef::for_free_order(booked) {
                    let number = published;
                    *payment = PaymentRef::for_free_order(OrderId { number, ..booked });
                }
                *number = published;
                self.append(part, entry);
            }
            Event::Cancelled { number }
            | Event::PartCancelled { number, .. }
            | Event::HoldExtended { number, .. }
            | Event::Expired { number }
            | Event::Reinstated { number, .. }
            | Event::RefundDue { number, .. }
            | Event::Returned { number, .. } => {
                let (part, published) = self.published(id, *number);
                *number = published;
                self.append(part, entry);
            }
            Event::Opened { parts: opened } => {
                *opened = parts as u16;
                self.append_to_all(&entry);
            }
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. } => unreachable!("a book transfers no units"),
            Event::Paused | Event::Resumed | Event::Ended | Event::TermsChanged { .. } => {
                self.append_to_all(&entry);
            }
            Event::StockChanged { .. } | Event::ChangeMade { .. } => self.append(0, entry),
            Event::Closed {
                returned,
                refunded_minor,
            } => {
                let returns = self.campaigns[&id].returns(*returned, *refunded_minor);
                for (part, (returned, refunded_minor)) in returns.into_iter().enumerate() {
                    let event = Event::Closed {
                        returned,
                        refunded_minor,
                    };
                    let entry = Entry {
                        event,
                        ..entry.clone()
                    };
                    self.append(part, entry);
                }
            }
        }
    }

    fn append_to_all(&mut self, entry: &Entry) {
        for part in 0..self.partitions.len() {
            self.append(part, entry.clone());
        }
    }

    fn append(&mut self, part: usize, entry: Entry) {
        let log = &mut self.logs[part];
        let seq = log.len() as Seq + 1;
        log.push(Entry { seq, ..entry });
    }
}
