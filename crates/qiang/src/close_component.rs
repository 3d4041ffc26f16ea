//! Components that close with a node.

use async_trait::async_trait;

/// A component that a node closes when it stops.
#[async_trait]
pub(crate) trait CloseComponent: Send + Sync {
    /// Runs its periodic work once, without waiting for its next interval.
    fn wake(&self) {}

    /// Answers all accepted requests and stops. Idempotent.
    async fn close(&self) -> anyhow::Result<()>;

    /// Removes its data from shared servers.
    async fn erase(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
