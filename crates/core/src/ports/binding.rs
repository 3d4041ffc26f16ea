//! The engine that a ledger belongs to: identity, location, and signs of life.

use async_trait::async_trait;

use super::LedgerError;

/// The engine whose entries a ledger takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineBinding {
    /// Name of the installation: 32 hexadecimal digits at random, made once.
    pub installation: String,
    /// Name of the engine: another one after each takeover and each move.
    pub engine: String,
    /// Where the engine is, without credentials.
    pub location: String,
    /// Signs of life. A number that stays the same is that of an engine that no process reaches.
    pub beats: u64,
}

/// The ledger's record of its engine. A ledger takes entries of one engine at a time.
#[async_trait]
pub trait BindingStore: Send + Sync + 'static {
    /// The engine; none where the ledger never had one.
    async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError>;

    /// Binds the ledger to the engine and the location of `to`, if it is bound to `from` now: an empty `from` stands
    /// for none. The installation is only written the first time. Returns the binding afterwards, which is another
    /// process' where that was faster.
    async fn bind(&self, from: &str, to: &EngineBinding) -> Result<EngineBinding, LedgerError>;

    /// Counts a sign of life. False where the ledger belongs to another engine.
    async fn beat(&self, engine: &str) -> Result<bool, LedgerError>;

    /// From now on this handle settles entries of this engine: they are refused while the ledger belongs to another.
    fn settle_for(&self, engine: &str);

    /// Whether other processes may use the ledger at the same time.
    fn is_shared(&self) -> bool;
}
