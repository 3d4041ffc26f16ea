//! History of the clients' requests, times and answers: the evidence for the checker.

use std::{collections::BTreeMap, fmt, time::Instant};

use parking_lot::Mutex;

/// Microseconds since the start of the run, by a clock that never jumps.
pub(crate) type Micros = u64;

/// Faults that an acknowledged grant survives, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// A crash of a node.
    Memory,
    /// The loss of the primary.
    Replica,
    /// The loss of Redis.
    Ledger,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Replica, Self::Ledger];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replica => "replica",
            Self::Ledger => "ledger",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A campaign that clients use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) id: String,
    pub(crate) is_packet: bool,
    pub(crate) level: Level,
    /// Shares or units.
    pub(crate) supply: u32,
    /// Minor units: total of a packet, or price of a unit.
    pub(crate) minor: i64,
    /// Maximum units per user.
    pub(crate) limit: u32,
    pub(crate) policy: Policy,
    /// Window of claims, if the campaign has a requested one.
    pub(crate) window: Option<Window>,
}

/// Largest difference that [`Policy::Within`] accepts, in minor units. It is below every price.
pub(crate) const TOLERANCE_MINOR: i64 = 3;

/// Amounts other than the price that pay an order of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Owed,
    Over,
    Within,
}

impl Policy {
    pub(crate) const ALL: [Self; 3] = [Self::Owed, Self::Over, Self::Within];

    /// Its name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Owed => "owed",
            Self::Over => "accept_over",
            Self::Within => "accept_with_tolerance",
        }
    }

    /// Whether a payment with this difference to the price pays an order.
    pub(crate) fn accepts(self, difference: i64) -> bool {
        difference == 0
            || match self {
                Self::Owed => false,
                Self::Over => difference > 0,
                Self::Within => difference.abs() <= TOLERANCE_MINOR,
            }
    }
}

/// Amount of an order's payment in minor units: usually its price, sometimes a little more or less.
pub(crate) fn paid_minor(order: &Grant) -> i64 {
    const DIFFERENCES: [i64; 8] = [0, 0, 2, 0, -2, 0, 5, 0];
    order.amount + DIFFERENCES[order.number as usize % DIFFERENCES.len()]
}

/// Window of claims, from start (inclusive) to end (exclusive), in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) starts_ms: i64,
    pub(crate) ends_ms: i64,
}

/// A grant as its user sees it at first, without the state of an order and its cancelled units, which may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) number: u32,
    pub(crate) quantity: u32,
    /// Minor units.
    pub(crate) amount: i64,
    pub(crate) granted_at: String,
}

impl Grant {
    /// The same order without some of its units.
    pub(crate) fn without(&self, units: u32) -> Self {
        let quantity = self.quantity.saturating_sub(units);
        let unit_price = self.amount / i64::from(self.quantity.max(1));
        Self {
            quantity,
            amount: unit_price * i64::from(quantity),
            ..self.clone()
        }
    }
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 201 (`fresh`) or 200, with the level that was reached.
    Granted {
        grant: Grant,
        level: Level,
        fresh: bool,
    },
    /// Outcome of a payment: `paid`, `reinstated` or `refund_due`.
    Payment(String),
    /// The order is cancelled.
    Cancelled,
    /// The order is returned.
    Returned,
    /// Some units of the order are returned: this many so far.
    UnitsReturned(u32),
    /// Some units of the held order are cancelled: this many so far.
    UnitsCancelled(u32),
    /// The sale has this stock now.
    Stock(u32),
    /// A refusal, by its problem type: `sold-out`, `ended` …
    Refused(String),
    /// 503, or no answer in time: the client must retry.
    Undecided(String),
    /// An answer that no client should get: 500, or a 4xx that does not fit the request.
    Unexpected(String),
}

impl Answer {
    /// Whether the client need not retry.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Undecided(_) | Self::Unexpected(_))
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) start: Micros,
    pub(crate) end: Micros,
    pub(crate) answer: Answer,
}

/// Wish of a client. The client sends requests until it gets an answer, always with the same key or reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A share, or units of a sale. A second claim in a campaign is for more units.
    Claim { user: String, quantity: u32 },
    /// The payment of an order.
    Pay {
        number: u32,
        reference: String,
        /// Minor units paid.
        amount: i64,
    },
    /// The cancellation of an order.
    Cancel { number: u32 },
    /// The return of a paid order.
    Return { number: u32 },
    /// The return of some units of a paid order. Each wish has a key of its own.
    ReturnUnits { number: u32, units: u32 },
    /// The cancellation of some units of a held order. Each wish has a key of its own.
    CancelUnits { number: u32, units: u32 },
    /// Another stock of a sale.
    SetStock { stock: u32 },
}

/// A wish and all its requests, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The campaign's id.
    pub(crate) campaign: String,
    pub(crate) wish: Wish,
    pub(crate) attempts: Vec<Attempt>,
}

impl Operation {
    /// All granted answers, in order.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&Attempt, &Grant, Level, bool)> {
        self.attempts
            .iter()
            .filter_map(|attempt| match &attempt.answer {
                Answer::Granted {
                    grant,
                    level,
                    fresh,
                } => Some((attempt, grant, *level, *fresh)),
                _ => None,
            })
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.attempts.iter().any(|a| a.answer.is_final())
    }
}

/// A time in which a fault may lose acknowledged grants of this level and weaker ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossWindow {
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) level: Level,
}

impl LossWindow {
    /// Whether data acknowledged by this request may be lost.
    pub(crate) fn excuses(&self, attempt: &Attempt, level: Level) -> bool {
        level <= self.level && attempt.start <= self.until && attempt.end >= self.from
    }
}

/// The growing history of a run.
#[derive(Debug)]
pub(crate) struct History {
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    campaigns: BTreeMap<String, Campaign>,
    operations: Vec<Operation>,
    losses: Vec<LossWindow>,
    /// Money that was deposited for packets, in minor units.
    deposited: i64,
}

/// A finished history.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) campaigns: BTreeMap<String, Campaign>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) losses: Vec<LossWindow>,
    pub(crate) deposited: i64,
}

/// Index of an operation in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationId(usize);

impl History {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            inner: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Micros {
        Micros::try_from(self.began.elapsed().as_micros()).unwrap_or(Micros::MAX)
    }

    pub(crate) fn add_campaign(&self, campaign: Campaign) {
        let mut inner = self.inner.lock();
        inner.campaigns.insert(campaign.id.clone(), campaign);
    }

    pub(crate) fn deposited(&self, minor: i64) {
        self.inner.lock().deposited += minor;
    }

    pub(crate) fn begin(&self, campaign: &str, wish: Wish) -> OperationId {
        let mut inner = self.inner.lock();
        inner.operations.push(Operation {
            campaign: campaign.to_owned(),
            wish,
            attempts: Vec::new(),
        });
        OperationId(inner.operations.len() - 1)
    }

    pub(crate) fn record(&self, operation: OperationId, attempt: Attempt) {
        let mut inner = self.inner.lock();
        inner.operations[operation.0].attempts.push(attempt);
    }

    pub(crate) fn may_lose(&self, window: LossWindow) {
        self.inner.lock().losses.push(window);
    }

    /// Number of requests with a final answer.
    pub(crate) fn answered(&self) -> usize {
        let inner = self.inner.lock();
        inner
            .operations
            .iter()
            .filter(|operation| operation.is_answered())
            .count()
    }

    /// Number of undecided requests. Users noticed these as faults.
    pub(crate) fn undecided(&self) -> usize {
        let inner = self.inner.lock();
        let attempts = inner.operations.iter().flat_map(|o| &o.attempts);
        attempts.filter(|a| !a.answer.is_final()).count()
    }

    /// All granted claims, to repeat at the end.
    pub(crate) fn granted_claims(&self) -> Vec<(OperationId, String, String, u32)> {
        let inner = self.inner.lock();
        let operations = inner.operations.iter().enumerate();
        operations
            .filter_map(|(place, operation)| match &operation.wish {
                Wish::Claim { user, quantity } if operation.grants().next().is_some() => Some((
                    OperationId(place),
                    operation.campaign.clone(),
                    user.clone(),
                    *quantity,
                )),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn campaign(&self, id: &str) -> Option<Campaign> {
        self.inner.lock().campaigns.get(id).cloned()
    }

    pub(crate) fn campaigns(&self) -> Vec<Campaign> {
        self.inner.lock().campaigns.values().cloned().collect()
    }

    /// Ends the history and returns all of it. Nothing may be added afterwards.
    pub(crate) fn finish(&self) -> Evidence {
        let inner = std::mem::take(&mut *self.inner.lock());
        Evidence {
            campaigns: inner.campaigns,
            operations: inner.operations,
            losses: inner.losses,
            deposited: inner.deposited,
        }
    }
}
