//! Covers of red packets.

use std::str::FromStr;

use crate::string_enum::string_enum;

/// Look of a red packet's envelope, chosen by its sender. Nothing is decided by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cover {
    /// Red, without a picture.
    #[default]
    Classic,
    /// Plum blossoms.
    Blossom,
    /// Lanterns.
    Lantern,
    /// Clouds of good luck.
    Cloud,
    /// Balloons, for a birthday.
    Birthday,
    /// Double happiness, for a wedding.
    Wedding,
}

string_enum!(Cover {
    Classic = "classic",
    Blossom = "blossom",
    Lantern = "lantern",
    Cloud = "cloud",
    Birthday = "birthday",
    Wedding = "wedding",
});

/// Error of a word that names no cover.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of classic, blossom, lantern, cloud, birthday, wedding")]
pub struct UnknownCover(String);

impl FromStr for Cover {
    type Err = UnknownCover;

    fn from_str(name: &str) -> Result<Self, UnknownCover> {
        Self::from_name(name).ok_or_else(|| UnknownCover(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_and_the_error_lists_all() {
        let error = Cover::from_str("gold").unwrap_err().to_string();
        for cover in Cover::ALL {
            assert_eq!(cover.name().parse(), Ok(*cover));
            assert!(error.contains(cover.name()), "{error}");
        }
    }
}
