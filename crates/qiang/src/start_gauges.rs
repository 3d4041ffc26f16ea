//! Start of a process whose ledger does not answer: it waits, reports that on `/readyz`, and tries again.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use parking_lot::Mutex;
use qiang_api::{Admin, Gauges, Listeners, Role, config::ServerConfig};
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, QuarantineCount},
};
use qiang_ledger::OpenError;
use tokio::net::TcpListener;

use crate::{
    config::NodeConfig,
    signals::{SignalRequest, Signals},
};

/// Pause before the next attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A listening socket. The starting process serves it first, and the started process after that.
pub(crate) struct Socket(std::net::TcpListener);

impl Socket {
    /// Binds the address. The kernel queues connections until a listener accepts them.
    pub(crate) async fn bind(addr: SocketAddr, key: &str) -> anyhow::Result<Self> {
        let bound = TcpListener::bind(addr).await;
        let bound = bound.and_then(TcpListener::into_std);
        let bound = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => anyhow::anyhow!(
                "{error}; a second process on this machine needs an address of its own"
            ),
            _ => error.into(),
        });
        Ok(Self(
            bound.with_context(|| format!("listen on {addr} ({key})"))?,
        ))
    }

    fn listener(&self) -> io::Result<TcpListener> {
        TcpListener::from_std(self.0.try_clone()?)
    }
}

/// Sockets of a process.
pub(crate) struct Sockets {
    pub(crate) public: Socket,
    pub(crate) admin: Admin<Socket>,
}

impl Sockets {
    /// Binds the configured addresses of a node.
    pub(crate) async fn bind(config: &NodeConfig) -> anyhow::Result<Self> {
        let public = Socket::bind(config.server.listen, "server.listen").await?;
        let admin = match config.admin.listen {
            Admin::Apart(addr) => Admin::Apart(Socket::bind(addr, "admin.listen").await?),
            Admin::Shared => Admin::Shared,
            Admin::Nowhere => Admin::Nowhere,
        };
        Ok(Self { public, admin })
    }

    /// New listeners on the same sockets. Callers may create several, one after another.
    pub(crate) fn listeners(&self) -> io::Result<Listeners> {
        Ok(Listeners {
            public: self.public.listener()?,
            admin: match &self.admin {
                Admin::Apart(socket) => Admin::Apart(socket.listener()?),
                Admin::Shared => Admin::Shared,
                Admin::Nowhere => Admin::Nowhere,
            },
        })
    }
}

/// Opens the engine and the ledger of a process. While the ledger is down, `sockets` report it. Returns `None` if the
/// process is asked to stop during the wait.
///
/// # Errors
/// Errors of `open` that another attempt would meet again.
pub(crate) async fn open<T>(
    config: &ServerConfig,
    sockets: Option<&Sockets>,
    signals: &mut Signals,
    open: impl AsyncFn() -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let mut waiting: Option<(Arc<StartGauges>, Option<qiang_api::RunningServer>)> = None;
    let decline = |request: SignalRequest| request.decline("the process has not started yet");
    let opened = loop {
        // An attempt may take as long as the ledger's or Redis' time limits.
        let attempt = tokio::select! {
            attempt = open() => attempt,
            _ = signals.stop(decline) => break None,
        };
        let error = match attempt {
            Ok(opened) => break Some(opened),
            Err(error) if is_outage(&error) => error,
            Err(error) => return Err(error),
        };
        let reason = format!("{error:#}");
        if let Some((waiting, _)) = &waiting {
            *waiting.0.lock() = reason;
        } else {
            tracing::error!(reason, "the ledger is down: waiting for it");
            let gauges = Arc::new(StartGauges(Mutex::new(reason)));
            let serve = |sockets: &Sockets| {
                let (config, gauges) = (config.clone(), gauges.clone());
                let listeners = sockets.listeners()?;
                qiang_api::Server::start_operation(config, Role::Starting, gauges, listeners)
            };
            waiting = Some((Arc::clone(&gauges), sockets.map(serve).transpose()?));
        }
        tokio::select! {
            _ = signals.stop(decline) => break None,
            () = tokio::time::sleep(AGAIN_AFTER) => {}
        }
    };
    if let Some((_, running)) = waiting {
        if let Some(running) = running {
            running.shutdown(async { Ok(()) }).await?;
        }
        if opened.is_some() {
            tracing::warn!("the ledger is there: starting");
        }
    }
    Ok(opened)
}

/// Whether the ledger is down, so that another attempt may succeed. An unsuitable schema is no outage.
fn is_outage(error: &anyhow::Error) -> bool {
    let unavailable = matches!(error.downcast_ref(), Some(LedgerError::Unavailable { .. }));
    unavailable || error.downcast_ref().is_some_and(OpenError::is_outage)
}

/// Gauges of a process that waits for its ledger, with the reason.
struct StartGauges(Mutex<String>);

impl Gauges for StartGauges {
    fn queued(&self) -> usize {
        0
    }

    fn positions(&self) -> (Seq, Seq) {
        (0, 0)
    }

    fn stuck(&self) -> Option<String> {
        None
    }

    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        Vec::new()
    }

    fn stopped(&self) -> Option<String> {
        Some(self.0.lock().clone())
    }

    fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
        Vec::new()
    }
}
