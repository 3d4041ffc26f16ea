//! All routes, and the document that describes them.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderValue, header},
    middleware::map_response,
    response::Response,
    routing::post,
};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};
use utoipa_swagger_ui::SwaggerUi;

use crate::{
    accounts,
    app::App,
    campaigns, claims, health, orders,
    problem::{Problem, ProblemKind},
    red_packets, sales,
};

/// The document, before the routes are added.
#[derive(OpenApi)]
#[openapi(info(title = "Qiang", description = "Qiang hands out scarce things to a crowd: red packets and flash sales. \
    Amounts are whole minor units. Every error is problem details (RFC 9457) with a stable `type`. Every POST may \
    carry an `Idempotency-Key`, and with another body the same key is refused with 422. Deposits, red packets, sales \
    and orders have their effect once a key; payments once a reference; cancelling, pausing, resuming and closing \
    what is so already changes nothing."), modifiers(&Bearer), security(("bearer" = [])))]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let description = "A JWT: `sub` is the user, `exp` is required, `scope` has words of claim, send, operate.";
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some(description));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    }
}

fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(claims::claim_share, red_packets::list))
        .routes(routes!(claims::order_units))
        .routes(routes!(red_packets::create))
        .routes(routes!(red_packets::get))
        .routes(routes!(sales::create))
        .routes(routes!(sales::get))
        .routes(routes!(orders::get))
        .routes(routes!(orders::pay))
        .routes(routes!(orders::cancel))
        .routes(routes!(accounts::account))
        .routes(routes!(accounts::deposit))
        .routes(routes!(campaigns::state))
        .routes(routes!(campaigns::pause))
        .routes(routes!(campaigns::resume))
        .routes(routes!(campaigns::close))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
}

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    routes().split_for_parts().1
}

/// The service.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (mut router, document) = routes().split_for_parts();
    if app.config.server.noop_route {
        router = router.route("/v1/noop/{id}/claims", post(claims::noop));
    }
    let docs: Router<Arc<App>> = SwaggerUi::new("/docs")
        .url("/openapi.json", document)
        .into();
    router
        .method_not_allowed_fallback(method_not_allowed)
        .merge(docs.layer(map_response(no_sniffing)))
        .fallback(not_found)
        .with_state(app)
}

async fn not_found() -> Problem {
    Problem::new(ProblemKind::NotFound, "this service has no such path")
}

async fn method_not_allowed() -> Problem {
    ProblemKind::MethodNotAllowed.into()
}

async fn no_sniffing(mut response: Response) -> Response {
    let value = HeaderValue::from_static("nosniff");
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, value);
    response
}
