//! Sign-in: with a token or, in development, as any user.

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
    PageState,
    desk_texts::Texts,
    next_path,
    views::{Frame, PageRequest, passed_on},
};

/// Scopes of a role in development.
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
    /// Usual role of visitors who continue to that page.
    role: &'static str,
}

pub(crate) async fn page(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Response {
    let then = next_path::checked(asked.then.as_deref());
    let session = pages.session(&headers).await;
    let frame = Frame::script_json(
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
        desk: Texts::for_language(frame.language),
        role: match then {
            "/admin/operation" => "admin",
            desk if desk.starts_with("/admin") => "operator",
            _ => "user",
        },
    };
    frame.answer(&page, StatusCode::OK)
}

#[derive(Deserialize)]
pub(crate) struct DevSignInForm {
    user: String,
    #[serde(default)]
    then: String,
    /// user, seller, operator or admin.
    #[serde(default)]
    role: String,
}

/// Signs the visitor in as the given user.
pub(crate) async fn be(
    State(pages): State<PageState>,
    headers: HeaderMap,
    Form(whoever): Form<DevSignInForm>,
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
            let there = Redirect::to(next_path::checked(Some(&whoever.then)));
            (AppendHeaders([cookie]), there).into_response()
        }
        None => Redirect::to("/sign-in").into_response(),
    }
}
