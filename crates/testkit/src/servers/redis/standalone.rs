//! A primary with any number of replicas, without automatic promotion.

use std::net::SocketAddr;
use std::time::Duration;

use super::server::in_parallel;
use super::{Options, Server};
use crate::servers::wait_for;

/// Maximum time for a replica to be in sync.
const SYNC_MAX: Duration = Duration::from_secs(30);

/// One server and its replicas, if any.
#[derive(Debug)]
pub struct Standalone {
    primary: Server,
    replicas: Vec<Server>,
}

impl Standalone {
    /// Starts the servers and waits until the replicas are in sync.
    pub fn start(options: &Options) -> Self {
        let primary = Server::start(options, &[]);
        let following = [format!("replicaof 127.0.0.1 {}", primary.addr().port())];
        let replicas = Server::start_all(options, options.replicas, &following);
        let standalone = Self { primary, replicas };
        standalone.wait_for_replicas();
        standalone
    }

    /// Waits until every replica is in sync and acknowledges the primary's writes.
    pub fn wait_for_replicas(&self) {
        in_parallel(&self.replicas, |replica| {
            let synced = || replica.is_synced_replica().then_some(());
            wait_for("a replica in sync", SYNC_MAX, synced);
        });
        wait_for("the replicas to acknowledge", SYNC_MAX, || {
            let all = self.replicas.len();
            (all == 0 || self.primary.is_acknowledged_by(all)).then_some(())
        });
    }

    /// The primary.
    pub fn primary(&self) -> &Server {
        &self.primary
    }

    /// The replica `index`, counted from 0.
    pub fn replica(&self, index: usize) -> &Server {
        &self.replicas[index]
    }

    /// All replicas.
    pub fn replicas(&self) -> &[Server] {
        &self.replicas
    }

    /// The primary's URL.
    pub fn url(&self) -> String {
        self.primary.url()
    }

    /// The primary's address.
    pub fn addr(&self) -> SocketAddr {
        self.primary.addr()
    }

    /// Kills the primary.
    pub fn kill(&self) {
        self.primary.kill();
    }

    /// Starts the primary again: see [`Server::start_again`].
    pub fn start_again(&self) {
        self.primary.start_again();
    }

    /// Starts the primary again without its data: see [`Server::start_again_empty`].
    pub fn start_again_empty(&self) {
        self.primary.start_again_empty();
    }
}
