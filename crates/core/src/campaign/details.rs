//! Details of a campaign: texts that users see, and the product that groups campaigns. They do not affect decisions,
//! are stored in the ledger alone, and may change at any time.

use std::{fmt, str::FromStr};

use super::{CampaignError, Cover, STOCK_PRICE_MINOR_MAX, check_title, is_blank, is_control};
use crate::id::ProductId;

/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 4_096;
/// The longest URL of an image, in characters.
pub const IMAGE_URL_CHARS_MAX: usize = 2_048;
/// Most pictures of a gallery.
pub const GALLERY_MAX: usize = 8;

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

/// Further pictures of a product, in their order: 1 to 8 URLs. As text, each is on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gallery(String);

impl Gallery {
    /// Gallery of these pictures.
    ///
    /// # Errors
    /// [`CampaignError::Gallery`] if there are none or too many.
    pub fn new(urls: &[ImageUrl]) -> Result<Self, CampaignError> {
        if urls.is_empty() || urls.len() > GALLERY_MAX {
            return Err(CampaignError::Gallery);
        }
        let urls: Vec<_> = urls.iter().map(ImageUrl::as_str).collect();
        Ok(Self(urls.join("\n")))
    }

    /// URLs of the pictures.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }
}

impl FromStr for Gallery {
    type Err = CampaignError;
    fn from_str(text: &str) -> Result<Self, CampaignError> {
        let urls: Result<Vec<_>, _> = text.lines().map(str::parse).collect();
        Self::new(&urls?)
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
shown_as_text!(Description Gallery ImageUrl);

/// Details of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The seller's id of the product. Campaigns of one product are its rounds.
    pub product_id: Option<ProductId>,
    /// Description of the product.
    pub description: Option<Description>,
    /// Picture of the product.
    pub image_url: Option<ImageUrl>,
    /// Further pictures of the product.
    pub gallery: Option<Gallery>,
    /// List price of a unit in minor units of the sale's currency: buyers see the difference. Orders do not depend on
    /// it.
    pub list_price_minor: Option<i64>,
    /// Cover of a red packet; `None` for the usual one. It never changes.
    pub cover: Option<Cover>,
}

/// Checks that a list price is above the price of a unit, and within the bounds of amounts.
///
/// # Errors
/// [`CampaignError::ListPrice`].
pub fn check_list_price(list_minor: i64, unit_minor: i64) -> Result<(), CampaignError> {
    match list_minor > unit_minor && list_minor <= STOCK_PRICE_MINOR_MAX {
        true => Ok(()),
        false => Err(CampaignError::ListPrice),
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
    /// See [`Details::gallery`].
    pub gallery: Option<Option<Gallery>>,
    /// See [`Details::list_price_minor`].
    pub list_price_minor: Option<Option<i64>>,
}

/// Column values of a change: `None` keeps a column, and an empty text or 0 clears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetailsColumns<'a> {
    /// Title of the campaign.
    pub title: Option<&'a str>,
    /// Column of [`Details::product_id`].
    pub product_id: Option<&'a str>,
    /// Column of [`Details::description`].
    pub description: Option<&'a str>,
    /// Column of [`Details::image_url`].
    pub image_url: Option<&'a str>,
    /// Column of [`Details::gallery`].
    pub gallery: Option<&'a str>,
    /// Column of [`Details::list_price_minor`].
    pub list_price: Option<i64>,
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
            && same(self.gallery.as_ref(), &details.gallery)
            && same(self.list_price_minor.as_ref(), &details.list_price_minor)
    }

    /// Column values of the change.
    pub fn columns(&self) -> DetailsColumns<'_> {
        fn text<T>(change: Option<&Option<T>>, text: fn(&T) -> &str) -> Option<&str> {
            change.map(|to| to.as_ref().map_or("", text))
        }
        DetailsColumns {
            title: self.title.as_deref(),
            product_id: text(self.product_id.as_ref(), ProductId::as_str),
            description: text(self.description.as_ref(), Description::as_str),
            image_url: text(self.image_url.as_ref(), ImageUrl::as_str),
            gallery: text(self.gallery.as_ref(), Gallery::as_str),
            list_price: self.list_price_minor.map(Option::unwrap_or_default),
        }
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
    fn gallery_has_one_to_eight_pictures_in_order() {
        let url = |n: usize| format!("/{n}.png").parse::<ImageUrl>().unwrap();
        for (count, good) in [
            (0, false),
            (1, true),
            (GALLERY_MAX, true),
            (GALLERY_MAX + 1, false),
        ] {
            let urls: Vec<_> = (0..count).map(url).collect();
            let gallery = Gallery::new(&urls);
            assert_eq!(gallery.is_ok(), good, "{count}");
            if let Ok(gallery) = gallery {
                assert!(gallery.urls().eq(urls.iter().map(ImageUrl::as_str)));
                assert_eq!(gallery.as_str().parse(), Ok(gallery.clone()));
            }
        }
        assert_eq!(
            "/a.png\nb.png".parse::<Gallery>(),
            Err(CampaignError::ImageUrl)
        );
        assert_eq!("".parse::<Gallery>(), Err(CampaignError::Gallery));
    }

    #[test]
    fn list_price_is_above_the_price() {
        let check = |list, unit, good| assert_eq!(check_list_price(list, unit).is_ok(), good);
        check(2, 1, true);
        check(1, 0, true);
        check(1, 1, false);
        check(0, 0, false);
        check(STOCK_PRICE_MINOR_MAX, 1, true);
        check(STOCK_PRICE_MINOR_MAX + 1, 1, false);
    }

    #[test]
    fn a_change_says_what_stays_and_what_goes() {
        let change = DetailsChange {
            title: Some("new".to_owned()),
            description: Some(None),
            image_url: Some("/a.png".parse().ok()),
            list_price_minor: Some(None),
            ..DetailsChange::default()
        };
        let columns = DetailsColumns {
            title: Some("new"),
            product_id: None,
            description: Some(""),
            image_url: Some("/a.png"),
            gallery: None,
            list_price: Some(0),
        };
        assert_eq!(change.columns(), columns);
        assert_eq!(change.check(), Ok(()));
        let change = DetailsChange {
            title: Some(String::new()),
            ..change
        };
        assert_eq!(change.check(), Err(CampaignError::Title));
    }
}
