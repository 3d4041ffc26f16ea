//! Check of heads that parsers read differently.

use axum::{
    extract::Request,
    http::{
        HeaderName, Version,
        header::{AUTHORIZATION, HOST},
    },
};

use crate::{claims::tickets::GRAB_TICKET, http::problem::ApiProblem};

/// Refuses a request whose meaning depends on the parser: one without `Host` (RFC 9112, 3.2), or with two values of a
/// header that allows one. Health checks and scrapes do not need a host.
pub(super) fn check(request: &Request, needs_host: bool) -> Result<(), ApiProblem> {
    const SINGLE: [HeaderName; 4] = [
        HOST,
        AUTHORIZATION,
        HeaderName::from_static(GRAB_TICKET),
        HeaderName::from_static("last-event-id"),
    ];
    let headers = request.headers();
    let is_double = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    if let Some(name) = SINGLE.iter().find(is_double) {
        let detail = format!("the request has more than one `{name}`: send one");
        return Err(ApiProblem::bad_request(detail).in_parameter(name.as_str().to_owned()));
    }
    if needs_host && request.version() == Version::HTTP_11 && !headers.contains_key(HOST) {
        let detail = "a request of HTTP/1.1 needs the header `Host`";
        return Err(ApiProblem::bad_request(detail).in_parameter("host"));
    }
    Ok(())
}
