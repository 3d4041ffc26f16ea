//! A node that serves: the backend and the API on it, which stop together.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use qiang_api::Listeners;
use qiang_worker::{
    archive::LogArchiver,
    discards::Discarder,
    drafts::DraftOpener,
    host::Host,
    keys::KeyPurger,
    packets::PacketCloser,
    waiting::{self, WaitingPorts},
    webhooks::{WebhookDeliverer, WebhookPorts},
};

use crate::{
    backend::Backend,
    config::{AuthConfig, Config},
    pages,
};

/// Starts nodes.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on these listeners, on the current runtime. `config.server.listen` and `config.engine` are the
    /// caller's business and not looked at.
    ///
    /// # Errors
    /// When there is no key to check tokens with. Drafts are opened while the node serves.
    pub async fn start(
        config: Config,
        backend: Backend,
        listeners: impl Into<Listeners>,
    ) -> anyhow::Result<Running> {
        let close_timeout = Duration::from_millis(config.server.drain_timeout_ms)
            .saturating_add(config.settlement.stop_timeout());
        let mut ports = backend.ports.clone();
        let webhooks = config.webhooks.sender()?;
        ports.webhooks = Some(webhooks.clone());
        let opener = DraftOpener::new(Arc::clone(&ports.ledger), Arc::clone(&ports.engine));
        let background = || Arc::clone(&backend.background);
        let closer = PacketCloser::new(Arc::clone(&ports.ledger), background());
        // The ledger quarantines what the engine takes back of a refused grant, and never confirms it.
        let discarder = Discarder::new(Arc::clone(&ports.ledger), background());
        let in_line = WaitingPorts {
            room: Arc::clone(&ports.waiting_room),
            engine: Arc::clone(&ports.engine),
            ledger: Arc::clone(&ports.ledger),
            clock: Arc::clone(&ports.clock),
            monitor: Arc::clone(&ports.waiting),
            limits: config.waiting.limits(),
        };
        let keys_kept_ms = config.limits.keys_kept_ms;
        let archive_after_days = config.engine.archive_after_days;
        let archiver = backend
            .archives
            .clone()
            .map(|log| LogArchiver::new(log, Arc::clone(&ports.clock), archive_after_days));
        let (ledger, clock) = (Arc::clone(&ports.ledger), Arc::clone(&ports.clock));
        let purger = KeyPurger::new(ledger, clock, keys_kept_ms);
        let told = WebhookPorts {
            ledger: Arc::clone(&ports.ledger),
            sender: webhooks.sender,
            clock: Arc::clone(&ports.clock),
            monitor: webhooks.monitor,
            options: config.webhooks.options(),
        };
        let surround = pages::surround(&config)?;
        let api = qiang_api::Server::start(config.api(), ports, surround, listeners)?;
        let upkeep = &backend.upkeep;
        upkeep.start("drafts", DraftOpener::SCHEDULE, opener);
        upkeep.start("packets", PacketCloser::SCHEDULE, closer);
        waiting::start_all(upkeep, &in_line);
        let telling = Host::new("webhooks");
        let deliverer = WebhookDeliverer::new(told);
        telling.start("webhooks", WebhookDeliverer::SCHEDULE, deliverer);
        // A host of its own: a discard, a purge or an archive that does not get on makes no node unready.
        let discarding = Host::new("quarantine");
        discarding.start("discards", Discarder::SCHEDULE, discarder);
        discarding.start("keys", KeyPurger::SCHEDULE, purger);
        if let Some(archiver) = archiver {
            discarding.start("archive", LogArchiver::SCHEDULE, archiver);
        }
        Ok(Running {
            api,
            backend,
            discarding,
            telling,
            close_timeout,
        })
    }
}

/// A running node. Dropped, it serves until its runtime ends.
pub struct Running {
    api: qiang_api::Running,
    backend: Backend,
    /// Discards what was refused, forgets old keys, and archives old entries.
    discarding: Host,
    /// Tells webhooks. What does not answer makes no node unready either.
    telling: Host,
    close_timeout: Duration,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.api.addr()
    }

    /// Where operators are served, if that is a listener of its own.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.api.admin_addr()
    }

    /// Says on `/readyz` from here on that it is not ready, and serves on.
    pub fn drain(&self) {
        self.api.drain();
    }

    /// Has all reconcilers look at once whether there is something to do.
    pub fn reconcile(&self) {
        self.backend.wake();
        self.discarding.wake();
        self.telling.wake();
    }

    /// Checks tokens by these keys from here on.
    ///
    /// # Errors
    /// When the keys cannot be used; those before stay.
    pub fn reload_auth(&self, config: &AuthConfig) -> anyhow::Result<()> {
        self.api.reload_auth(config)
    }

    /// Stops accepting, answers what is in flight, and closes the engine; each of the two may take
    /// `server.drain_timeout_ms`, and the engine `settlement.stop_timeout_ms` more to settle.
    ///
    /// # Errors
    /// When a task of the node has panicked, or the engine does not close.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        let close = async {
            self.discarding.abort();
            self.telling.abort();
            self.backend.upkeep.abort();
            // The engine answers everything that it has accepted before it closes.
            tokio::time::timeout(self.close_timeout, self.backend.close())
                .await
                .context("the engine did not close in time")?
        };
        self.api.shutdown(close).await
    }
}
