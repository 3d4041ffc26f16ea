//! Ids of campaigns, orders, users and requests. All but those of users have characters that are safe in a path and a
//! header.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Maximum length of an id.
const ID_CHARS_MAX: usize = 128;
/// Maximum length of a key.
const KEY_CHARS_MAX: usize = 255;

/// Error of a text that is no id: empty, longer than 128 characters, or with characters that such an id may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an id is 1 to 128 visible ASCII characters, a key 255; a user's id may have letters of any script"
)]
pub struct InvalidId;

/// Whether an id has only visible ASCII characters.
fn is_ascii(text: &str) -> bool {
    text.len() <= ID_CHARS_MAX && is_key(text)
}

/// Whether a key has only visible ASCII characters.
fn is_key(text: &str) -> bool {
    (1..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a user's id may have this text. The service refuses further invisible characters.
fn is_user(text: &str) -> bool {
    let is_refused = |char: char| char.is_whitespace() || char.is_control();
    (1..=ID_CHARS_MAX).contains(&text.chars().count()) && !text.contains(is_refused)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $is_valid:ident)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl $name {
            /// Id from a text that the service has checked.
            #[cfg(feature = "service")]
            #[must_use]
            pub fn from_service(id: &impl fmt::Display) -> Self {
                Self(id.to_string())
            }
        }

        #[cfg(feature = "service")]
        crate::bodies::text_schema!($name);

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                $is_valid(&text).then_some(Self(text)).ok_or(InvalidId)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.to_owned().try_into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )* };
}

ids! {
    /// Id of a campaign: a red packet or a sale. The service creates it, a UUID.
    CampaignId is_ascii
    /// Id of an order. The service creates it from the sale's id and a number.
    OrderId is_ascii
    /// Id of a claimed share. The service creates it from the red packet's id and a number.
    ClaimId is_ascii
    /// Id of a user, as in tokens: letters of any script. The service answers it in normalization form C.
    UserId is_user
    /// Id of a webhook. The service creates it, a UUID.
    WebhookId is_ascii
    /// Id of an object without rules of the service, such as a product or a deposit.
    Id is_ascii
    /// Key of a request, by which the service recognizes its retries.
    IdempotencyKey is_key
}

impl IdempotencyKey {
    /// Unique key: 128 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_no_spaces_and_are_bounded() {
        for bad in ["", "a b", "a\r\nb", "a\u{3000}", &"x".repeat(129)] {
            assert_eq!(bad.parse::<UserId>(), Err(InvalidId), "{bad:?}");
            assert_eq!(bad.parse::<Id>(), Err(InvalidId), "{bad:?}");
        }
        assert_eq!("é".parse::<OrderId>(), Err(InvalidId));
        assert!("k".repeat(255).parse::<IdempotencyKey>().is_ok());
        assert!("k".repeat(256).parse::<IdempotencyKey>().is_err());
        for good in ["ann", "李雷", &"李".repeat(128)] {
            assert_eq!(
                good.parse::<UserId>().map(|id| id.to_string()),
                Ok(good.to_owned())
            );
        }
        assert_ne!(IdempotencyKey::random(), IdempotencyKey::random());
    }
}
