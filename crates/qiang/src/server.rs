//! A serving node: the backend and its API, which stop together.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use qiang_api::Listeners;
use qiang_worker::{
    archive::LogArchiver,
    audits::ScheduledAudit,
    discards::Discarder,
    drafts::DraftOpener,
    host::Host,
    keys::KeyPurger,
    packets::PacketCloser,
    waiting::{self, QueuePorts},
    webhooks::{WebhookDeliverer, WebhookPorts},
};

use crate::{
    backend::Backend,
    config::{AuthConfig, NodeConfig},
    pages,
};

/// Starts nodes.
#[derive(Debug)]
pub struct NodeStarter;

impl NodeStarter {
    /// Starts serving on these listeners, on the current runtime. Does not read `config.server.listen` and
    /// `config.engine`: the caller has opened them. Drafts open while the node serves.
    ///
    /// # Errors
    /// If there is no key to check tokens with.
    pub async fn start(
        config: NodeConfig,
        backend: Backend,
        listeners: impl Into<Listeners>,
    ) -> anyhow::Result<RunningNode> {
        let close_timeout = Duration::from_millis(config.server.drain_timeout_ms)
            .saturating_add(config.settlement.stop_timeout());
        let mut ports = backend.ports.clone();
        let webhooks = config.webhooks.sender()?;
        ports.webhooks = Some(webhooks.clone());
        let opener = DraftOpener::new(Arc::clone(&ports.ledger), Arc::clone(&ports.engine));
        let background = || Arc::clone(&backend.background);
        let closer = PacketCloser::new(Arc::clone(&ports.ledger), background());
        // Discards use the engine without confirmation: the ledger quarantines their entries and never confirms them.
        let discarder = Discarder::new(Arc::clone(&ports.ledger), background());
        let in_line = QueuePorts {
            room: Arc::clone(&ports.waiting_room),
            engine: Arc::clone(&ports.engine),
            ledger: Arc::clone(&ports.ledger),
            clock: Arc::clone(&ports.clock),
            monitor: Arc::clone(&ports.waiting),
            limits: config.queue.limits(),
        };
        let idempotency_key_ttl_ms = config.limits.idempotency_key_ttl_ms;
        let archive_after_days = config.engine.archive_after_days;
        let archiver = backend
            .archives
            .clone()
            .map(|log| LogArchiver::new(log, Arc::clone(&ports.clock), archive_after_days));
        let (ledger, clock) = (Arc::clone(&ports.ledger), Arc::clone(&ports.clock));
        let purger = KeyPurger::new(ledger, clock, idempotency_key_ttl_ms);
        let told = WebhookPorts {
            ledger: Arc::clone(&ports.ledger),
            sender: webhooks.sender,
            clock: Arc::clone(&ports.clock),
            monitor: webhooks.monitor,
            options: config.webhooks.options(),
        };
        let audits = backend.audits.clone().zip(ports.auditor.clone());
        let audit = config.audit.interval().zip(audits);
        let audit = audit.map(|(interval, (monitor, auditor))| {
            let clock = Arc::clone(&ports.clock);
            (
                interval,
                ScheduledAudit::new(auditor, clock, monitor, interval),
            )
        });
        let surround = pages::surround(&config, Arc::clone(&ports.clock))?;
        let api = qiang_api::Server::start(config.api(), ports, surround, listeners)?;
        let upkeep = &backend.upkeep;
        upkeep.start("drafts", DraftOpener::SCHEDULE, opener);
        upkeep.start("packets", PacketCloser::SCHEDULE, closer);
        waiting::start_all(upkeep, &in_line);
        let telling = Host::new("webhooks");
        let deliverer = WebhookDeliverer::new(told);
        telling.start("webhooks", WebhookDeliverer::SCHEDULE, deliverer);
        // These have their own host: a discard, purge or archive that fails does not make the node unready.
        let discarding = Host::new("quarantine");
        discarding.start("discards", Discarder::SCHEDULE, discarder);
        discarding.start("keys", KeyPurger::SCHEDULE, purger);
        if let Some(archiver) = archiver {
            discarding.start("archive", LogArchiver::SCHEDULE, archiver);
        }
        if let Some((interval, audit)) = audit {
            discarding.start("audit", ScheduledAudit::schedule(interval), audit);
        }
        Ok(RunningNode {
            api,
            backend,
            discarding,
            telling,
            close_timeout,
        })
    }
}

/// A running node. If this is dropped, the node serves until its runtime ends.
pub struct RunningNode {
    api: qiang_api::RunningServer,
    backend: Backend,
    /// Discards refused grants, deletes old keys, archives old entries, and audits.
    discarding: Host,
    /// Delivers webhook events. An endpoint that does not answer makes no node unready.
    telling: Host,
    close_timeout: Duration,
}

impl RunningNode {
    /// Address of the public listener.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.api.addr()
    }

    /// Address of the operators' listener, if they have their own.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.api.admin_addr()
    }

    /// Reports not ready on `/readyz` from now on, and continues to serve.
    pub fn drain(&self) {
        self.api.drain();
    }

    /// Runs all reconcilers once, without waiting for their next interval.
    pub fn reconcile(&self) {
        self.backend.wake();
        self.discarding.wake();
        self.telling.wake();
    }

    /// Checks tokens with these keys from now on.
    ///
    /// # Errors
    /// If the keys cannot be used. The keys before stay in use.
    pub fn reload_auth(&self, config: &AuthConfig) -> anyhow::Result<()> {
        self.api.reload_auth(config)
    }

    /// Stops accepting requests, answers those in flight, and closes the engine. Each of the two steps may take
    /// `server.drain_timeout_ms`. The engine may take `settlement.stop_timeout_ms` more to settle.
    ///
    /// # Errors
    /// If a task of the node has panicked, or the engine does not close.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        let close = async {
            self.discarding.abort();
            self.telling.abort();
            self.backend.upkeep.abort();
            // The engine first answers every request that it has accepted.
            tokio::time::timeout(self.close_timeout, self.backend.close())
                .await
                .context("the engine did not close in time")?
        };
        self.api.shutdown(close).await
    }
}
