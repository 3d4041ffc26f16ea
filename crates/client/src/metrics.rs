//! Prometheus metrics of a node.

use hyper::header::ACCEPT;

use crate::{call::RepeatableCall, client::Client, error::Error};

impl Client {
    /// Metrics of the node that answers, in the text format of Prometheus. Nodes serve them at `admin.listen`, which
    /// usually is another URL than that of the API.
    ///
    /// # Errors
    /// `not-found` if the URL is not that of `admin.listen`; see [`Error`].
    pub async fn metrics(&self) -> Result<String, Error> {
        let call = RepeatableCall::get("/metrics").header(ACCEPT, "text/plain")?;
        let answer = self.call(&call).await?;
        let text = String::from_utf8(answer.body.to_vec());
        text.map_err(|_| Error::Answer("the metrics are not UTF-8 text".to_owned()))
    }
}
