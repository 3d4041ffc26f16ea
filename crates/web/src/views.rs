//! Frame of the pages, and the pages of home, packets and sending.

use std::convert::Infallible;

use askama::Template;
use axum::{
    extract::{FromRequestParts, Path, Query, Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, request::Parts},
    response::{Html, IntoResponse as _, Response},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    PageState,
    api::ApiAnswer,
    assets, avatar,
    covers::CoverLook,
    language::{Language, Texts},
    next_path,
    preview::LinkPreview,
    qr, security,
};

/// Number of draws in the first rendering of a page.
const DRAWS: u32 = 100;
/// Lifetime of the language cookie: one year.
const LANGUAGE_LASTS_S: u32 = 31_536_000;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PageRequest {
    pub(crate) language: Option<String>,
    /// Target path after the sign-in.
    pub(crate) then: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = Infallible;
    /// An unreadable query counts as empty.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = Query::try_from_uri(&parts.uri);
        Ok(query.map(|Query(asked)| asked).unwrap_or_default())
    }
}

/// Common parts of every page.
pub(crate) struct Frame {
    pub(crate) language: Language,
    pub(crate) texts: &'static Texts,
    pub(crate) version: &'static str,
    /// Style of the page.
    pub(crate) style: &'static str,
    /// The signed-in user, if any.
    pub(crate) user: Option<String>,
    /// Data for the script, as JSON that is safe inside a page.
    pub(crate) facts: String,
    chosen: bool,
}

impl Frame {
    /// Frame with all texts.
    pub(crate) fn new(
        asked: &PageRequest,
        headers: &HeaderMap,
        session: &Value,
        facts: Value,
    ) -> Self {
        let language = Language::of(asked.language.as_deref(), headers);
        Self::with(language, json!(language.texts()), asked, session, facts)
    }

    /// Frame with the texts that a script names.
    pub(crate) fn script_json(
        script: &'static str,
        asked: &PageRequest,
        headers: &HeaderMap,
        session: &Value,
        facts: Value,
    ) -> Self {
        let language = Language::of(asked.language.as_deref(), headers);
        let said = assets::texts_of(script, language);
        Self::with(language, said, asked, session, facts)
    }

    fn with(
        language: Language,
        said: Value,
        asked: &PageRequest,
        session: &Value,
        facts: Value,
    ) -> Self {
        let texts = language.texts();
        let mut all = json!({ "texts": said, "language": language.tag(), "session": session });
        if let (Value::Object(all), Value::Object(facts)) = (&mut all, facts) {
            all.extend(facts);
        }
        Self {
            language,
            texts,
            version: assets::version(),
            style: &assets::STYLE,
            user: session["user"].as_str().map(str::to_owned),
            // Escaped, so that no text can end its element.
            facts: all.to_string().replace('<', "\\u003c"),
            chosen: asked.language.is_some(),
        }
    }

    /// Language that the link at the top leads to. All others are at the end of the page.
    pub(crate) fn other(&self) -> Language {
        match self.language {
            Language::English => Language::Chinese,
            _ => Language::English,
        }
    }

    /// Languages beside the page's own, for the links at its end.
    pub(crate) fn others(&self) -> impl Iterator<Item = Language> {
        let own = self.language;
        Language::ALL.into_iter().filter(move |it| *it != own)
    }

    /// Renders the page, and stores a chosen language in a cookie.
    pub(crate) fn answer(&self, page: &impl Template, status: StatusCode) -> Response {
        let Ok(text) = page.render() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let mut response = (status, Html(text)).into_response();
        if self.chosen {
            let tag = self.language.tag();
            let cookie =
                format!("language={tag}; Path=/; Max-Age={LANGUAGE_LASTS_S}; SameSite=Lax");
            if let Ok(cookie) = cookie.try_into() {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
        }
        response
    }
}

#[derive(Template)]
#[template(path = "packet.html")]
struct PacketView<'a> {
    frame: &'a Frame,
    style: &'static str,
    cover_style: &'static str,
    packet: &'a Value,
    cover: CoverLook,
    /// Placeholder of the sender's picture.
    tint: u32,
    initial: String,
    preview: LinkPreview,
}

#[derive(Template)]
#[template(path = "send.html")]
struct SendPage<'a> {
    frame: &'a Frame,
    style: &'static str,
    cover_style: &'static str,
    covers: Vec<CoverLook>,
    /// Whether deposits are free, as in development.
    is_development: bool,
}

#[derive(Template)]
#[template(path = "nothing.html")]
pub(crate) struct EmptyView<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) title: &'a str,
    pub(crate) help: &'a str,
}

/// String field of an answer; empty if it is none.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

impl PageState {
    /// Session of the signed-in user; null without one.
    pub(crate) async fn session(&self, headers: &HeaderMap) -> Value {
        let answer = self.api.get("/v1/session", headers).await;
        answer.ok().unwrap_or_default()
    }

    /// Error page, or the redirect to sign in, instead of the requested page.
    pub(crate) async fn instead(
        &self,
        asked: &PageRequest,
        headers: &HeaderMap,
        path: &str,
        answer: &ApiAnswer,
    ) -> Response {
        if answer.status == StatusCode::UNAUTHORIZED {
            return next_path::sign_in_first(path).into_response();
        }
        let is_absent =
            answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS;
        self.error_page(is_absent, asked, headers).await
    }

    /// Page for a path that leads nowhere, or for a failure.
    async fn error_page(
        &self,
        is_absent: bool,
        asked: &PageRequest,
        headers: &HeaderMap,
    ) -> Response {
        let session = self.session(headers).await;
        let frame = Frame::script_json("qiang.js", asked, headers, &session, Value::Null);
        let (title, help, status) = match is_absent {
            true => (
                frame.texts.no_such,
                frame.texts.no_such_help,
                StatusCode::NOT_FOUND,
            ),
            false => (frame.texts.trouble, "", StatusCode::SERVICE_UNAVAILABLE),
        };
        let page = EmptyView {
            frame: &frame,
            title,
            help,
        };
        frame.answer(&page, status)
    }
}

/// Paths of the API, which are answered for programs in any case.
const API: &str = "/v1/";

/// All paths that are no page: the API answers them. A browser that finds nothing there gets a page.
pub(crate) async fn other(
    State(pages): State<PageState>,
    asked: PageRequest,
    request: Request,
) -> Response {
    let accepted = request.headers().get(header::ACCEPT);
    let accepts_page = accepted
        .and_then(|accepted| accepted.to_str().ok())
        .is_some_and(|accepted| accepted.contains("text/html"));
    let is_visit = accepts_page
        && [Method::GET, Method::HEAD].contains(request.method())
        && !request.uri().path().starts_with(API);
    if !is_visit {
        return pages.api.answer(request).await;
    }
    let headers = request.headers().clone();
    let answer = pages.api.answer(request).await;
    match answer.status() {
        StatusCode::NOT_FOUND => security::secured(pages.error_page(true, &asked, &headers).await),
        _ => answer,
    }
}

/// An id if it is safe in a path; otherwise `-`, which no object has.
pub(crate) fn plain(id: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match id.bytes().all(is_plain) {
        true => id,
        false => "-",
    }
}

pub(crate) async fn packet(
    State(pages): State<PageState>,
    Path(id): Path<String>,
    asked: PageRequest,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let id = plain(&id);
    let answer = pages
        .api
        .get(&format!("/v1/red-packets/{id}"), &headers)
        .await;
    if !answer.status.is_success() {
        let path = format!("/p/{id}");
        return pages.instead(&asked, &headers, &path, &answer).await;
    }
    let (packet, session) = (answer.body, pages.session(&headers).await);
    let path = format!("/v1/red-packets/{id}/claims?limit={DRAWS}");
    let draws = pages.api.get(&path, &headers).await;
    let draws = draws.ok().map(|draws| short(draws, &packet));
    // The first draws have the visitor's share, unless there are more or they are hidden.
    let own = match &draws {
        Some(draws) if draws["next"].is_null() => None,
        _ => pages.share_of(&packet, &session, &headers).await,
    };
    let facts = json!({ "packet": packet, "draws": draws, "own": own });
    let frame = Frame::script_json("packet.js", &asked, &headers, &session, facts);
    let cover = CoverLook::of_packet(&packet);
    let page = PacketView {
        frame: &frame,
        style: &assets::PACKET_STYLE,
        cover_style: assets::cover_style(cover),
        cover,
        tint: avatar::tint(text(&packet, "sender")),
        initial: avatar::initial(text(&packet, "sender")),
        preview: LinkPreview::of_packet(&packet, frame.texts, qr::origin(&uri, &headers, &pages)),
        packet: &packet,
    };
    frame.answer(&page, StatusCode::OK)
}

/// Draws without the names of their fields, because there may be many draws: number, user, minor units, and the end of
/// the time, from where it differs from the packet's start. All times have the same length.
fn short(mut draws: Value, packet: &Value) -> Value {
    let start = text(&packet["state"], "starts_at").as_bytes();
    let listed = draws.get_mut("data").and_then(Value::as_array_mut);
    for draw in listed.into_iter().flatten() {
        let amount = &draw["amount"]["amount"];
        let time = text(draw, "created_at");
        let same = time.bytes().zip(start).take_while(|(a, b)| a == *b).count();
        let end = match time.len() == start.len() {
            true => time.get(same..).unwrap_or(time),
            false => time,
        };
        *draw = json!([draw["number"], draw["user"], amount, end]);
    }
    draws
}

pub(crate) async fn send(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Response {
    let session = pages.session(&headers).await;
    let Some(user) = session["user"].as_str() else {
        return next_path::sign_in_first("/send").into_response();
    };
    let account = pages
        .api
        .get(&format!("/v1/accounts/{}", escape(user)), &headers)
        .await;
    let is_development = pages.options.development.is_some();
    let facts = json!({ "account": account.ok() });
    let frame = Frame::script_json("send.js", &asked, &headers, &session, facts);
    let page = SendPage {
        frame: &frame,
        style: &assets::SEND_STYLE,
        cover_style: &assets::COVER_STYLE,
        covers: CoverLook::all().collect(),
        is_development,
    };
    frame.answer(&page, StatusCode::OK)
}

/// Escapes a user's id or a cursor for a path or a query.
pub(crate) fn escape(user: &str) -> String {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(user, &RESERVED).to_string()
}

/// Header of an answer to pass on to the browser.
pub(crate) fn passed_on(
    answer: &ApiAnswer,
    name: HeaderName,
) -> Option<(HeaderName, axum::http::HeaderValue)> {
    answer.headers.get(&name).map(|value| (name, value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_facts_ends_their_element() {
        let facts = json!({ "packet": { "title": "</script><script>alert(1)</script>" } });
        let frame = Frame::new(
            &PageRequest::default(),
            &HeaderMap::new(),
            &Value::Null,
            facts,
        );
        assert!(!frame.facts.contains('<'), "{}", frame.facts);
        let read: Value = serde_json::from_str(&frame.facts).unwrap();
        assert_eq!(
            read["packet"]["title"],
            "</script><script>alert(1)</script>"
        );
    }
}
