//! Styles and scripts. Styles are inline. Other files have URLs with a hash of their contents, so that browsers may
//! keep them forever.

use std::sync::LazyLock;

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{covers::CoverLook, language::Language, money};

/// Style of all pages.
pub(crate) static STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/qiang.css")));
/// Additional style of the first page.
pub(crate) static HOME_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/home.css")));
/// Additional style of the page of a red packet.
pub(crate) static PACKET_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/packet.css")));
/// Style of cards of sales.
pub(crate) static DEAL_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/deals.css")));
/// Style of all covers of red packets.
pub(crate) static COVER_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/cover.css")));
/// Styles of single covers, by their names: a packet's page has one.
pub(crate) static COVER_STYLES: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let style_of = |name: &str| {
        let own = format!(".cover-{name}{{");
        let is_own = |line: &&str| !line.starts_with(".cover-") || line.starts_with(&own);
        let lines: Vec<_> = COVER_STYLE.lines().filter(is_own).collect();
        lines.join("\n")
    };
    let covers = CoverLook::all().map(|cover| (cover.name, style_of(cover.name)));
    covers.collect()
});
/// Additional style of the form for red packets.
pub(crate) static SEND_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/send.css")));
/// Additional style of the page of a sale.
pub(crate) static SALE_STYLE: LazyLock<String> =
    LazyLock::new(|| slim_style(include_str!("../assets/sale.css")));
/// Additional style of the desk's pages.
pub(crate) const DESK_STYLE: &str = include_str!("../assets/desk.css");

/// Style of one cover.
pub(crate) fn cover_style(cover: CoverLook) -> &'static str {
    let found = COVER_STYLES.iter().find(|(name, _)| *name == cover.name);
    found.map_or("", |(_, style)| style)
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Picture of a red packet for previews of links.
const COVER: &[u8] = include_bytes!("../assets/cover.png");

/// Names, media types and contents.
const FILES: [(&str, &str, &str); 33] = [
    ("qiang.js", SCRIPT, include_str!("../assets/qiang.js")),
    ("chart.js", SCRIPT, include_str!("../assets/chart.js")),
    ("calendar.js", SCRIPT, include_str!("../assets/calendar.js")),
    ("csv.js", SCRIPT, include_str!("../assets/csv.js")),
    ("plot.js", SCRIPT, include_str!("../assets/plot.js")),
    (
        "desk-live.js",
        SCRIPT,
        include_str!("../assets/desk-live.js"),
    ),
    (
        "desk-import.js",
        SCRIPT,
        include_str!("../assets/desk-import.js"),
    ),
    (
        "desk-templates.js",
        SCRIPT,
        include_str!("../assets/desk-templates.js"),
    ),
    (
        "desk-life.js",
        SCRIPT,
        include_str!("../assets/desk-life.js"),
    ),
    (
        "desk-orders.js",
        SCRIPT,
        include_str!("../assets/desk-orders.js"),
    ),
    (
        "desk-actions.js",
        SCRIPT,
        include_str!("../assets/desk-actions.js"),
    ),
    (
        "desk-lookup.js",
        SCRIPT,
        include_str!("../assets/desk-lookup.js"),
    ),
    (
        "desk-operation.js",
        SCRIPT,
        include_str!("../assets/desk-operation.js"),
    ),
    ("desk.js", SCRIPT, include_str!("../assets/desk.js")),
    (
        "desk-campaign.js",
        SCRIPT,
        include_str!("../assets/desk-campaign.js"),
    ),
    (
        "desk-sale.js",
        SCRIPT,
        include_str!("../assets/desk-sale.js"),
    ),
    (
        "desk-packet.js",
        SCRIPT,
        include_str!("../assets/desk-packet.js"),
    ),
    ("orders.js", SCRIPT, include_str!("../assets/orders.js")),
    ("packet.js", SCRIPT, include_str!("../assets/packet.js")),
    ("sale.js", SCRIPT, include_str!("../assets/sale.js")),
    ("send.js", SCRIPT, include_str!("../assets/send.js")),
    ("sign-in.js", SCRIPT, include_str!("../assets/sign-in.js")),
    ("split.js", SCRIPT, include_str!("../assets/split.js")),
    ("home.js", SCRIPT, include_str!("../assets/home.js")),
    ("joy.js", SCRIPT, include_str!("../assets/joy.js")),
    ("poster.js", SCRIPT, include_str!("../assets/poster.js")),
    ("proof.js", SCRIPT, include_str!("../assets/proof.js")),
    ("icon.svg", SVG, include_str!("../assets/icon.svg")),
    // Products of the sample shop.
    ("phone.svg", SVG, include_str!("../assets/shop/phone.svg")),
    ("lamp.svg", SVG, include_str!("../assets/shop/lamp.svg")),
    ("tea.svg", SVG, include_str!("../assets/shop/tea.svg")),
    (
        "headphones.svg",
        SVG,
        include_str!("../assets/shop/headphones.svg"),
    ),
    ("mug.svg", SVG, include_str!("../assets/shop/mug.svg")),
];

/// Main scripts of the pages of buyers and senders.
const SAYING: [&str; 7] = [
    "home.js",
    "orders.js",
    "packet.js",
    "qiang.js",
    "sale.js",
    "send.js",
    "sign-in.js",
];

/// Files as sent: without comments and indents, which are a third of them, and with the tables of currencies.
static SENT: LazyLock<Vec<(&str, &str, String)>> = LazyLock::new(|| {
    let files = FILES.into_iter();
    files
        .map(|(name, kind, text)| (name, kind, with_tables(&slim(text))))
        .collect()
});

/// A script with the tables of currencies in their places.
fn with_tables(script: &str) -> String {
    without_types(script)
        .replace("{digits of currencies}", &money::digits_for_scripts())
        .replace("{signs of currencies}", &money::signs_for_scripts())
}

/// A style without comment lines, indents, and spaces around signs.
fn slim_style(text: &str) -> String {
    let signs = [
        (": ", ":"),
        ("; ", ";"),
        (" {", "{"),
        ("{ ", "{"),
        (" }", "}"),
        (", ", ","),
    ];
    let slim = slim(text);
    signs
        .iter()
        .fold(slim, |slim, (long, short)| slim.replace(long, short))
}

/// A script without the comments between its code, which have types.
fn without_types(script: &str) -> String {
    let mut parts = script.split("/** ");
    let mut code = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(" */") {
            Some((types, rest)) if !types.contains('\n') => {
                code.push_str(rest.trim_start_matches(' '))
            }
            _ => {
                code.push_str("/** ");
                code.push_str(part);
            }
        }
    }
    code
}

/// A style or a script without comment lines and indents.
fn slim(text: &str) -> String {
    let is_comment = |line: &str| line.starts_with("/*") && line.ends_with("*/");
    let mut slim = String::new();
    let mut in_comment = false;
    for line in text.lines().map(str::trim) {
        if in_comment {
            in_comment = !line.ends_with("*/");
        } else if line.starts_with("/*") && !line.contains("*/") {
            in_comment = true;
        } else if !(line.is_empty() || line.starts_with("//") || is_comment(line)) {
            slim.push_str(line);
            slim.push('\n');
        }
    }
    slim
}

/// Hash that changes with each change of a file.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (_, _, text) in &*SENT {
        hash.update(text);
    }
    hex::encode(&hash.finalize()[..6])
});

/// Version in the files' URLs.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// Texts that the pages of buyers and senders need in the browser: the ones that their scripts name.
static TEXTS: LazyLock<Vec<(&str, Language, Value)>> = LazyLock::new(|| {
    let all = SAYING.iter().flat_map(|script| {
        Language::ALL.map(|language| (*script, language, named_in(&scripts_of(script), language)))
    });
    all.collect()
});

/// Scripts that a page's main script may load.
fn scripts_of(script: &'static str) -> Vec<&'static str> {
    let more: &[&str] = match script {
        "sale.js" => &["calendar.js"],
        "packet.js" => &["joy.js", "poster.js", "proof.js"],
        _ => &[],
    };
    [&["qiang.js", script], more].concat()
}

fn named_in(scripts: &[&str], language: Language) -> Value {
    let files = FILES.iter().filter(|(name, _, _)| scripts.contains(name));
    let sources: Vec<&str> = files.map(|(_, _, text)| *text).collect();
    let mut texts = serde_json::to_value(language.texts()).unwrap_or_default();
    if let Value::Object(texts) = &mut texts {
        texts.retain(|name, _| {
            let quoted = format!("\"{name}\"");
            sources.iter().any(|source| source.contains(&quoted))
        });
    }
    texts
}

/// Texts that a script names.
pub(crate) fn texts_of(script: &str, language: Language) -> Value {
    let is_it = |(name, of, _): &&(&str, Language, Value)| *name == script && *of == language;
    let found = TEXTS.iter().find(is_it);
    found.map(|(_, _, texts)| texts.clone()).unwrap_or_default()
}

pub(crate) async fn get(Path((version, name)): Path<(String, String)>) -> Response {
    if name == "cover.png" {
        return sent("image/png", &version, Body::from(COVER));
    }
    let file = SENT.iter().find(|(known, _, _)| *known == name);
    let Some((_, media_type, text)) = file else {
        return StatusCode::NOT_FOUND.into_response();
    };
    sent(media_type, &version, Body::from(text.as_str()))
}

fn sent(media_type: &'static str, version: &str, body: Body) -> Response {
    // While nodes are replaced, pages of one node request files of another.
    let caching = match version == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "no-store",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indents_are_not_sent() {
        let text = "// @ts-check\n/**\n * What it does.\n */\nfunction f() {\n  /** @type {X} */\n  \
            const a = /** @type {X} */ (b); // why\n\n  /** @type {X} */ (c).d();\n}\n";
        let expected = "function f() {\nconst a = /** @type {X} */ (b); // why\n/** @type {X} */ (c).d();\n}\n";
        assert_eq!(slim(text), expected);
        let expected = "function f() {\nconst a = (b); // why\n(c).d();\n}\n";
        assert_eq!(without_types(&slim(text)), expected);
    }

    #[test]
    fn styles_have_no_spaces_around_signs() {
        let text = "/* Why. */\na, b:hover { margin: 0 auto; color: red; }\n@media (x: 1) { c > d { e: f } }\n";
        let expected = "a,b:hover{margin:0 auto;color:red;}\n@media (x:1){c > d{e:f}}\n";
        assert_eq!(slim_style(text), expected);
    }

    #[test]
    fn a_packet_has_the_colours_of_its_own_cover_only() {
        for (name, style) in &*COVER_STYLES {
            let others = style.matches(".cover-").count();
            assert_eq!(others, usize::from(*name != "classic"), "{name}");
            assert!(style.contains("--flap"), "{name}");
        }
    }

    #[test]
    fn scripts_are_sent_with_the_tables_of_currencies() {
        let (_, _, text) = SENT
            .iter()
            .find(|(name, _, _)| *name == "qiang.js")
            .unwrap();
        assert!(text.contains("|3 BHD ") && text.contains("CNY¥"), "{text}");
        assert!(!text.contains("of currencies}"), "{text}");
    }

    #[test]
    fn a_page_has_the_texts_that_its_script_says_and_no_others() {
        for script in SAYING {
            let texts = texts_of(script, Language::Chinese);
            let texts = texts.as_object().unwrap();
            let all = serde_json::to_value(Language::Chinese.texts()).unwrap();
            for name in scripts_of(script) {
                let (_, _, source) = FILES.iter().find(|(file, _, _)| *file == name).unwrap();
                for said in source.split("say(\"").skip(1) {
                    let said = said.split('"').next().unwrap();
                    assert_eq!(texts.get(said), all.get(said), "{script} says {said}");
                    assert!(texts.contains_key(said), "{script} says {said}");
                }
            }
            assert!(!texts.contains_key("home_title"), "{script}");
        }
    }
}
