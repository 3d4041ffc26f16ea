//! Identifiers. They are parsed once at the edge, and their types exclude invalid values.

use std::{fmt, str::FromStr};

use compact_str::CompactString;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};
use uuid::Uuid;

use crate::time::Timestamp;

/// The longest user id, in characters.
pub const USER_ID_CHARS_MAX: usize = 128;
/// The longest user id, in bytes of UTF-8.
pub const USER_ID_BYTES_MAX: usize = 4 * USER_ID_CHARS_MAX;
/// The longest idempotency key, in characters.
pub const KEY_CHARS_MAX: usize = 255;
/// The longest reference of a payment service, in characters.
pub const REFERENCE_CHARS_MAX: usize = 128;
/// The longest product id, in characters.
pub const PRODUCT_ID_CHARS_MAX: usize = 128;

/// Error of a text that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a UUID of version 7.
    #[error("a campaign id is a UUID of version 7, such as 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80")]
    CampaignId,
    /// Not `<campaign id>-<number>`.
    #[error("an order id is a campaign id, a dash and the order's number")]
    OrderId,
    /// The text is empty, too long, or contains characters that a user id may not have.
    #[error(
        "a user id is 1 to {USER_ID_CHARS_MAX} letters, digits, signs or emoji, without spaces and invisible characters"
    )]
    User,
    /// The text is empty, too long, or contains invisible characters.
    #[error("a {what} is 1 to {chars_max} visible ASCII characters without spaces")]
    Text {
        /// Kind of the expected text.
        what: &'static str,
        /// Maximum length, in characters.
        chars_max: usize,
    },
}

/// Id of a campaign: a UUID of version 7, so that ids sort by creation time. It is parsed with dashes, in upper or
/// lower case (RFC 9562, 4), and printed in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CampaignId(Uuid);

impl CampaignId {
    /// Checks that a UUID has version 7.
    ///
    /// # Errors
    /// [`IdError::CampaignId`] for any other version.
    pub fn new(uuid: Uuid) -> Result<Self, IdError> {
        (uuid.get_version_num() == 7)
            .then_some(Self(uuid))
            .ok_or(IdError::CampaignId)
    }

    /// The UUID.
    pub fn uuid(&self) -> Uuid {
        self.0
    }

    /// The UUID's 16 bytes, in network order.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Creation time in the id: the first 48 bits of a UUID of version 7 are milliseconds since 1970 (RFC 9562).
    pub fn made_at(&self) -> Timestamp {
        let millis = self.0.as_u128() >> 80;
        Timestamp::from_millis(millis as i64)
    }
}

impl FromStr for CampaignId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = Uuid::parse_str(text).ok().map(Self::new);
        let id = id.ok_or(IdError::CampaignId)??;
        // Braces and a missing dash are refused.
        let mut canonical = Uuid::encode_buffer();
        let canonical = id.0.hyphenated().encode_lower(&mut canonical);
        text.eq_ignore_ascii_case(canonical)
            .then_some(id)
            .ok_or(IdError::CampaignId)
    }
}

impl fmt::Display for CampaignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CampaignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Id of an order: the campaign and the grant's number in it, printed `<campaign id>-<number>`.
///
/// The number is part of the decision and of the log, so every replay shows the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId {
    /// The sale.
    pub campaign: CampaignId,
    /// The grant's number in the sale, from 1.
    pub number: u32,
}

impl FromStr for OrderId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let (campaign, number) = text.rsplit_once('-').ok_or(IdError::OrderId)?;
        let campaign = campaign.parse().map_err(|_| IdError::OrderId)?;
        // The numbers 0, +1 and 01 are refused.
        if number.starts_with(['0', '+']) {
            return Err(IdError::OrderId);
        }
        let number = number.parse().map_err(|_| IdError::OrderId)?;
        Ok(Self { campaign, number })
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.campaign, self.number)
    }
}

macro_rules! visible_text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $chars_max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(CompactString);

        impl $name {
            /// Parses the text.
            ///
            /// # Errors
            /// [`IdError::Text`] if it is empty, too long, or contains invisible characters.
            pub fn new(text: &str) -> Result<Self, IdError> {
                let visible = text.bytes().all(|b| b.is_ascii_graphic());
                if visible && (1..=$chars_max).contains(&text.len()) {
                    Ok(Self(CompactString::new(text)))
                } else {
                    Err(IdError::Text { what: $what, chars_max: $chars_max })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Id of a user, opaque to Qiang: 1 to 128 characters of Unicode in normalization form C, so that an id is the same
/// however a device composes it. Spaces, control characters and invisible ones are refused: they would break lines of
/// the log, or make two ids look the same. So are unassigned ones, because a later Unicode may normalize them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(CompactString);

impl UserId {
    /// Parses the text, and normalizes it.
    ///
    /// # Errors
    /// [`IdError::User`] if it is empty, too long, or contains a character that is refused.
    pub fn new(text: &str) -> Result<Self, IdError> {
        // Ids are mostly ASCII, which has one form, and are read for each row.
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return match (1..=USER_ID_CHARS_MAX).contains(&text.len()) {
                true => Ok(Self(CompactString::new(text))),
                false => Err(IdError::User),
            };
        }
        // A character has at most four in the longest form that normalizes to it.
        let is_short = text.chars().nth(4 * USER_ID_CHARS_MAX).is_none();
        if !is_short || !text.chars().all(is_in_user_id) {
            return Err(IdError::User);
        }
        let normal: CompactString = text.nfc().collect();
        match normal.chars().count() <= USER_ID_CHARS_MAX {
            true => Ok(Self(normal)),
            false => Err(IdError::User),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a user id may contain a character. A joiner and a variation selector are parts of emoji and of some scripts.
fn is_in_user_id(char: char) -> bool {
    const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
    use GeneralCategory::{
        Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, SpaceSeparator, Unassigned,
    };
    let refused = [
        Control,
        Format,
        LineSeparator,
        ParagraphSeparator,
        PrivateUse,
        SpaceSeparator,
        Unassigned,
    ];
    JOINERS.contains(&char) || !refused.contains(&char.general_category())
}

visible_text! {
    /// Value of the `Idempotency-Key` header: 1 to 255 visible ASCII characters, without spaces.
    IdempotencyKey, "idempotency key", KEY_CHARS_MAX
}
visible_text! {
    /// Reference of one payment at the payment service; two payments of one order have two references.
    PaymentRef, "payment reference", REFERENCE_CHARS_MAX
}
impl PaymentRef {
    /// Reference of the payment of an order that costs nothing, which no payment service has.
    #[must_use]
    pub fn for_free_order(order: OrderId) -> Self {
        Self(compact_str::format_compact!("free-{order}"))
    }
}

visible_text! {
    /// A shop's own number of a campaign or an order: 1 to 128 visible ASCII characters, without spaces.
    ShopReference, "reference", REFERENCE_CHARS_MAX
}
visible_text! {
    /// Id of a product, chosen by the seller: 1 to 128 visible ASCII characters, without spaces.
    ProductId, "product id", PRODUCT_ID_CHARS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_and_print() {
        let check = |text: &str, good: bool| {
            let parsed = text.parse::<OrderId>();
            assert_eq!(parsed.is_ok(), good, "{text}");
            if let Ok(id) = parsed {
                assert_eq!(id.to_string(), text);
            }
        };
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-1", true);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-4294967295", true);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-0", false);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-4294967296", false);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80", false);
        check("01932c07-8e5a-4a3c-9f1e-2b7c5d4e6f80-1", false); // version 4
        check("", false);
        // RFC 9562: upper case is parsed, lower case is printed.
        let capitals = "01932C07-8E5A-7A3C-9F1E-2B7C5D4E6F80-1";
        let id: OrderId = capitals.parse().unwrap();
        assert_eq!(id.to_string(), capitals.to_lowercase());
        // All other forms of an id are refused.
        check("{01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80}-1", false);
        check("01932c078e5a7a3c9f1e2b7c5d4e6f80-1", false);
        check("urn:uuid:01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-1", false);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-01", false);
        check("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-+1", false);
    }

    #[test]
    fn the_payment_of_a_free_order_is_a_reference() {
        let order = OrderId {
            campaign: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap(),
            number: u32::MAX,
        };
        let payment = PaymentRef::for_free_order(order);
        assert_eq!(payment.as_str(), format!("free-{order}"));
        assert_eq!(PaymentRef::new(payment.as_str()), Ok(payment));
    }

    #[test]
    fn users_have_names_of_any_script() {
        let max = USER_ID_CHARS_MAX;
        for good in [
            "a",
            "alice@example",
            "李雷",
            "小明",
            "Ælfrēd",
            "ʻOkina",
            "नमस्ते",
            "👩\u{200d}🚀",
            "❤\u{fe0f}",
            "ａ",
            "%",
            &"x".repeat(max),
            &"李".repeat(max),
            &"🚀".repeat(max),
            &"e\u{301}".repeat(max),
        ] {
            let user = UserId::new(good).unwrap_or_else(|_| panic!("{good:?}"));
            assert_eq!(
                UserId::new(user.as_str()),
                Ok(user.clone()),
                "{good:?} is normal"
            );
            assert!(user.as_str().len() <= USER_ID_BYTES_MAX);
        }
        for bad in [
            "",
            "a b",
            "a\n",
            "\u{0}",
            "\u{7f}",
            "李\u{3000}雷",
            "a\u{a0}",
            "\u{200b}",
            "\u{feff}a",
            "\u{202e}a",
            "\u{2066}a",
            "\u{2028}",
            "\u{ad}",
            "\u{e000}",
            "\u{378}",
            &"x".repeat(max + 1),
            &"李".repeat(max + 1),
            &"e\u{301}".repeat(max + 1),
        ] {
            assert_eq!(UserId::new(bad), Err(IdError::User), "{bad:?}");
        }
        // One id, however it is composed. Letters of another width or script are other ids.
        let user = |text: &str| UserId::new(text).unwrap();
        assert_eq!(user("e\u{301}va"), user("\u{e9}va"));
        assert_eq!(user("\u{1112}\u{1161}\u{11ab}"), user("한"));
        assert_ne!(user("ａ"), user("a"));
        assert_ne!(user("Ann"), user("ann"));
    }

    #[test]
    fn texts_are_visible_and_bounded() {
        let check =
            |text: &str, good: bool| assert_eq!(ProductId::new(text).is_ok(), good, "{text:?}");
        check("a", true);
        check(&"x".repeat(128), true);
        check("alice@example", true);
        check("", false);
        check(&"x".repeat(129), false);
        check("a b", false);
        check("a\n", false);
        check("李雷", false);
    }
}
