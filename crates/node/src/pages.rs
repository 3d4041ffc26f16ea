//! The pages of a node, before its API.

use std::sync::Arc;

use axum::Router;
use qiang_api::TokenIssuer;
use qiang_core::{id::UserId, ports::Clock as _};
use qiang_embedded::SystemClock;
use qiang_pages::{Development, Options};

use crate::config::Config;

/// How long whoever tries it out stays signed in.
const DEVELOPMENT_TOKEN_S: i64 = 24 * 3_600;

/// What puts the pages before the API, where they are wanted.
///
/// # Errors
/// When pages for trying out are wanted, and there is no secret to make tokens with.
pub(crate) fn surround(config: &Config) -> anyhow::Result<impl FnOnce(Router) -> Router> {
    let pages = &config.pages;
    let development: Option<Arc<dyn Development>> = match pages.development {
        true => Some(Arc::new(Anybody(TokenIssuer::from_secret(
            config.auth.hs256_secret.expose().as_bytes(),
        )?))),
        false => None,
    };
    let options = pages.enabled.then(|| Options {
        development,
        payment_url: pages.payment_url.clone(),
    });
    Ok(move |api| match options {
        Some(options) => qiang_pages::router(api, options),
        None => api,
    })
}

/// Makes tokens for anybody.
struct Anybody(TokenIssuer);

impl Development for Anybody {
    fn token(&self, user: &str, scope: &str) -> anyhow::Result<String> {
        let (user, now) = (UserId::new(user)?, SystemClock.now());
        self.0.issue(&user, scope, now, DEVELOPMENT_TOKEN_S)
    }
}
