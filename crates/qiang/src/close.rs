//! What has to be closed with a node.

use async_trait::async_trait;

/// What a node closes when it stops.
#[async_trait]
pub(crate) trait Close: Send + Sync {
    /// Has it do at once what it does from time to time.
    fn wake(&self) {}

    /// Answers everything that was accepted and stops. Again does nothing.
    async fn close(&self) -> anyhow::Result<()>;

    /// Removes what it has on servers that others use too.
    async fn erase(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
