//! Details of a campaign: texts that users see, and the product that groups campaigns. They do not affect decisions,
//! are stored in the ledger alone, and may change at any time.

use std::{fmt, str::FromStr};

use super::{CampaignError, Cover, check_title, is_blank, is_control};
use crate::id::ProductId;

/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 4_096;
/// The longest URL of an image, in characters.
pub const IMAGE_URL_CHARS_MAX: usize = 2_048;

/// Description of a product: 1 to 4,096 characters, with line breaks but no other control characters. Line breaks of
/// two characters (CRLF, as HTML forms send them) are stored as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description(String);

impl FromStr for Description {
    type Err = CampaignError;
    fn from_str(text: &str) -> Result<Self, CampaignError> {
        let text = text.replace("\r\n", "\n");
        let is_odd = |character: char| is_control(character) && character != '\n';
        let is_good = text.chars().count() <= DESCRIPTION_CHARS_MAX && !text.chars().all(is_blank);
        match is_good && !text.contains(is_odd) {
            true => Ok(Self(text)),
            false => Err(CampaignError::Description),
        }
    }
}

/// URL of a picture: `https://…`, or a path of the shop's own site, which begins with `/`. 1 to 2,048 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUrl(String);

impl FromStr for ImageUrl {
    type Err = CampaignError;
    fn from_str(text: &str) -> Result<Self, CampaignError> {
        // The characters of RFC 3986 except the apostrophe: no such character ends an HTML attribute or a header line.
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&()*+,;=%".contains(&byte);
        let is_good = text.len() <= IMAGE_URL_CHARS_MAX && text.bytes().all(is_plain);
        let is_somewhere = match text.strip_prefix("https://") {
            Some(rest) => {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let is_of_host =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
                host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
                    && host.bytes().all(is_of_host)
            }
            // Two slashes would lead to another site.
            None => text.starts_with('/') && !text.starts_with("//"),
        };
        match is_good && is_somewhere {
            true => Ok(Self(text.to_owned())),
            false => Err(CampaignError::ImageUrl),
        }
    }
}

macro_rules! shown_as_text {
    ($($name:ident)*) => {$(
        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
shown_as_text!(Description ImageUrl);

/// Details of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The seller's id of the product. Campaigns of one product are its rounds.
    pub product_id: Option<ProductId>,
    /// Description of the product.
    pub description: Option<Description>,
    /// Picture of the product.
    pub image_url: Option<ImageUrl>,
    /// Cover of a red packet; `None` for the usual one. It never changes.
    pub cover: Option<Cover>,
}

}

/// A change of a campaign's details. `None` keeps a value, and `Some(None)` removes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetailsChange {
    /// The new title.
    pub title: Option<String>,
    /// See [`Details::product_id`].
    pub product_id: Option<Option<ProductId>>,
    /// See [`Details::description`].
    pub description: Option<Option<Description>>,
    /// See [`Details::image_url`].
    pub image_url: Option<Option<ImageUrl>>,
}

impl DetailsChange {
    /// Checks rules that the types of the fields do not ensure.
    ///
    /// # Errors
    /// [`CampaignError::Title`], [`CampaignError::TitleControl`].
    pub fn check(&self) -> Result<(), CampaignError> {
        self.title.as_deref().map_or(Ok(()), check_title)
    }

    /// Whether the title and the details already have all new values.
    pub fn is_in(&self, title: &str, details: &Details) -> bool {
        fn same<T: PartialEq>(wanted: Option<&Option<T>>, is: &Option<T>) -> bool {
            wanted.is_none_or(|wanted| wanted == is)
        }
        self.title.as_deref().is_none_or(|wanted| wanted == title)
            && same(self.product_id.as_ref(), &details.product_id)
            && same(self.description.as_ref(), &details.description)
            && same(self.image_url.as_ref(), &details.image_url)
    }

    /// Column values for `title`, `product_id`, `description` and `image_url`: `None` keeps the column, and an empty
    /// text clears it.
    pub fn columns(&self) -> [Option<&str>; 4] {
        fn text<T>(change: Option<&Option<T>>, text: fn(&T) -> &str) -> Option<&str> {
            change.map(|to| to.as_ref().map_or("", text))
        }
        [
            self.title.as_deref(),
            text(self.product_id.as_ref(), ProductId::as_str),
            text(self.description.as_ref(), Description::as_str),
            text(self.image_url.as_ref(), ImageUrl::as_str),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_on_https_or_on_the_own_site() {
        let check = |text: &str, good: bool| {
            assert_eq!(text.parse::<ImageUrl>().is_ok(), good, "{text}");
        };
        check("https://cdn.example.com/a/b.webp?w=800&h=600#x", true);
        check("https://[2001:db8::1]:8443/a.png", true);
        check("https://example.com", true);
        check("/images/phone-10.png", true);
        check("/", true);
        check("", false);
        check("http://example.com/a.png", false);
        check("HTTPS://example.com/a.png", false);
        check("//example.com/a.png", false);
        check("images/a.png", false);
        check("javascript:alert(1)", false);
        check("data:image/png;base64,AAAA", false);
        check("https://", false);
        check("https:///a.png", false);
        check("https://user:secret@example.com/a.png", false);
        check("https://example.com/a b.png", false);
        check("/a\".png", false);
        check("/\\example.com", false);
        check("/图.png", false);
        let path = |length: usize| "/".to_owned() + &"a".repeat(length - 1);
        check(&path(IMAGE_URL_CHARS_MAX), true);
        check(&path(IMAGE_URL_CHARS_MAX + 1), false);
    }

    #[test]
    fn a_description_has_lines_and_an_end() {
        let check = |text: &str, good: bool| {
            assert_eq!(text.parse::<Description>().is_ok(), good, "{text:?}");
        };
        check("手机\n黑色, 256 GB", true);
        check(&"字".repeat(DESCRIPTION_CHARS_MAX), true);
        check(&"字".repeat(DESCRIPTION_CHARS_MAX + 1), false);
        check("手机\r\n黑色", true);
        let lines = "a\r\nb\n".parse::<Description>().map(|it| it.to_string());
        assert_eq!(lines, Ok("a\nb\n".to_owned()), "a break is one character");
        check("a\rb", false);
        check("", false);
        check("a\u{1b}[2J", false);
        check("a\0", false);
    }

    #[test]
    fn a_change_says_what_stays_and_what_goes() {
        let change = DetailsChange {
            title: Some("new".to_owned()),
            description: Some(None),
            image_url: Some("/a.png".parse().ok()),
            ..DetailsChange::default()
        };
        let columns = [Some("new"), None, Some(""), Some("/a.png")];
        assert_eq!(change.columns(), columns);
        assert_eq!(change.check(), Ok(()));
        let change = DetailsChange {
            title: Some(String::new()),
            ..change
        };
        assert_eq!(change.check(), Err(CampaignError::Title));
    }
}
