//! Which new connections are served, and which are told that there are too many.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use metrics::Counter;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::ServerConfig,
    http::{
        client_address::AddressKey,
        problem::{Problem, ProblemKind},
    },
    observe::metrics::Metrics,
    protect::limits::Limits,
};

/// Connections that are told so at a time, for each reason; others are closed at once.
const REFUSED_MAX: usize = 64;

/// Connections there may be: `server.connections_max`, and of one address `limits.connections_per_address_max`.
pub(super) struct ConnectionLimits {
    all: Arc<Semaphore>,
    connections_max: u32,
    limits: Option<Arc<Limits>>,
    /// Open connections of each address that has any and is counted.
    open: Mutex<HashMap<AddressKey, u32>>,
    full: Refusals,
    of_address: Refusals,
}

struct Refusals {
    permits: Arc<Semaphore>,
    counter: Counter,
}

/// What becomes of a new connection.
pub(super) enum Admitted {
    /// It is served while this is kept.
    Served(ConnectionPermit),
    /// It is not. Where there is a permit, it is told why.
    Refused(Refused, Option<OwnedSemaphorePermit>),
}

/// A connection that is served.
pub(super) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    /// None where its address is not counted.
    address: Option<AddressKey>,
    _permit: OwnedSemaphorePermit,
}

/// Why a connection is not served.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refused {
    /// There are as many as there may be.
    Full,
    /// Its address has as many as it may have: this many.
    Address(u32),
}

impl Refused {
    pub(super) fn problem(self) -> Problem {
        match self {
            Self::Full => Problem::new(ProblemKind::Overloaded, "all connections are taken"),
            Self::Address(connections_max) => Problem::too_many_connections(connections_max),
        }
    }
}

impl ConnectionLimits {
    pub(super) fn new(
        config: &ServerConfig,
        metrics: &Metrics,
        limits: Option<Arc<Limits>>,
    ) -> Self {
        let refusals = |limit| Refusals {
            permits: Arc::new(Semaphore::new(REFUSED_MAX)),
            counter: metrics.refused_by(limit),
        };
        Self {
            all: Arc::new(Semaphore::new(config.connections_max as usize)),
            connections_max: config.connections_max,
            limits,
            open: Mutex::default(),
            full: refusals("connections"),
            of_address: refusals("connections-of-address"),
        }
    }

    /// Decides about one more. To be called by the accept loop alone: it looks first and counts then.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Admitted {
        let limits = self.limits.as_ref();
        let connections_max = limits.and_then(|limits| limits.connections_of_address(peer));
        let address = connections_max.map(|_| AddressKey::of(peer));
        if let (Some(address), Some(connections_max)) = (address, connections_max) {
            let open = self.open.lock().get(&address).copied().unwrap_or(0);
            if open >= connections_max {
                return self.of_address.refuse(Refused::Address(connections_max));
            }
        }
        let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() else {
            return self.full.refuse(Refused::Full);
        };
        if let Some(address) = address {
            *self.open.lock().entry(address).or_default() += 1;
        }
        Admitted::Served(ConnectionPermit {
            limits: Arc::clone(self),
            address,
            _permit: permit,
        })
    }

    /// Waits until all connections have ended that were served.
    pub(super) async fn all_ended(&self) {
        drop(self.all.acquire_many(self.connections_max).await);
    }
}

impl Refusals {
    fn refuse(&self, why: Refused) -> Admitted {
        self.counter.increment(1);
        Admitted::Refused(why, Arc::clone(&self.permits).try_acquire_owned().ok())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = self.limits.open.lock();
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}
