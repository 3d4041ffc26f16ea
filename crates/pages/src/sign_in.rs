//! Signing in: with a token; for trying out, as anybody.

use askama::Template;
use axum::{
    Form,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{AppendHeaders, IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;
use serde_json::json;

use crate::{
    Pages,
    desk_texts::Texts,
    views::{Asked, Frame, passed_on},
};

/// What whoever tries it out may do, as what they come.
fn scopes(role: &str) -> &'static str {
    match role {
        "seller" => "claim send campaigns:write",
        "operator" => "claim send campaigns:write:any read:any",
        "admin" => "claim send admin",
        _ => "claim send",
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    frame: &'a Frame,
    then: &'a str,
    is_development: bool,
    desk: &'static Texts,
    /// As what most come who go on there.
    role: &'static str,
}

/// A path of this service, where to go on.
fn then(asked: Option<&str>) -> &str {
    // `//host` leads to another one, and to browsers `\` is `/`, and tabs and line ends are nothing. A path is visible
    // ASCII: its other characters are escaped.
    let is_own = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    asked.filter(is_own).unwrap_or("/")
}

/// Leads to signing in, and from there to a path of this service.
pub(crate) fn first(path: &str) -> Redirect {
    Redirect::to(&format!("/sign-in?then={}", then(Some(path))))
}

pub(crate) async fn page(State(pages): State<Pages>, asked: Asked, headers: HeaderMap) -> Response {
    let then = then(asked.then.as_deref());
    let session = pages.session(&headers).await;
    let frame = Frame::of_script(
        "sign-in.js",
        &asked,
        &headers,
        &session,
        json!({ "then": then }),
    );
    let page = SignIn {
        frame: &frame,
        then,
        is_development: pages.options.development.is_some(),
        desk: Texts::of(frame.language),
        role: match then {
            "/admin/operation" => "admin",
            desk if desk.starts_with("/admin") => "operator",
            _ => "user",
        },
    };
    frame.answer(&page, StatusCode::OK)
}

#[derive(Deserialize)]
pub(crate) struct Whoever {
    user: String,
    #[serde(default)]
    then: String,
    /// user, seller, operator or admin.
    #[serde(default)]
    role: String,
}

/// Signs somebody in as whomever they say.
pub(crate) async fn be(
    State(pages): State<Pages>,
    headers: HeaderMap,
    Form(whoever): Form<Whoever>,
) -> Response {
    let token = pages.options.development.as_ref();
    let scopes = scopes(&whoever.role);
    let token = token.and_then(|development| development.token(&whoever.user, scopes).ok());
    let Some(token) = token else {
        return Redirect::to("/sign-in").into_response();
    };
    let begun = pages.api.post("/v1/session", &token, &headers, None).await;
    match passed_on(&begun, header::SET_COOKIE) {
        Some(cookie) => {
            let there = Redirect::to(then(Some(&whoever.then)));
            (AppendHeaders([cookie]), there).into_response()
        }
        None => Redirect::to("/sign-in").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_here_and_nowhere_else() {
        for (asked, expected) in [
            (Some("/p/1"), "/p/1"),
            (Some("//evil.example"), "/"),
            (Some("/\\evil.example"), "/"),
            (Some("https://evil.example"), "/"),
            // Browsers leave out tabs and line ends, wherever they stand.
            (Some("/\t/evil.example"), "/"),
            (Some("/\n/evil.example"), "/"),
            (Some("/\r\n/evil.example"), "/"),
            (Some("/\t\\evil.example"), "/"),
            (Some("/p/1\r\nset-cookie: a=b"), "/"),
            (Some("/p\u{0}"), "/"),
            (Some("/红包"), "/"),
            (Some("/p/1 2"), "/"),
            (Some("/p\\1"), "/"),
            (
                Some("/orders?after=a%2Fb&lang=zh#x"),
                "/orders?after=a%2Fb&lang=zh#x",
            ),
            (Some(""), "/"),
            (None, "/"),
        ] {
            assert_eq!(then(asked), expected, "{asked:?}");
        }
    }
}
