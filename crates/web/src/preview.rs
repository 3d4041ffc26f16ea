//! Previews of links in chats and feeds (Open Graph): title, words and picture, rendered by the service.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{assets, language::Texts, money::money};

/// Preview of a page's link.
pub(crate) struct LinkPreview {
    /// Scheme and host, if they are known.
    origin: Option<String>,
    path: String,
    title: String,
    words: String,
    /// Picture of the product; a cover of the service otherwise.
    image: Option<String>,
}

impl LinkPreview {
    pub(crate) fn of_packet(packet: &Value, texts: &Texts, origin: Option<String>) -> Self {
        Self {
            origin,
            path: format!("/p/{}", text(packet, "id")),
            title: text(packet, "title").to_owned(),
            words: texts
                .preview_packet
                .replace("{sender}", text(packet, "sender")),
            image: None,
        }
    }

    pub(crate) fn of_sale(sale: &Value, texts: &Texts, origin: Option<String>) -> Self {
        let price = money(&sale["unit_price"]);
        Self {
            origin,
            path: format!("/s/{}", text(sale, "id")),
            title: text(sale, "title").to_owned(),
            words: texts.preview_sale.replace("{price}", &price),
            image: sale["image_url"].as_str().map(str::to_owned),
        }
    }

    /// Elements of the page's head, with their values escaped.
    pub(crate) fn tags(&self) -> String {
        let mut tags = String::new();
        let mut tag = |name: &str, value: &str| {
            let value = escaped(value);
            // Writing into a string does not fail.
            let _ = writeln!(tags, "<meta property=\"{name}\" content=\"{value}\">");
        };
        tag("og:type", "website");
        tag("og:title", &self.title);
        tag("og:description", &self.words);
        if let Some(origin) = &self.origin {
            tag("og:url", &format!("{origin}{}", self.path));
            let cover = format!("/assets/{}/cover.png", assets::version());
            let image = self.image.as_ref().unwrap_or(&cover);
            match image.starts_with('/') {
                true => tag("og:image", &format!("{origin}{image}")),
                false => tag("og:image", image),
            }
        }
        // Links are for the people who have them, not for search engines.
        tags.push_str("<meta name=\"robots\" content=\"noindex\">\n");
        tags
    }
}

/// String field of an answer; empty if it is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

/// Text inside a quoted attribute.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::language::Language;

    #[test]
    fn a_preview_has_absolute_links_and_escapes_its_values() {
        let texts = Language::English.texts();
        let origin = || Some("https://qiang.example".to_owned());
        let packet = json!({ "id": "1", "title": "\"><script>", "sender": "ann" });
        let tags = LinkPreview::of_packet(&packet, texts, origin()).tags();
        assert!(
            tags.contains("content=\"&quot;&gt;&lt;script&gt;\""),
            "{tags}"
        );
        assert!(
            tags.contains("content=\"https://qiang.example/p/1\""),
            "{tags}"
        );
        let cover = "content=\"https://qiang.example/assets/";
        assert!(tags.contains(cover), "{tags}");
        let price = json!({ "amount": 9_900, "currency": "CNY" });
        for (image, expected) in [
            ("/tea.png", "https://qiang.example/tea.png"),
            ("https://cdn.example/tea.png", "https://cdn.example/tea.png"),
        ] {
            let sale =
                json!({ "id": "2", "title": "Tea", "unit_price": price, "image_url": image });
            let tags = LinkPreview::of_sale(&sale, texts, origin()).tags();
            assert!(tags.contains(&format!("content=\"{expected}\"")), "{tags}");
            assert!(tags.contains("¥99.00"), "{tags}");
        }
        // Without a host there is no absolute link.
        let tags = LinkPreview::of_packet(&packet, texts, None).tags();
        assert!(
            !tags.contains("og:url") && !tags.contains("og:image"),
            "{tags}"
        );
    }
}
