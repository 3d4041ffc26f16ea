//! Operators' desk: finding, opening, watching and operating campaigns through the public API.

use askama::Template;
use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::{
    PageState, assets,
    covers::CoverLook,
    desk_texts::Texts,
    language::Language,
    money::money,
    next_path,
    session::{is_operator, may, scopes},
    views::{EmptyView, Frame, PageRequest, plain, text},
};

/// Navigation of the desk: the links that the operator may use, and the style.
struct Nav {
    style: &'static str,
    /// Path of the current page.
    here: String,
    sees_all: bool,
    may_open: bool,
    may_send: bool,
    may_operate: bool,
}

impl Nav {
    fn new(session: &Value, here: &str) -> Self {
        Self {
            style: assets::DESK_STYLE,
            here: here.to_owned(),
            sees_all: may(session, "read:any"),
            may_open: may(session, "campaigns:write"),
            may_send: may(session, "send"),
            may_operate: may(session, "admin"),
        }
    }

    /// Attribute that marks the link to the current page.
    fn mark(&self, path: &str) -> &'static str {
        match self.here == path {
            true => " aria-current=\"page\"",
            false => "",
        }
    }
}

#[derive(Template)]
#[template(path = "desk.html")]
struct CampaignsPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    scopes: Vec<&'a str>,
}

#[derive(Template)]
#[template(path = "desk_sale.html")]
struct NewSalePage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    /// Text that names the missing scope, if one is missing.
    lacks: Option<String>,
}

#[derive(Template)]
#[template(path = "desk_import.html")]
struct ImportSalesPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    /// Text that names the missing scope, if one is missing.
    lacks: Option<String>,
}

#[derive(Template)]
#[template(path = "desk_packet.html")]
struct NewPacketPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    /// Text that names the missing scope, if one is missing.
    lacks: Option<String>,
    greeting: &'static str,
    covers: Vec<CoverLook>,
}

#[derive(Template)]
#[template(path = "desk_lookup.html")]
struct LookupPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
}

#[derive(Template)]
#[template(path = "desk_operation.html")]
struct OperationPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    /// Text that names the missing scope, if one is missing.
    lacks: Option<String>,
}

#[derive(Template)]
#[template(path = "desk_live.html")]
struct LivePage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    /// Text that names the missing scope, if one is missing.
    lacks: Option<String>,
}

#[derive(Template)]
#[template(path = "desk_campaign.html")]
struct CampaignPage<'a> {
    frame: &'a Frame,
    desk: &'a Texts,
    nav: Nav,
    campaign: &'a Value,
    owner: &'a str,
    /// Path of its public page.
    page: String,
    is_sale: bool,
    /// Payments of another amount that a sale accepts.
    policy: Option<String>,
    /// Text that names the missing scope, if the operator may not operate the campaign.
    lacks: Option<String>,
    sees_actions: bool,
    /// Whether the operator may read the campaign's grants.
    sees_life: bool,
}

/// Frame of an operator's page, with the texts of the desk for its script.
fn frame(
    asked: &PageRequest,
    headers: &HeaderMap,
    session: &Value,
    mut facts: Value,
) -> (Frame, &'static Texts) {
    let texts = Texts::for_language(Language::of(asked.language.as_deref(), headers));
    facts["desk"] = json!(texts);
    (Frame::new(asked, headers, session, facts), texts)
}

/// A sale's payment policy, with its tolerance.
fn policy_of(sale: &Value, desk: &Texts) -> String {
    match text(sale, "payment_policy") {
        "accept_over" => desk.policy_accept_over.to_owned(),
        "accept_with_tolerance" => {
            let tolerance = money(&sale["payment_tolerance"]);
            format!("{} (± {tolerance})", desk.policy_accept_with_tolerance)
        }
        _ => desk.policy_owed.to_owned(),
    }
}

impl PageState {
    /// Session of an operator; for other visitors the answer to send instead.
    async fn operator(
        &self,
        asked: &PageRequest,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<Value, Response> {
        let session = self.session(headers).await;
        if session["user"].is_null() {
            return Err(next_path::sign_in_first(path).into_response());
        }
        if is_operator(&session) {
            return Ok(session);
        }
        let frame = Frame::new(asked, headers, &session, Value::Null);
        let texts = Texts::for_language(frame.language);
        let has = match scopes(&session).join(", ") {
            none if none.is_empty() => texts.no_scopes.to_owned(),
            some => some,
        };
        let page = EmptyView {
            frame: &frame,
            title: texts.for_operators,
            help: &texts.for_operators_help.replace("{scopes}", &has),
        };
        Err(frame.answer(&page, StatusCode::FORBIDDEN))
    }

    /// The page of one campaign.
    async fn campaign(
        &self,
        is_sale: bool,
        id: &str,
        asked: &PageRequest,
        headers: &HeaderMap,
    ) -> Result<Response, Response> {
        let (kind, letter, owner, scope) = match is_sale {
            true => ("sales", "s", "seller", "campaigns:write"),
            false => ("red-packets", "p", "sender", "send"),
        };
        let id = plain(id);
        let path = format!("/admin/{}/{id}", if is_sale { "sales" } else { "packets" });
        let session = self.operator(asked, headers, &path).await?;
        let answer = self.api.get(&format!("/v1/{kind}/{id}"), headers).await;
        if !answer.status.is_success() {
            return Err(self.instead(asked, headers, &path, &answer).await);
        }
        let (campaign, sees_actions) = (answer.body, may(&session, "read:any"));
        let owner = text(&campaign, owner);
        let needed = match owner == text(&session, "user") {
            true => scope,
            false => "campaigns:write:any",
        };
        let leads = may(&session, needed) || may(&session, "campaigns:write:any");
        let sees_life = sees_actions || owner == text(&session, "user");
        let facts = json!({ "campaign": campaign, "leads": leads, "sees_life": sees_life });
        let (frame, desk) = frame(asked, headers, &session, facts);
        let page = CampaignPage {
            frame: &frame,
            desk,
            nav: Nav::new(&session, &path),
            owner,
            page: format!("/{letter}/{id}"),
            is_sale,
            policy: is_sale.then(|| policy_of(&campaign, desk)),
            lacks: (!leads).then(|| desk.not_you.replace("{scope}", needed)),
            sees_actions,
            sees_life,
            campaign: &campaign,
        };
        Ok(frame.answer(&page, StatusCode::OK))
    }
}

pub(crate) async fn campaigns(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let session = pages.operator(&asked, &headers, "/admin").await?;
    let nav = Nav::new(&session, "/admin");
    let facts = json!({ "sees_all": nav.sees_all });
    let (frame, desk) = frame(&asked, &headers, &session, facts);
    let page = CampaignsPage {
        frame: &frame,
        desk,
        nav,
        scopes: scopes(&session),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn new_sale(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let path = "/admin/sales/new";
    let session = pages.operator(&asked, &headers, path).await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let scope = "campaigns:write";
    let page = NewSalePage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, path),
        lacks: (!may(&session, scope)).then(|| desk.not_you.replace("{scope}", scope)),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn import(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let path = "/admin/sales/import";
    let session = pages.operator(&asked, &headers, path).await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let scope = "campaigns:write";
    let page = ImportSalesPage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, path),
        lacks: (!may(&session, scope)).then(|| desk.not_you.replace("{scope}", scope)),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn new_packet(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let path = "/admin/packets/new";
    let session = pages.operator(&asked, &headers, path).await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let scope = "send";
    let page = NewPacketPage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, path),
        lacks: (!may(&session, scope)).then(|| desk.not_you.replace("{scope}", scope)),
        greeting: frame.texts.greeting_default,
        covers: CoverLook::all().collect(),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn lookup(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let path = "/admin/lookup";
    let session = pages.operator(&asked, &headers, path).await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let page = LookupPage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, path),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn live(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let session = pages.operator(&asked, &headers, "/admin/live").await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let scope = "read:any";
    let page = LivePage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, "/admin/live"),
        lacks: (!may(&session, scope)).then(|| desk.not_you.replace("{scope}", scope)),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn operation(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let session = pages.operator(&asked, &headers, "/admin/operation").await?;
    let (frame, desk) = frame(&asked, &headers, &session, json!({}));
    let scope = "admin";
    let page = OperationPage {
        frame: &frame,
        desk,
        nav: Nav::new(&session, "/admin/operation"),
        lacks: (!may(&session, scope)).then(|| desk.not_you.replace("{scope}", scope)),
    };
    Ok(frame.answer(&page, StatusCode::OK))
}

pub(crate) async fn sale(
    State(pages): State<PageState>,
    Path(id): Path<String>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    pages.campaign(true, &id, &asked, &headers).await
}

pub(crate) async fn packet(
    State(pages): State<PageState>,
    Path(id): Path<String>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Result<Response, Response> {
    pages.campaign(false, &id, &asked, &headers).await
}
