//! Limits on live streams per connection, user and address: of campaigns, figures and queue entries.
//!
//! Without these limits, one client could use all streams of a node: HTTP/2 has up to 100 per connection.

use std::{collections::HashMap, sync::Arc};

use metrics::Counter;
use parking_lot::Mutex;
use qiang_core::id::UserId;
use qiang_wire::problem::ProblemKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    auth::Caller,
    config::LimitsConfig,
    http::{
        client_address::{AddressKey, LimitedOrigin},
        problem::ApiProblem,
    },
    observe::metrics::Metrics,
};

/// A holder of open streams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Connection(u64),
    User(UserId),
    Address(AddressKey),
}

/// Limit of one kind of holder; 0 for none.
struct HolderLimit {
    name: &'static str,
    max: u32,
    refused: Counter,
}

/// Limits of live streams, and the open streams.
pub(crate) struct StreamLimits {
    of_connection: HolderLimit,
    of_user: HolderLimit,
    of_address: HolderLimit,
    /// Number of open streams per limited holder.
    open: Mutex<HashMap<Holder, u32>>,
}

/// Permit of an open stream.
pub(crate) struct StreamPermit {
    limits: Arc<StreamLimits>,
    holders: Vec<Holder>,
    _permit: OwnedSemaphorePermit,
}

impl StreamLimits {
    pub(crate) fn new(config: &LimitsConfig, metrics: &Metrics) -> Self {
        let bound = |name, max| HolderLimit {
            name,
            max,
            refused: metrics.refused_by(name),
        };
        Self {
            of_connection: bound("streams-of-connection", config.streams_per_connection_max),
            of_user: bound("streams-of-user", config.streams_per_user_max),
            of_address: bound("streams-of-address", config.streams_per_address_max),
            open: Mutex::default(),
        }
    }

    /// Opens a stream; `all` has the permits for all streams of its kind.
    ///
    /// # Errors
    /// `too-many-streams` if the connection, the user or the address is at its limit; `overloaded` if the node is.
    pub(crate) fn open(
        self: &Arc<Self>,
        all: &Arc<Semaphore>,
        origin: LimitedOrigin,
        caller: Option<&Caller>,
    ) -> Result<StreamPermit, ApiProblem> {
        let user = caller.filter(|caller| !caller.is_service());
        let holders = [
            origin.connection.map(Holder::Connection),
            user.map(|caller| Holder::User(caller.user.clone())),
            origin.address.map(Holder::Address),
        ];
        let is_bound = |holder: &Holder| self.bound(holder).max > 0;
        let holders: Vec<_> = holders.into_iter().flatten().filter(is_bound).collect();
        let mut open = self.open.lock();
        let mut bounds = holders
            .iter()
            .map(|holder| (self.bound(holder), open.get(holder)));
        if let Some((bound, _)) =
            bounds.find(|(bound, open)| open.is_some_and(|open| *open >= bound.max))
        {
            bound.refused.increment(1);
            return Err(ApiProblem::too_many_streams(bound.name, bound.max));
        }
        let permit = Arc::clone(all).try_acquire_owned();
        let permit = permit.map_err(|_| ApiProblem::from(ProblemKind::Overloaded))?;
        for holder in &holders {
            *open.entry(holder.clone()).or_default() += 1;
        }
        Ok(StreamPermit {
            limits: Arc::clone(self),
            holders,
            _permit: permit,
        })
    }

    fn bound(&self, holder: &Holder) -> &HolderLimit {
        match holder {
            Holder::Connection(_) => &self.of_connection,
            Holder::User(_) => &self.of_user,
            Holder::Address(_) => &self.of_address,
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock();
        for holder in &self.holders {
            if let Some(count) = open.get_mut(holder) {
                *count -= 1;
                if *count == 0 {
                    open.remove(holder);
                }
            }
        }
    }
}
