//! HTTP connector to other servers, by URLs of the configuration.

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// Connector over TLS. A URL of the scheme `http` is used without TLS.
///
/// # Errors
/// If there are no certificate authorities to trust.
pub(crate) fn connector(scheme: Option<&str>) -> anyhow::Result<HttpsConnector<HttpConnector>> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    // The authorities that the system trusts; if it has none, Mozilla's.
    let provider = aws_lc_rs::default_provider;
    let builder = match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider()) {
        Ok(builder) => builder,
        Err(_) => HttpsConnectorBuilder::new().with_provider_and_webpki_roots(provider())?,
    };
    let builder = match scheme {
        Some("http") => builder.https_or_http(),
        _ => builder.https_only(),
    };
    Ok(builder.enable_http1().wrap_connector(http))
}
