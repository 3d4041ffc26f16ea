//! Typed client of Qiang's HTTP API.
//!
//! ```no_run
//! use qiang_client::{ClaimResult, Client, Money, NewOrder, NewSale};
//!
//! # async fn example(operator: &str, ann: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("http://127.0.0.1:8080").token(operator).build()?;
//! let sale = NewSale::new("phones", 100, Money::new(49_900, "CNY".parse()?));
//! let sale = client.create_sale(&sale).await?;
//!
//! // The same connections and limits for another user.
//! let ann = client.with_token(ann)?;
//! match ann.order(&sale.id, &NewOrder::units(1)).await {
//!     Ok(ClaimResult::Granted(order)) => println!("order {}", order.id),
//!     Ok(ClaimResult::Waiting(place)) => println!("{:?} entries are ahead in the queue", place.ahead),
//!     Err(error) if error.kind() == Some("sold-out") => println!("too late"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(()) }
//! ```
//!
//! **Retries replay.** The client adds an `Idempotency-Key` to every request that changes something. It repeats the
//! request under the same key if the connection fails, if the answer is late, and on status 408, 429, 502, 503 and 504.
//! Before each retry it waits for `Retry-After` plus a random pause that grows ([`Builder::backoff`], full jitter). So
//! a retry gets the answer of the first attempt, and no change happens twice. Retries end at the deadline
//! ([`Builder::deadline`]). If `Retry-After` ends later than the deadline, there is no retry. Outcomes such as
//! `paused`, `not-started` and `sold-out` are no failures and return at once.
//!
//! **A call without an answer** ends with [`Error::GaveUp`]. [`Error::may_have_happened`] tells whether the request may
//! have been carried out; [`Error::key`] is its key. Repeat the same request by [`Client::with_key`] to find out. To
//! find out even after a crash of your own process, create an [`IdempotencyKey`], store it, and use it for the first
//! attempt.
//!
//! **Backpressure.** At most [`Builder::in_flight_max`] calls are in flight, including their retries and pauses.
//! Further calls wait until their deadline. All clones share the limit and the connections.
//!
//! **Not for load tests.** Load generators measure the service, not its clients. So module `load` has its own
//! connection without types, retries and limits, and uses only parts of this crate that cost nothing there.

mod accounts;
mod actions;
mod audits;
mod builder;
mod call;
mod campaigns;
mod claims;
mod client;
mod error;
mod events;
mod histories;
#[cfg(feature = "load")]
pub mod load;
mod metadata;
mod metrics;
mod orders;
mod partitions;
mod paths;
mod quarantine;
mod queue_entries;
mod requests;
mod signatures;
mod stats;
mod test_clock;
mod tickets;
mod watching;
mod webhooks;
mod wire;

pub use qiang_wire::{
    THE_SERVICE,
    answers::*,
    ids::{CampaignId, ClaimId, Id, IdempotencyKey, InvalidId, OrderId, UserId, WebhookId},
    lists::List,
    problem::{FieldError, Problem, ProblemKind},
    values::{Currency, InvalidValue, Money, Timestamp, WebhookSecret},
    words::*,
};
use qiang_wire::{answers, ids, lists, problem, values, words};

pub use self::{
    builder::Builder,
    call::Replayable,
    campaigns::{Listing, SeenState, Tagged},
    claims::ClaimResult,
    client::Client,
    error::Error,
    histories::{MovementFilter, OrderFilter, PaymentFilter},
    requests::*,
    signatures::{InvalidSignature, WebhookVerifier},
    tickets::{GrabTicket, WORK_BITS_MAX, solve},
    watching::CampaignEvent,
    webhooks::{DeliveryFilter, EventRedelivery},
};
