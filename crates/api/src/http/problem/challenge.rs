//! Problems with an authentication challenge (RFC 6750).

use axum::http::{HeaderValue, header};
use qiang_wire::problem::ProblemKind;

use super::ApiProblem;
use crate::http::auth_failure::AuthFailure;

impl ApiProblem {
    /// Adds a challenge for a bearer token, with `parameters`.
    fn challenge(mut self, parameters: &str) -> Self {
        let challenge = format!("Bearer realm=\"qiang\"{parameters}");
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            let headers = &mut self.0.headers;
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        self
    }

    /// Problem of a missing or invalid token. `detail` must not contain any part of it.
    pub(crate) fn unauthenticated(why: AuthFailure, detail: &'static str) -> Self {
        let mut problem = Self::new(ProblemKind::Unauthenticated, detail);
        problem.0.auth_failure = Some(why);
        problem.challenge(match why {
            AuthFailure::Missing => "",
            _ => ", error=\"invalid_token\"",
        })
    }

    /// Problem of a token without the required scope.
    pub(crate) fn missing_scope(scope: &'static str) -> Self {
        let detail = format!("the token's scope must contain `{scope}`");
        let parameters = format!(", error=\"insufficient_scope\", scope=\"{scope}\"");
        let mut problem = Self::new(ProblemKind::Forbidden, detail).challenge(&parameters);
        problem.0.body.scope = Some(scope.to_owned());
        problem
    }
}
