//! Clock of a service for development.

use serde_json::json;

use crate::{answers::ClockReading, call::RepeatableCall, client::Client, error::Error};

impl Client {
    /// Moves the clock of a service for development forward by this many seconds. Scope `admin`.
    ///
    /// # Errors
    /// `development-only` at any other service; see [`Error`].
    pub async fn advance_test_clock(&self, seconds: u32) -> Result<ClockReading, Error> {
        let body = json!({ "advance_seconds": seconds });
        let call = RepeatableCall::post("/v1/test-clock/advance").json(&body)?;
        self.json(call.keyed(self)).await
    }
}
