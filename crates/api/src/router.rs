//! Routes, and the document that describes them.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::{FromRef, Request},
    http::{HeaderValue, StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use bytes::Bytes;
use qiang_wire::problem::ProblemKind;
use serde_json::Value;
use utoipa::{
    OpenApi,
    openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};
use utoipa_swagger_ui::{Config as ViewerConfig, SwaggerUi};

use crate::{
    app::App,
    auth::Scope,
    claims::{self, invitation, members, queue_entries, tickets},
    config::UsageError,
    document::complete,
    http::{compression::Compressible, cors, declared, problem::ApiProblem},
    resources::{
        accounts, audits, campaigns, events, grant_timeline,
        health::{self, HealthState},
        histories, hold_extensions, lists, metadata, movement_lists, operation_log,
        order_cancellations, order_list, orders, partition_commands, partitions, payment_list,
        payments, problem_pages, profile, provider_notifications, quarantine, reconciliation,
        recorded_events, red_packet_batch, red_packets, refunds, sale_batch, sale_changes,
        sale_orders, sales, server_seeds, sessions, stats, test_clock, transfers, webhook_changes,
        webhook_deliveries, webhooks,
    },
};

/// OpenAPI document before the routes are added.
#[derive(OpenApi)]
#[openapi(info(title = "Qiang", description = "Qiang distributes scarce goods to a crowd: red packets and \
    flash sales. Amounts are whole minor units. Every error is problem details (RFC 9457) with a stable `type`, the \
    path of a page that explains it. Every POST may carry an `Idempotency-Key`, except those for tickets, \
    invitations, sessions, notifications and money that leaves. With another body, the same key is refused with 422. \
    Deposits, red packets, sales and orders take effect once per key; payments, refunds and withdrawals once per \
    reference. \
    A refused campaign, deposit or payout spends no key: a retry acts if it is possible by then. \
    Repeating a cancellation, pause, resumption or close changes nothing. Every response has an `X-Request-Id`: the \
    id of the request (up to 128 letters, digits and `-_.:/+=@`), or a fresh one. Every response has \
    `X-Content-Type-Options: nosniff` and `Referrer-Policy: no-referrer`. A response to a request with a token has \
    `Cache-Control: no-store`, unless its description differs."), security(("bearer" = [])))]
struct ApiDocument;

/// Routes of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerRoutes {
    /// Routes for all clients.
    Public,
    /// Routes for operators, with profiles.
    Operation,
    /// Both, without profiles.
    All,
}

/// Signatures of payment services: names of the security schemes, headers and descriptions.
const PROVIDER_SIGNATURES: [(&str, &str, &str); 3] = [
    (
        "stripe",
        "Stripe-Signature",
        "Time and HMAC-SHA256 of time and body, with the secret of the account's webhook endpoint.",
    ),
    (
        "wechat",
        "Wechatpay-Signature",
        "RSA-SHA256 of time, nonce and body, with `Wechatpay-Timestamp`, `-Nonce` and `-Serial`.",
    ),
    (
        "alipay",
        "sign",
        "Not a header, which OpenAPI requires here: the parameter `sign` of the form, RSA2 of its other parameters.",
    ),
];

fn routes(served: ListenerRoutes) -> OpenApiRouter<Arc<App>> {
    let description = "A JWT: `sub` is the user, `exp` is required, `scope` has words of claim, send, \
        deposit, withdraw, pay, campaigns:write, campaigns:write:any, read:any, admin. If an operation names several \
        scopes, one of them is needed; the owner of the object decides which. `admin` includes all but claim and \
        send. An installation may require `iss`, `aud`, `iat`, the header's `typ`, and with a set of keys `kid`. It \
        may limit the lifetime of tokens. A token with `crit` in its header is refused, and so is a revoked one.";
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(description));
    let mut document = ApiDocument::openapi();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    let signature = ApiKeyValue::with_description(
        "webhook-signature",
        "`v1,` and the signature in base64, as Standard Webhooks specifies; with `webhook-id` and `webhook-timestamp`.",
    );
    components.add_security_scheme(
        "signature",
        SecurityScheme::ApiKey(ApiKey::Header(signature)),
    );
    for (name, header, description) in PROVIDER_SIGNATURES {
        let signature = ApiKeyValue::with_description(header, description);
        let scheme = SecurityScheme::ApiKey(ApiKey::Header(signature));
        components.add_security_scheme(name, scheme);
    }
    OpenApiRouter::with_openapi(document)
        .routes(routes!(claims::claim_share, red_packets::list))
        .routes(routes!(claims::order_units, sale_orders::list))
        .routes(routes!(tickets::for_red_packet))
        .routes(routes!(tickets::for_sale))
        .routes(routes!(lists::red_packets, red_packets::create))
        .routes(routes!(red_packet_batch::create))
        .routes(routes!(server_seeds::create))
        .routes(routes!(red_packets::get))
        .routes(routes!(lists::sales, sales::create))
        .routes(routes!(sale_batch::create))
        .routes(routes!(sales::get, sale_changes::change))
        .routes(routes!(metadata::of_campaign, metadata::change_campaign))
        .routes(routes!(orders::get))
        .routes(routes!(metadata::of_order, metadata::change_order))
        .routes(routes!(orders::pay))
        .routes(routes!(order_list::list))
        .routes(routes!(payment_list::list, payments::report))
        .routes(routes!(provider_notifications::stripe))
        .routes(routes!(provider_notifications::wechat))
        .routes(routes!(provider_notifications::alipay))
        .routes(routes!(orders::cancel))
        .routes(routes!(hold_extensions::extend))
        .routes(routes!(order_cancellations::cancel))
        .routes(routes!(orders::return_order))
        .routes(routes!(accounts::account))
        .routes(routes!(histories::claims))
        .routes(routes!(histories::orders))
        .routes(routes!(histories::postings))
        .routes(routes!(histories::deposit))
        .routes(routes!(histories::payment))
        .routes(routes!(accounts::deposit))
        .routes(routes!(refunds::reverse))
        .routes(routes!(refunds::withdraw))
        .routes(routes!(transfers::make))
        .routes(routes!(refunds::refunds, refunds::refund))
        .routes(routes!(refunds::reverse_refund))
        .routes(routes!(refunds::owed))
        .routes(routes!(movement_lists::deposits))
        .routes(routes!(movement_lists::withdrawals))
        .routes(routes!(movement_lists::refunds))
        .routes(routes!(sessions::begin, sessions::get, sessions::end))
        .routes(routes!(operation_log::list))
        .routes(routes!(campaigns::state))
        .routes(routes!(grant_timeline::get))
        .routes(routes!(events::watch))
        .routes(routes!(queue_entries::place))
        .routes(routes!(campaigns::pause))
        .routes(routes!(campaigns::resume))
        .routes(routes!(campaigns::start))
        .routes(routes!(campaigns::close))
        .routes(routes!(members::audience))
        .routes(routes!(invitation::create))
        .routes(routes!(campaigns::archive))
        .routes(routes!(recorded_events::list))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::get, webhooks::delete))
        .routes(routes!(webhook_changes::change))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::redrive))
        .routes(routes!(webhook_changes::rotate))
        .routes(routes!(webhook_deliveries::list))
        .routes(routes!(webhook_deliveries::redeliver))
        .routes(routes!(partitions::list))
        .routes(routes!(partitions::get))
        .routes(routes!(partition_commands::repair))
        .routes(routes!(reconciliation::reconcile))
        .routes(routes!(partition_commands::resume))
        .routes(routes!(partition_commands::release))
        .routes(routes!(quarantine::list))
        .routes(routes!(quarantine::get))
        .routes(routes!(quarantine::redrive))
        .routes(routes!(audits::list, audits::start))
        .routes(routes!(audits::get))
        .routes(routes!(stats::read))
        .routes(routes!(test_clock::advance))
        .merge(common_routes(served))
}

/// Routes of each process that listens.
fn common_routes<S: Clone + Send + Sync + 'static>(served: ListenerRoutes) -> OpenApiRouter<S>
where
    HealthState: FromRef<S>,
{
    let router = OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(problem_pages::list))
        .routes(routes!(problem_pages::one));
    match served {
        ListenerRoutes::Public => router,
        ListenerRoutes::Operation | ListenerRoutes::All => router
            .routes(routes!(health::readyz))
            .routes(routes!(health::metrics)),
    }
}

/// The OpenAPI document.
pub fn document() -> Value {
    complete(&collected())
}

/// Annotations of the handlers.
pub(crate) fn collected() -> utoipa::openapi::OpenApi {
    routes(ListenerRoutes::All).split_for_parts().1
}

/// Viewer of the document, and the document.
fn docs<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let ui = SwaggerUi::new("/docs").config(ViewerConfig::new([DOCUMENT_PATH]));
    Router::from(ui)
        .route(DOCUMENT_PATH, get(document_text))
        .layer(from_fn(with_docs_headers))
}

const DOCUMENT_PATH: &str = "/openapi.json";

/// The document is half a megabyte, so it is not serialised for each request.
async fn document_text() -> Response {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone()).into_response()
}

/// Adds the policy of the viewer, and marks its files as constant.
async fn with_docs_headers(request: Request, next: Next) -> Response {
    // An encoded path is another name of a file, and is not kept.
    let path = request.uri().path();
    let mark = match path.contains('%') {
        true => Compressible::Fresh,
        false => Compressible::Constant(path.into()),
    };
    let mut response = next.run(request).await;
    if response.status() == StatusCode::OK {
        response.extensions_mut().insert(mark);
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, DOCS_POLICY);
    response
}

/// The viewer's scripts and styles are files of the service. It also writes inline styles, and has images in them.
const DOCS_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Bit and name of a scope.
fn scope_of(name: &str) -> Option<(u16, &'static str)> {
    let scope = Scope::from_word(name)?;
    Some((scope as u16, scope.name()))
}

pub(crate) fn router(app: Arc<App>, served: ListenerRoutes) -> Result<Router, UsageError> {
    let cors = cors::layer(app.config.server.origins()?);
    let mut router = declared::router_of(routes(served), scope_of);
    if app.config.server.noop_route {
        router = router.route("/v1/noop/{id}/claims", post(claims::noop));
    }
    if app.config.server.docs {
        router = router.merge(docs());
    }
    let router = router
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(app);
    Ok(match cors {
        Some(cors) => router.layer(cors),
        None => router,
    })
}

/// Routes for operators only.
pub(crate) fn admin_router(app: &Arc<App>) -> Router {
    let router = operator_routes(ListenerRoutes::Operation).merge(docs());
    router
        .fallback(not_found)
        .with_state(HealthState::from_ref(app))
}

/// Document of the routes of a process without claims.
pub(crate) fn operation_document() -> utoipa::openapi::OpenApi {
    common_routes::<HealthState>(ListenerRoutes::All)
        .split_for_parts()
        .1
}

/// Routes of a process without claims. With `starting`, all other requests are answered 503.
pub(crate) fn operation_router(
    operation: HealthState,
    starting: bool,
    served: ListenerRoutes,
) -> Router {
    let router = operator_routes(served);
    let router = match starting {
        true => router.fallback(not_started),
        false => router.fallback(not_found),
    };
    router.with_state(operation)
}

fn operator_routes(served: ListenerRoutes) -> Router<HealthState> {
    let router = declared::router_of(common_routes(served), scope_of);
    let router = router.method_not_allowed_fallback(method_not_allowed);
    match served {
        ListenerRoutes::Operation => router.route("/debug/pprof/profile", get(profile::take)),
        ListenerRoutes::Public | ListenerRoutes::All => router,
    }
}

async fn not_started() -> ApiProblem {
    ApiProblem::starting()
}

async fn not_found() -> ApiProblem {
    ApiProblem::new(ProblemKind::NotFound, "this service has no such path")
}

async fn method_not_allowed() -> ApiProblem {
    ProblemKind::MethodNotAllowed.into()
}
