//! A shop's own data about a campaign, an order or a deposit: its number for the object, and named texts. Nothing is
//! decided by them. Users do not see them, and they are stored in the ledger alone.

use std::{collections::BTreeMap, fmt, str::FromStr};

use uuid::Uuid;

use crate::{
    id::{CampaignId, OrderId, ShopReference},
    string_enum::string_enum,
};

/// Maximum number of names in the metadata of one object.
pub const METADATA_NAMES_MAX: usize = 20;
/// Maximum length of a name, in characters.
pub const METADATA_NAME_CHARS_MAX: usize = 40;
/// Maximum length of a value, in characters.
pub const METADATA_VALUE_CHARS_MAX: usize = 500;

/// Why metadata is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A name has characters other than those listed, or too many.
    #[error(
        "a name in metadata is 1 to {METADATA_NAME_CHARS_MAX} letters of English, digits, dots, hyphens or underscores"
    )]
    Name,
    /// A value is empty, too long, or contains a control character.
    #[error(
        "a value in metadata is 1 to {METADATA_VALUE_CHARS_MAX} characters without control characters"
    )]
    Value,
    /// There are too many names.
    #[error("metadata has at most {METADATA_NAMES_MAX} names")]
    Count,
}

/// Name in metadata: 1 to 40 ASCII letters, digits, dots, hyphens and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataName(String);

impl FromStr for MetadataName {
    type Err = MetadataError;
    fn from_str(text: &str) -> Result<Self, MetadataError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_good = (1..=METADATA_NAME_CHARS_MAX).contains(&text.len());
        match is_good && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(MetadataError::Name),
        }
    }
}

/// Value in metadata: 1 to 500 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataValue(String);

impl FromStr for MetadataValue {
    type Err = MetadataError;
    fn from_str(text: &str) -> Result<Self, MetadataError> {
        let is_good = (1..=METADATA_VALUE_CHARS_MAX).contains(&text.chars().count());
        match is_good && !text.contains(char::is_control) {
            true => Ok(Self(text.to_owned())),
            false => Err(MetadataError::Value),
        }
    }
}

macro_rules! read_as_text {
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
read_as_text!(MetadataName MetadataValue);

/// Kind of an object that has metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetadataObject {
    /// A red packet or a sale.
    Campaign,
    /// An order of a sale.
    Order,
    /// A deposit into an account.
    Deposit,
}

string_enum!(MetadataObject { Campaign = "campaign", Order = "order", Deposit = "deposit" });

/// An object that has metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetadataSubject {
    /// This campaign.
    Campaign(CampaignId),
    /// This order.
    Order(OrderId),
    /// The deposit with this id.
    Deposit(Uuid),
}

impl MetadataSubject {
    /// Kind of the object.
    #[must_use]
    pub fn object(self) -> MetadataObject {
        match self {
            Self::Campaign(_) => MetadataObject::Campaign,
            Self::Order(_) => MetadataObject::Order,
            Self::Deposit(_) => MetadataObject::Deposit,
        }
    }

    /// Id of the object as text.
    #[must_use]
    pub fn id(self) -> String {
        match self {
            Self::Campaign(id) => id.to_string(),
            Self::Order(id) => id.to_string(),
            Self::Deposit(id) => id.to_string(),
        }
    }
}

/// Metadata of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The shop's own number of the object.
    pub reference: Option<ShopReference>,
    /// Whether no other object of this kind and owner may have the reference as a unique one. False without a
    /// reference.
    pub is_unique: bool,
    /// Values by name, at most [`METADATA_NAMES_MAX`].
    pub values: BTreeMap<MetadataName, MetadataValue>,
}

impl Metadata {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The change that makes this metadata from none.
    #[must_use]
    pub fn as_change(&self) -> MetadataChange {
        let values = self.values.iter();
        MetadataChange {
            reference: self.reference.clone().map(Some),
            is_unique: self.is_unique.then_some(true),
            values: values
                .map(|(name, value)| (name.clone(), Some(value.clone())))
                .collect(),
        }
    }
}

/// A change of metadata. Absent names keep their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// `None` keeps the reference, and `Some(None)` removes it.
    pub reference: Option<Option<ShopReference>>,
    /// Whether the reference is unique; `None` keeps that. An object without a reference has no unique one.
    pub is_unique: Option<bool>,
    /// New values by name; `None` removes a name.
    pub values: BTreeMap<MetadataName, Option<MetadataValue>>,
}

impl MetadataChange {
    /// Checks the number of names that the change sets.
    ///
    /// # Errors
    /// [`MetadataError::Count`].
    pub fn check(&self) -> Result<(), MetadataError> {
        match self.values.values().flatten().count() <= METADATA_NAMES_MAX {
            true => Ok(()),
            false => Err(MetadataError::Count),
        }
    }

    /// Metadata after the change.
    ///
    /// # Errors
    /// [`MetadataError::Count`].
    pub fn apply(&self, before: Metadata) -> Result<Metadata, MetadataError> {
        let mut after = before;
        if let Some(reference) = &self.reference {
            after.reference.clone_from(reference);
        }
        after.is_unique = self.is_unique.unwrap_or(after.is_unique) && after.reference.is_some();
        for (name, value) in &self.values {
            match value {
                Some(value) => after.values.insert(name.clone(), value.clone()),
                None => after.values.remove(name),
            };
        }
        match after.values.len() <= METADATA_NAMES_MAX {
            true => Ok(after),
            false => Err(MetadataError::Count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_short_texts() {
        let name = |text: &str| text.parse::<MetadataName>().is_ok();
        assert!(name("order.no_1-a") && name(&"a".repeat(METADATA_NAME_CHARS_MAX)));
        for bad in ["", "a b", "a/b", "a\"b", "名"] {
            assert!(!name(bad), "{bad}");
        }
        assert!(!name(&"a".repeat(METADATA_NAME_CHARS_MAX + 1)));
        let value = |text: &str| text.parse::<MetadataValue>().is_ok();
        assert!(value("上海, 1 号仓库") && value(&"字".repeat(METADATA_VALUE_CHARS_MAX)));
        for bad in ["", "a\nb", "\u{1b}"] {
            assert!(!value(bad), "{bad:?}");
        }
        assert!(!value(&"字".repeat(METADATA_VALUE_CHARS_MAX + 1)));
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let named = |values: &[(&str, Option<&str>)]| MetadataChange {
            reference: None,
            is_unique: None,
            values: values
                .iter()
                .map(|(name, value)| {
                    let value = value.map(|value| value.parse().unwrap());
                    (name.parse().unwrap(), value)
                })
                .collect(),
        };
        let first = named(&[("a", Some("1")), ("b", Some("2"))]);
        let before = first.apply(Metadata::default()).unwrap();
        assert_eq!(before.as_change(), first);
        let after = named(&[("a", None), ("c", Some("3"))]);
        let after = after.apply(before).unwrap();
        let names: Vec<_> = after.values.keys().map(MetadataName::as_str).collect();
        assert_eq!(names, ["b", "c"]);
        let names: Vec<String> = (0..=METADATA_NAMES_MAX).map(|n| n.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, Some("x"))).collect();
        let refused = Err(MetadataError::Count);
        assert_eq!(named(&many).check(), refused);
        let most = named(&many[1..]);
        assert_eq!(most.check(), Ok(()));
        let full = most.apply(Metadata::default()).unwrap();
        let refused = Err(MetadataError::Count);
        assert_eq!(named(&[("0", Some("x"))]).apply(full), refused);
    }

    #[test]
    fn a_reference_stays_unique_until_it_is_removed() {
        let to = |reference: Option<&str>, is_unique| MetadataChange {
            reference: Some(reference.map(|text| ShopReference::new(text).unwrap())),
            is_unique,
            ..MetadataChange::default()
        };
        let first = to(Some("PO-1"), Some(true));
        let first = first.apply(Metadata::default()).unwrap();
        assert!(first.is_unique);
        assert_eq!(
            first.as_change().apply(Metadata::default()),
            Ok(first.clone())
        );
        let renamed = to(Some("PO-2"), None).apply(first.clone()).unwrap();
        assert!(renamed.is_unique);
        let shared = to(Some("PO-2"), Some(false)).apply(renamed.clone());
        assert!(!shared.unwrap().is_unique);
        let removed = to(None, None).apply(renamed).unwrap();
        assert_eq!(removed, Metadata::default());
    }
}
