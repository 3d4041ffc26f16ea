//! Limits on connections: admits new ones, or refuses them with a reason.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use metrics::Counter;
use parking_lot::Mutex;
use qiang_wire::problem::ProblemKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::ServerConfig,
    http::{client_address::AddressKey, problem::ApiProblem},
    observe::metrics::Metrics,
    protect::limits::Limits,
};

/// Refused connections, per reason, that get an answer at the same time. Others are closed at once.
const REFUSED_MAX: usize = 64;

/// Limits: `server.connections_max` in total, and `limits.connections_per_address_max` per address.
pub(super) struct ConnectionLimits {
    all: Arc<Semaphore>,
    connections_max: u32,
    limits: Option<Arc<Limits>>,
    /// Number of open connections per address, for counted addresses.
    open: Mutex<HashMap<AddressKey, u32>>,
    full: Refusals,
    of_address: Refusals,
}

struct Refusals {
    permits: Arc<Semaphore>,
    counter: Counter,
}

/// Decision on a new connection.
pub(super) enum AdmittedConnection {
    /// It is served while this permit exists.
    Served(ConnectionPermit),
    /// It is refused. If there is a permit, it gets an answer with the reason.
    Refused(RefusedConnection, Option<OwnedSemaphorePermit>),
}

/// Permit of a connection that is served.
pub(super) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    /// `None` if its address is not counted.
    address: Option<AddressKey>,
    _permit: OwnedSemaphorePermit,
}

/// Reason why a connection is refused.
#[derive(Debug, Clone, Copy)]
pub(super) enum RefusedConnection {
    /// The process has the maximum number of connections.
    Full,
    /// The address has the maximum number of connections, this one.
    Address(u32),
}

impl RefusedConnection {
    pub(super) fn problem(self) -> ApiProblem {
        match self {
            Self::Full => ApiProblem::new(
                ProblemKind::Overloaded,
                "the limit of connections is reached",
            ),
            Self::Address(connections_max) => ApiProblem::too_many_connections(connections_max),
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

    /// Decides on one more connection. Call it from the accept loop only, because it checks before it counts.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> AdmittedConnection {
        let limits = self.limits.as_ref();
        let connections_max = limits.and_then(|limits| limits.connections_of_address(peer));
        let address = connections_max.map(|_| AddressKey::from_address(peer));
        if let (Some(address), Some(connections_max)) = (address, connections_max) {
            let open = self.open.lock().get(&address).copied().unwrap_or(0);
            if open >= connections_max {
                return self
                    .of_address
                    .refuse(RefusedConnection::Address(connections_max));
            }
        }
        let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() else {
            return self.full.refuse(RefusedConnection::Full);
        };
        if let Some(address) = address {
            *self.open.lock().entry(address).or_default() += 1;
        }
        AdmittedConnection::Served(ConnectionPermit {
            limits: Arc::clone(self),
            address,
            _permit: permit,
        })
    }

    /// Waits until all served connections have ended.
    pub(super) async fn all_ended(&self) {
        drop(self.all.acquire_many(self.connections_max).await);
    }
}

impl Refusals {
    fn refuse(&self, why: RefusedConnection) -> AdmittedConnection {
        self.counter.increment(1);
        AdmittedConnection::Refused(why, Arc::clone(&self.permits).try_acquire_owned().ok())
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
