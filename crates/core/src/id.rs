//! Identifiers. They are parsed once at the edge, and their types exclude invalid values.

use std::{fmt, str::FromStr};

use compact_str::CompactString;
use uuid::Uuid;

use crate::time::Timestamp;

/// The longest user id, in characters.
pub const USER_ID_CHARS_MAX: usize = 128;
/// The longest idempotency key or payment reference, in characters.
pub const KEY_CHARS_MAX: usize = 128;
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

visible_text! {
    /// Id of a user, opaque to Qiang: 1 to 128 visible ASCII characters, without spaces.
    UserId, "user id", USER_ID_CHARS_MAX
}
visible_text! {
    /// Value of the `Idempotency-Key` header: 1 to 128 visible ASCII characters, without spaces.
    IdempotencyKey, "idempotency key", KEY_CHARS_MAX
}
visible_text! {
    /// Reference of one payment at the payment service; two payments of one order have two references.
    PaymentRef, "payment reference", KEY_CHARS_MAX
}
impl PaymentRef {
    /// Reference of the payment of an order that costs nothing, which no payment service has.
    #[must_use]
    pub fn for_free_order(order: OrderId) -> Self {
        Self(compact_str::format_compact!("free-{order}"))
    }
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
    fn texts_are_visible_and_bounded() {
        let check =
            |text: &str, good: bool| assert_eq!(UserId::new(text).is_ok(), good, "{text:?}");
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
