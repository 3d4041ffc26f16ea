//! The engine that a ledger belongs to: identity, location, and heartbeat.

use async_trait::async_trait;

use super::LedgerError;

/// The engine whose entries a ledger accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineBinding {
    /// Name of the installation: 32 random hexadecimal digits, generated once.
    pub installation: String,
    /// Name of the engine, which changes with each takeover and each move.
    pub engine: String,
    /// Location of the engine, without credentials.
    pub location: String,
    /// Heartbeat counter. If it does not change, no process reaches the engine.
    pub beats: u64,
}

/// Store of the ledger's engine binding. A ledger accepts entries of one engine at a time.
#[async_trait]
pub trait BindingStore: Send + Sync + 'static {
    /// The engine; `None` if the ledger never had one.
    async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError>;

    /// Binds the ledger to the engine and the location of `to`, if it is now bound to `from`. An empty `from` means no
    /// engine. The installation is only written the first time. Returns the binding afterwards, which is another
    /// process's if that one was faster.
    async fn bind(&self, from: &str, to: &EngineBinding) -> Result<EngineBinding, LedgerError>;

    /// Counts a heartbeat. Returns false if the ledger belongs to another engine.
    async fn beat(&self, engine: &str) -> Result<bool, LedgerError>;

    /// From now on this handle settles entries of this engine. They are refused while the ledger belongs to another
    /// one.
    fn settle_for(&self, engine: &str);

    /// Whether other processes may use the ledger at the same time.
    fn is_shared(&self) -> bool;
}
