//! Statistics of a node, one record per second. Scope `read:any`.

use qiang_wire::answers::Stats;
use serde::Deserialize;

use crate::{call::RepeatableCall, client::Client, error::Error};

impl Client {
    /// Statistics of the last 300 seconds of the node that answers, oldest first. `after` omits records up to that
    /// number.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stats(&self, after: Option<u64>) -> Result<Vec<Stats>, Error> {
        #[derive(Deserialize)]
        struct StatsList {
            stats: Vec<Stats>,
        }
        let after = after.unwrap_or(0);
        let all: StatsList = self
            .json(RepeatableCall::get(format!("/v1/stats?after={after}")))
            .await?;
        Ok(all.stats)
    }
}
