//! A typed client of Qiang's HTTP API.
//!
//! ```no_run
//! use qiang_client::{Claimed, Client, Money, NewOrder, NewSale};
//!
//! # async fn example(operator: &str, ann: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("http://127.0.0.1:8080").token(operator).build()?;
//! let sale = NewSale::new("phones", 100, Money::new(49_900, "CNY".parse()?));
//! let sale = client.create_sale(&sale).await?;
//!
//! // The same connections and bounds for another user.
//! let ann = client.with_token(ann)?;
//! match ann.order(&sale.id, &NewOrder::units(1)).await {
//!     Ok(Claimed::Granted(grant)) => println!("order {:?}", grant.order),
//!     Ok(Claimed::Waiting(place)) => println!("{:?} are before her in line", place.ahead),
//!     Err(error) if error.kind() == Some("sold-out") => println!("too late"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(()) }
//! ```
//!
//! **Retries replay.** Every request that changes something has an `Idempotency-Key`, which the client makes, and is
//! repeated under that same key when the connection fails, when the answer does not come in time, and on 408, 429, 502,
//! 503 and 504: after `Retry-After` and a random pause that grows ([`Builder::backoff`], full jitter). So the answer of
//! a retry is that of the first attempt, and nothing is done twice. It goes on until the deadline
//! ([`Builder::deadline`]), and not at all if the service asks to come again after it. Outcomes are no failures:
//! `paused`, `not-started`, `sold-out` and their like are returned at once.
//!
//! **An end without an answer** is [`Error::GaveUp`]. [`Error::may_have_happened`] says whether the request may have
//! been carried out all the same; [`Error::key`] is its key: repeat the same request by [`Client::with_key`] to find
//! out. Who must know after a crash of its own process as well makes an [`IdempotencyKey`], writes it down, and uses it
//! so from the start.
//!
//! **Backpressure.** At most [`Builder::in_flight_max`] calls are under way, retries and pauses included; further ones
//! wait for their turn until their deadline. All clones share the bound and the connections.
//!
//! **What it does not do.** Load generators measure the service, not its clients: `qiang-load` keeps a connection of
//! its own that reads and writes without types, retries and bounds, and takes from here what costs nothing there.

mod accounts;
mod actions;
mod answers;
mod audits;
mod bodies;
mod builder;
mod call;
mod campaigns;
mod claims;
mod client;
mod error;
mod events;
mod figures;
mod histories;
mod ids;
mod metrics;
mod orders;
mod partitions;
mod paths;
mod places;
mod problem;
mod quarantine;
mod requests;
mod tickets;
mod values;
mod watching;
mod webhooks;
mod wire;
mod words;

pub use self::{
    actions::{Action, THE_SERVICE},
    answers::*,
    audits::{Audit, AuditCheck, AuditReport},
    builder::Builder,
    campaigns::{Listing, Seen, Tagged},
    claims::Claimed,
    client::Client,
    error::Error,
    figures::{Figure, Latency},
    ids::{CampaignId, Id, IdempotencyKey, InvalidId, OrderId, UserId, WebhookId},
    partitions::{
        NodeSighting, Partition, PartitionDetail, PartitionReconciliation, Partitions, Reconciled,
        Released, Repair, RepairRecord, Resumed, Withheld,
    },
    problem::{FieldError, Problem},
    quarantine::{QuarantinedEntry, Redriven},
    requests::*,
    tickets::{GrabTicket, WORK_BITS_MAX, solve},
    values::{Currency, InvalidValue, Money, Timestamp, WebhookSecret},
    watching::{CampaignEvent, NewDraws},
    words::*,
};
