//! Tests of every page with an API that answers all requests. They need no browser. They check that each page exists,
//! may run only the service's own scripts, and names only files that exist.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::BodyExt as _;
use qiang_web::{Development, PageOptions, router};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

const ID: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
/// Value of all texts of a campaign: no part of it may become an element.
const BAD: &str = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>";

/// Tags of the languages of the pages.
const LANGUAGES: [&str; 4] = ["en", "zh", "zh-TW", "ja"];

/// Session of a user with the scopes in the cookie.
fn session(headers: &HeaderMap) -> Option<Value> {
    let cookie = headers.get(header::COOKIE)?.to_str().unwrap();
    let scopes = cookie.strip_prefix("scopes=")?.split('+');
    let scopes: Vec<_> = scopes.filter(|scope| !scope.is_empty()).collect();
    Some(json!({ "user": "ann", "scopes": scopes, "expires_at": "2030-01-01T00:00:00Z" }))
}

/// API in which every object exists: one answer has all fields that pages read.
async fn api(request: Request) -> Response {
    let session = session(request.headers());
    let path = request.uri().path();
    let is_open = path.contains(ID) || path.starts_with("/v1/campaigns");
    if session.is_none() && !is_open {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "type": "x" }))).into_response();
    }
    if path == "/v1/session" {
        return Json(session.unwrap_or_default()).into_response();
    }
    let money = json!({ "amount": 1_234, "currency": "CNY" });
    let state = json!({
        "phase": "live", "supply": 5, "granted": 1, "remaining": 4, "returned": 0,
        "withheld": 0, "now": "2026-01-01T00:00:00Z",
        "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2026-01-02T00:00:00Z",
    });
    let mut campaign = json!({
        "id": ID, "title": BAD, "description": BAD, "sender": "ann", "seller": "ann", "state": state, "total": money,
        "remaining": money, "refunded": money, "unit_price": money, "shares": 5, "commitment": "c0ffee",
        "requirements": [], "per_user_limit": 1, "split": { "rule": "equal" }, "balances": [],
        "payment_policy": "accept_with_tolerance", "payment_tolerance": { "amount": 5, "currency": "CNY" },
    });
    for list in ["sales", "red_packets"] {
        campaign[list] = json!([campaign.clone()]);
    }
    for list in ["claims", "orders", "postings", "actions"] {
        campaign[list] = json!([]);
    }
    Json(campaign).into_response()
}

struct Nobody;

impl Development for Nobody {
    fn token(&self, _: &str, _: &str) -> anyhow::Result<String> {
        anyhow::bail!("this issuer makes no tokens")
    }
}

fn pages() -> Router {
    let options = PageOptions {
        development: Some(Arc::new(Nobody)),
        payment_url: "https://pay.example/{order}".to_owned(),
        speaks_tls: false,
    };
    router(Router::new().fallback(api), options)
}

/// Paths of all pages, with the id of a campaign that exists.
fn paths() -> Vec<String> {
    let all = qiang_web::paths().into_iter();
    let pages = all.filter(|path| !path.contains("{version}"));
    pages.map(|path| path.replace("{id}", ID)).collect()
}

struct Page {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

async fn get(path: &str, scopes: Option<&str>) -> Page {
    let mut request = Request::get(path).header(header::HOST, "localhost");
    if let Some(scopes) = scopes {
        request = request.header(header::COOKIE, format!("scopes={scopes}"));
    }
    let request = request.body(Body::empty()).unwrap();
    let (parts, body) = pages().oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Page {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// Elements of a kind: their attributes and contents.
fn elements<'a>(text: &'a str, kind: &str) -> Vec<(&'a str, &'a str)> {
    let (open, close) = (format!("<{kind}"), format!("</{kind}>"));
    let parts = text.split(&*open).skip(1);
    let parts = parts.filter(|part| part.starts_with([' ', '>']));
    parts
        .map(|part| {
            let (attributes, rest) = part.split_once('>').unwrap();
            (attributes, rest.split(&*close).next().unwrap())
        })
        .collect()
}

/// Values of an attribute.
fn attributes(text: &str, name: &str) -> BTreeSet<String> {
    let begin = format!(" {name}=\"");
    text.split(&begin)
        .skip(1)
        .map(|part| part.split('"').next().unwrap().to_owned())
        .collect()
}

/// Checks that a page allows only scripts of the service's own files.
fn assert_safe(path: &str, page: &Page) {
    let policy = page.header(header::CONTENT_SECURITY_POLICY);
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        let mut rules = policy.split(';').map(str::trim);
        assert!(rules.any(|it| it == rule), "{path}: {rule} not in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    assert_eq!(page.header(header::CACHE_CONTROL), "no-store", "{path}");
    for (attributes, text) in elements(&page.text, "script") {
        match attributes.contains("type=\"application/json\"") {
            true => drop(serde_json::from_str::<Value>(text).unwrap()),
            false => {
                assert!(
                    attributes.contains(" src=\"/assets/"),
                    "{path}: {attributes}"
                );
                assert_eq!(text, "", "{path}: an inline script");
            }
        }
    }
    for (_, style) in elements(&page.text, "style") {
        let hash = BASE64_STANDARD.encode(Sha256::digest(style));
        assert!(
            policy.contains(&format!("'sha256-{hash}'")),
            "{path}: a style is not allowed"
        );
    }
    // Inline event handlers and style attributes are not allowed.
    for tag in page.text.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        // Names are outside of quotes: a value may have any text.
        let unquoted: String = tag.split('"').step_by(2).collect();
        let names = unquoted.split_ascii_whitespace().skip(1);
        let names = names.filter_map(|part| part.split_once('=').map(|(name, _)| name));
        for name in names {
            assert!(
                !name.starts_with("on") && name != "style",
                "{path}: <{tag}>"
            );
        }
        assert!(!tag.contains("javascript:"), "{path}: <{tag}>");
    }
    // Titles of campaigns remain text.
    assert!(
        !page.text.contains("alert(1)</script>"),
        "{path}: a title became an element"
    );
    assert!(
        !page.text.contains("<img src=x"),
        "{path}: a title became an element"
    );
}

/// Checks the files that a page names, and the files that these import.
async fn assert_files(path: &str, page: &Page) {
    let named = ["src", "href"].map(|name| attributes(&page.text, name));
    let named = named.into_iter().flatten();
    let mut files: Vec<String> = named.filter(|url| url.starts_with("/assets/")).collect();
    assert!(files.len() >= 2, "{path} names {files:?}");
    let mut seen = BTreeSet::new();
    while let Some(url) = files.pop() {
        if !seen.insert(url.clone()) {
            continue;
        }
        let file = get(&url, None).await;
        assert_eq!(file.status, StatusCode::OK, "{path}: {url}");
        let caching = file.header(header::CACHE_CONTROL);
        assert!(caching.contains("immutable"), "{path}: {url}: {caching}");
        let kind = match url.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(file.header(header::CONTENT_TYPE), kind, "{path}: {url}");
        let folder = &url[..=url.rfind('/').unwrap()];
        let imports = file
            .text
            .split("from \"./")
            .chain(file.text.split("import(\"./"));
        let imports = imports.filter(|part| part.split('"').next().unwrap().ends_with(".js"));
        files.extend(imports.map(|part| format!("{folder}{}", part.split('"').next().unwrap())));
    }
}

#[tokio::test]
async fn every_page_is_there_and_runs_nothing_but_its_files() {
    let paths = paths();
    for known in ["/", "/send", "/packets", "/admin/live", "/sign-in"] {
        assert!(
            paths.iter().any(|path| path == known),
            "{known} not in {paths:?}"
        );
    }
    let mut links = BTreeSet::new();
    for language in LANGUAGES {
        for path in &paths {
            let asked = format!("{path}?language={language}");
            let page = get(&asked, Some("claim+send+admin+read:any+campaigns:write")).await;
            assert_eq!(page.status, StatusCode::OK, "{path}");
            if path.ends_with(".svg") {
                assert_eq!(page.header(header::CONTENT_TYPE), "image/svg+xml", "{path}");
                continue;
            }
            assert!(
                page.header(header::CONTENT_TYPE).starts_with("text/html"),
                "{path}"
            );
            assert!(
                page.text.contains(&format!("<html lang=\"{language}\">")),
                "{path}"
            );
            // Placeholders that a template could not fill in.
            assert!(
                !page.text.contains("{{") && !page.text.contains("{%"),
                "{path}"
            );
            assert_safe(path, &page);
            assert_files(path, &page).await;
            links.extend(attributes(&page.text, "href"));
        }
    }
    // Every link of a page leads to a page that exists.
    for link in links {
        if link.starts_with('/') && !link.starts_with("/assets/") {
            let page = get(&link, Some("claim+send+admin+read:any+campaigns:write")).await;
            assert_eq!(page.status, StatusCode::OK, "{link}");
        }
    }
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_shown_what_is_for_everybody_and_signs_in_for_the_rest() {
    for path in paths() {
        let page = get(&path, None).await;
        let is_open = ["/p/", "/s/", "/sign-in"]
            .iter()
            .any(|it| path.starts_with(it));
        if is_open || path == "/" {
            assert_eq!(page.status, StatusCode::OK, "{path}");
        } else {
            assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
            let there = page.header(header::LOCATION);
            assert_eq!(there, format!("/sign-in?then={path}"));
        }
        assert!(
            page.headers.contains_key(header::CONTENT_SECURITY_POLICY),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_sign_in_leads_to_no_other_site() {
    let target = async |then: &str| {
        let page = get(&format!("/sign-in?then={then}"), None).await;
        assert_eq!(page.status, StatusCode::OK, "{then}");
        let values = attributes(&page.text, "value");
        (values.contains("/"), page.text.contains("evil.example"))
    };
    for then in [
        "//evil.example",
        "/%09/evil.example",
        "/%0a/evil.example",
        "/%5Cevil.example",
        "https://evil.example",
    ] {
        assert_eq!(target(then).await, (true, false), "{then}");
    }
}

/// The desk says what a pause does not stop.
#[tokio::test]
async fn a_pause_is_explained_beside_its_button() {
    let page = get(
        &format!("/admin/sales/{ID}"),
        Some("campaigns:write:any+read:any"),
    )
    .await;
    assert_eq!(page.status, StatusCode::OK);
    let words = "Unpaid orders can still be paid and expire as usual";
    assert!(page.text.contains("aria-describedby=\"pause-help\""));
    assert!(page.text.contains(words), "{}", page.text);
}

#[tokio::test]
async fn a_page_that_scopes_do_not_reach_says_so_and_shows_nothing() {
    let admin = paths()
        .into_iter()
        .filter(|path| path.starts_with("/admin"));
    for path in admin.collect::<Vec<_>>() {
        let page = get(&path, Some("claim+send")).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        assert_safe(&path, &page);
        assert_files(&path, &page).await;
        assert!(!page.text.contains("desk-nav"), "{path}");
    }
    // Each set of scopes lacks what one page of the desk needs, so no page links to that one.
    for (scopes, lacking) in [
        ("read:any", "/admin/sales/new"),
        ("campaigns:write", "/admin/live"),
        ("read:any+campaigns:write", "/admin/operation"),
    ] {
        let page = get(lacking, Some(scopes)).await;
        assert_eq!(page.status, StatusCode::OK, "{lacking}");
        assert!(page.text.contains("id=\"lacks\""), "{lacking}");
        let links = attributes(&page.text, "href");
        assert!(!links.contains(lacking), "{lacking}: {links:?}");
    }
}

/// Sellers choose the payments of another amount that they accept. Their page and the buyers' page show the choice,
/// in the requested language.
#[tokio::test]
async fn the_payment_policy_of_a_sale_is_offered_and_shown() {
    let scopes = Some("campaigns:write+campaigns:write:any");
    let form = get("/admin/sales/new", scopes).await;
    let options = elements(&form.text, "option");
    for policy in ["owed", "accept_over", "accept_with_tolerance"] {
        let value = format!("value=\"{policy}\"");
        let found = options
            .iter()
            .filter(|(attributes, _)| attributes.contains(&value));
        assert_eq!(found.count(), 1, "{policy}");
    }
    for (language, offered, desk, shop) in [
        (
            "en",
            ">Refund<",
            "Accept small differences (± ¥0.05)",
            "up to ¥0.05 above or below",
        ),
        (
            "zh",
            "一律退款",
            "接受小额差异 (± ¥0.05)",
            "相差不超过 ¥0.05",
        ),
        (
            "zh-TW",
            "一律退款",
            "接受小額差異 (± ¥0.05)",
            "相差 ¥0.05 以內",
        ),
        (
            "ja",
            "返金する",
            "少額の差を受け付ける (± ¥0.05)",
            "差が ¥0.05 以内",
        ),
    ] {
        let form = get(&format!("/admin/sales/new?language={language}"), scopes).await;
        assert!(form.text.contains(offered), "{language}");
        let own = get(&format!("/admin/sales/{ID}?language={language}"), scopes).await;
        assert!(own.text.contains(desk), "{language}");
        let public = get(&format!("/s/{ID}?language={language}"), None).await;
        assert!(public.text.contains(shop), "{language}");
    }
}
