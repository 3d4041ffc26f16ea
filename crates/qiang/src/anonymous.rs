//! Routes that need no token.

use std::collections::BTreeSet;

use serde_json::Value;

/// Routes of a node beside the operations of its document, with `server.docs`.
const OF_DOCS: [&str; 2] = ["/docs", "/openapi.json"];

/// Methods and paths that a node serves without a token, such as `GET /healthz`: the document's operations with empty
/// security, the document and its viewer, and the pages of production.
#[must_use]
pub fn anonymous_routes() -> BTreeSet<String> {
    let document = qiang_api::document();
    let mut routes = BTreeSet::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let security = operation["security"].as_array().into_iter().flatten();
            if security
                .filter_map(Value::as_object)
                .any(|it| it.is_empty())
            {
                routes.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    let pages = OF_DOCS.into_iter().chain(qiang_web::paths());
    routes.extend(pages.map(|path| format!("GET {path}")));
    routes
}
