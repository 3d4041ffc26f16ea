//! The pages of a node, served in front of its API.

use std::sync::Arc;

use axum::Router;
use qiang_api::TokenIssuer;
use qiang_core::{id::UserId, ports::Clock};
use qiang_web::{Development, PageOptions};

use crate::config::NodeConfig;

/// Lifetime of a development token, in seconds.
const DEVELOPMENT_TOKEN_S: i64 = 24 * 3_600;

/// Returns a function that adds the pages to the API's router, if they are enabled.
///
/// # Errors
/// If development pages are enabled and there is no secret to sign tokens with.
pub(crate) fn surround(
    config: &NodeConfig,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<impl FnOnce(Router) -> Router> {
    let pages = &config.pages;
    let development: Option<Arc<dyn Development>> = match pages.development {
        true => {
            let secret = config.auth.hs256_secret.expose();
            let issuer = TokenIssuer::from_secret(secret.as_bytes())?;
            Some(Arc::new(PublicListing { issuer, clock }))
        }
        false => None,
    };
    let options = pages.enabled.then(|| PageOptions {
        development,
        payment_url: pages.payment_url.clone(),
        speaks_tls: config.server.speaks_tls(),
    });
    Ok(move |api| match options {
        Some(options) => qiang_web::router(api, options),
        None => api,
    })
}

/// Issues tokens for any user.
struct PublicListing {
    issuer: TokenIssuer,
    clock: Arc<dyn Clock>,
}

impl Development for PublicListing {
    fn token(&self, user: &str, scope: &str) -> anyhow::Result<String> {
        let (user, now) = (UserId::new(user)?, self.clock.now());
        self.issuer.issue(&user, scope, now, DEVELOPMENT_TOKEN_S)
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, http::Request};
    use qiang_embedded::SystemClock;
    use tower::ServiceExt as _;

    use super::*;

    /// The QR code of a packet from a node with this configuration.
    async fn code(config: &NodeConfig, proto: &str) -> Vec<u8> {
        let pages = surround(config, Arc::new(SystemClock)).unwrap()(Router::new());
        let request = Request::get("/p/1/qr.svg")
            .header("host", "qiang.example")
            .header("x-forwarded-proto", proto);
        let request = request.body(axum::body::Body::empty()).unwrap();
        let response = pages.oneshot(request).await.unwrap();
        to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap()
            .to_vec()
    }

    #[tokio::test]
    async fn a_node_that_speaks_tls_shows_links_over_tls() {
        let plain = NodeConfig::defaults().unwrap();
        let mut tls = NodeConfig::defaults().unwrap();
        tls.server.tls_certificate_file = "certificate.pem".into();
        tls.server.tls_key_file = "key.pem".into();
        let https = code(&plain, "https").await;
        assert!(https.starts_with(b"<?xml"), "an SVG picture");
        assert_ne!(code(&plain, "http").await, https);
        assert_eq!(code(&tls, "").await, https);
    }
}
