//! Pages for users: opening red packets, buying in sales, signing in, and the operators' desk. They are rendered
//! here, and updated by scripts in the browser.
//!
//! Pages use only the public API. For its first rendering, a page calls the API in this process with the visitor's
//! session. After that, the browser calls the API.

mod api;
mod assets;
mod avatar;
mod covers;
mod deals;
mod desk;
mod desk_texts;
mod development;
mod home;
mod japanese;
mod japanese_desk;
mod language;
mod mine;
mod money;
mod next_path;
mod preview;
mod qr;
mod sale;
mod sandbox;
mod security;
mod session;
mod sign_in;
#[cfg(test)]
mod text_tests;
mod traditional_chinese;
mod traditional_chinese_desk;
mod translations;
mod views;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware,
    response::Response,
    routing::{MethodRouter, get, post},
};

use self::{api::Api, deals::RecentSales};

/// Issuer of tokens without proof of identity, for development only.
pub trait Development: Send + Sync + 'static {
    /// Token of `user` with the scopes in `scope`, separated by spaces.
    ///
    /// # Errors
    /// If `user` is not a valid id, or the token cannot be signed.
    fn token(&self, user: &str, scope: &str) -> anyhow::Result<String>;
}

/// Options of the pages.
#[derive(Default)]
pub struct PageOptions {
    /// Lets visitors sign in as any user and pay in a sandbox; `None` in production.
    pub development: Option<Arc<dyn Development>>,
    /// URL where buyers pay; `{order}` is replaced by the order's id. If it is empty, pages tell buyers to pay in the
    /// shop's app.
    pub payment_url: String,
    /// Whether the node itself uses TLS. A proxy in front reports it in `X-Forwarded-Proto`.
    pub speaks_tls: bool,
}

/// Shared state of the handlers.
#[derive(Clone)]
pub(crate) struct PageState {
    api: Api,
    options: Arc<PageOptions>,
    /// Open sales for pages of sold-out ones.
    recent: Arc<RecentSales>,
}

/// Router of the pages; the API answers all other paths.
pub fn router(api: Router, options: PageOptions) -> Router {
    let is_development = options.development.is_some();
    let pages = PageState {
        api: Api::new(api),
        options: Arc::new(options),
        recent: Arc::default(),
    };
    let mut router = page_routes()
        .into_iter()
        .fold(Router::new(), |router, (path, page)| {
            router.route(path, page)
        });
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
        .route(ASSETS, get(assets::get))
        .method_not_allowed_fallback(ask_api)
        .fallback(views::other)
        .with_state(pages);
    match is_development {
        true => router.layer(middleware::from_fn(development::for_loopback)),
        false => router,
    }
}

/// Paths of the pages and their files in production. They need no token.
#[must_use]
pub fn paths() -> Vec<&'static str> {
    let pages = page_routes().into_iter().map(|(path, _)| path);
    pages.chain([ASSETS]).collect()
}

/// Path of scripts and pictures.
const ASSETS: &str = "/assets/{version}/{name}";

fn page_routes() -> [(&'static str, MethodRouter<PageState>); 19] {
    [
        ("/", get(home::home)),
        ("/p/{id}", get(views::packet)),
        ("/p/{id}/qr.svg", get(qr::packet)),
        ("/s/{id}", get(sale::page)),
        ("/s/{id}/qr.svg", get(qr::sale)),
        ("/send", get(views::send)),
        ("/packets", get(mine::packets)),
        ("/orders", get(mine::orders)),
        ("/balance", get(home::balance)),
        ("/admin", get(desk::campaigns)),
        ("/admin/lookup", get(desk::lookup)),
        ("/admin/live", get(desk::live)),
        ("/admin/operation", get(desk::operation)),
        ("/admin/sales/new", get(desk::new_sale)),
        ("/admin/sales/import", get(desk::import)),
        ("/admin/packets/new", get(desk::new_packet)),
        ("/admin/sales/{id}", get(desk::sale)),
        ("/admin/packets/{id}", get(desk::packet)),
        ("/sign-in", get(sign_in::page)),
    ]
}

/// The API refuses methods that no page has, with problem details.
async fn ask_api(State(pages): State<PageState>, request: Request) -> Response {
    pages.api.answer(request).await
}
