//! Pages for people: red packets to open, sales to buy in, signing in, and the operators' desk. They are rendered here,
//! and live in the browser.
//!
//! Pages know nothing but the public API: what a page shows when it comes is asked of the API in this process, with the
//! visitor's own session, and everything after that the browser asks for itself.

mod api;
mod assets;
mod desk;
mod desk_texts;
mod development;
mod language;
mod mine;
mod money;
mod next_path;
mod qr;
mod sale;
mod sandbox;
mod security;
mod session;
mod sign_in;
mod views;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware,
    response::Response,
    routing::{get, post},
};

use self::api::Api;

/// Makes tokens for whoever asks: for trying out alone.
pub trait Development: Send + Sync + 'static {
    /// A token of `user` with the scopes in `scope`, separated by blanks.
    ///
    /// # Errors
    /// When `user` cannot be one, or the token cannot be signed.
    fn token(&self, user: &str, scope: &str) -> anyhow::Result<String>;
}

/// What pages are told.
#[derive(Default)]
pub struct Options {
    /// Lets everybody be anybody, and pay with nothing; none in production.
    pub development: Option<Arc<dyn Development>>,
    /// Where buyers pay: a URL in which `{order}` stands for the order's id; empty: elsewhere, say the pages.
    pub payment_url: String,
    /// Whether the node itself speaks TLS: what is behind a proxy says it in `X-Forwarded-Proto`.
    pub speaks_tls: bool,
}

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct Pages {
    api: Api,
    options: Arc<Options>,
}

/// The pages, and behind them the API for every other path.
pub fn router(api: Router, options: Options) -> Router {
    let is_development = options.development.is_some();
    let pages = Pages {
        api: Api::new(api.clone()),
        options: Arc::new(options),
    };
    let mut router = Router::new()
        .route("/", get(views::home))
        .route("/p/{id}", get(views::packet))
        .route("/p/{id}/qr.svg", get(qr::packet))
        .route("/s/{id}", get(sale::page))
        .route("/s/{id}/qr.svg", get(qr::sale))
        .route("/send", get(views::send))
        .route("/packets", get(mine::packets))
        .route("/orders", get(mine::orders))
        .route("/admin", get(desk::campaigns))
        .route("/admin/lookup", get(desk::lookup))
        .route("/admin/live", get(desk::live))
        .route("/admin/operation", get(desk::operation))
        .route("/admin/sales/new", get(desk::new_sale))
        .route("/admin/sales/{id}", get(desk::sale))
        .route("/admin/packets/{id}", get(desk::packet))
        .route("/sign-in", get(sign_in::page));
    if is_development {
        let sandbox = Router::new()
            .route("/sign-in/as", post(sign_in::be))
            .route("/sandbox/payments", post(sandbox::pay))
            .route("/sandbox/deposits", post(sandbox::deposit))
            .layer(middleware::from_fn(development::from_own_pages));
        router = router.merge(sandbox);
    }
    let router = router
        .layer(middleware::from_fn(security::headers))
        .route("/assets/{version}/{name}", get(assets::get))
        .method_not_allowed_fallback(ask_api)
        .with_state(pages)
        .fallback_service(api);
    match is_development {
        true => router.layer(middleware::from_fn(development::for_loopback)),
        false => router,
    }
}

/// What pages do not answer, the API refuses: with problem details.
async fn ask_api(State(pages): State<Pages>, request: Request) -> Response {
    pages.api.answer(request).await
}
