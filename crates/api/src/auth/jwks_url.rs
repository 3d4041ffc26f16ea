//! Set of keys that an identity provider serves at a URL.

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode, Uri, header};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use qiang_core::web_url;

use crate::{config::UsageError, http::https};

/// Configuration key, for errors and the log.
pub(super) const KEY: &str = "auth.jwks_url";
/// Time limit from the first packet to the last byte.
const FETCH_MAX: Duration = Duration::from_secs(5);
/// Maximum size of a set. 64 RSA keys with certificates need a fraction of it.
const SET_BYTES_MAX: usize = 256 * 1024;

/// Client for one URL.
pub(super) struct JwksUrl {
    uri: Uri,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl JwksUrl {
    /// Client that connects at each fetch.
    ///
    /// # Errors
    /// [`UsageError`] if keys must not be fetched from the URL.
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        let uri = check(url)?;
        let connector = https::connector(uri.scheme_str())?;
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Ok(Self { uri, client })
    }

    /// Fetches the set. Redirects are not followed.
    ///
    /// # Errors
    /// If there is no answer in time, a status other than 200, or a longer answer than allowed.
    pub(super) async fn fetch(&self) -> anyhow::Result<Bytes> {
        let fetched = tokio::time::timeout(FETCH_MAX, self.exchange()).await;
        fetched.map_err(|_| anyhow!("{KEY}: no answer within {} s", FETCH_MAX.as_secs()))?
    }

    async fn exchange(&self) -> anyhow::Result<Bytes> {
        let request = Request::get(self.uri.clone())
            .header(header::ACCEPT, "application/jwk-set+json, application/json")
            .header(header::USER_AGENT, "qiang")
            .body(Empty::new())?;
        let response = self.client.request(request).await;
        let response = response.with_context(|| format!("{KEY}: no connection"))?;
        if response.status() != StatusCode::OK {
            bail!("{KEY}: the answer is {}", response.status().as_u16());
        }
        let body = Limited::new(response.into_body(), SET_BYTES_MAX);
        let body = body.collect().await.map_err(|error| anyhow!(error));
        let body = body.with_context(|| format!("{KEY}: cannot read the answer"))?;
        Ok(body.to_bytes())
    }

    /// Fetches the set and blocks the thread; for the start.
    pub(super) fn fetch_now(url: &str) -> anyhow::Result<Bytes> {
        let url = url.to_owned();
        let fetch = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async { Self::new(&url)?.fetch().await })
        };
        // A thread of its own, because the caller may be inside a runtime.
        let fetched = std::thread::spawn(fetch).join();
        fetched.unwrap_or_else(|_| Err(anyhow!("{KEY}: the fetch panicked")))
    }
}

/// Checks that keys come over TLS or from this machine: an attacker who changes them in transit could sign tokens.
pub(super) fn check(url: &str) -> Result<Uri, UsageError> {
    let wrong = |why: &str| UsageError::new(format!("{KEY} {why}"));
    let url = web_url::parse(url).map_err(|error| wrong(&format!("cannot be used: {error}")))?;
    if web_url::has_credentials(&url) {
        return Err(wrong("must not have a password"));
    }
    let address = web_url::address(&url);
    let is_here =
        url.host_str() == Some("localhost") || address.is_some_and(|address| address.is_loopback());
    if url.scheme() != "https" && !is_here {
        return Err(wrong("must be https://, or http:// on a loopback address"));
    }
    let uri = url.as_str().parse::<Uri>();
    uri.map_err(|_| wrong("is not a URL"))
}

/// Stores the last good set for a start without the provider. After a crash the file has the old set or the new one.
pub(super) fn keep(file: &Path, set: &[u8]) -> anyhow::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut written = options.open(&fresh)?;
    written.write_all(set)?;
    written.sync_all()?;
    std::fs::rename(&fresh, file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        for url in [
            "https://id.example.com/jwks.json",
            "http://127.0.0.1:9/x",
            "http://127.8.0.1/x",
            "http://[::1]:9/x",
            "http://localhost/x",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
        for url in [
            "http://id.example.com/jwks.json",
            "http://10.0.0.1/x",
            "http://localhost.example.com/x",
            "ftp://id.example.com/x",
            "file:///etc/jwks.json",
            "/etc/jwks.json",
            "https://ann:hunter2@id.example.com/x",
            "id.example.com",
            "https://",
            "https://id.example.com:0/x",
            "https://id.example.com:99999/x",
            "",
        ] {
            let error = check(url).unwrap_err().to_string();
            assert!(
                error.starts_with(KEY) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
