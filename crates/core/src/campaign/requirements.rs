//! Requirements of a claim, checked before the engine gets it.

use std::{fmt, str::FromStr};

use crate::string_enum::string_enum;

/// A requirement of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A grab ticket: signed, issued for the user and the campaign, and issued after the start.
    Ticket = 1,
    /// The shop's permission for the order.
    OrderCheck = 2,
}

string_enum!(Requirement { Ticket = "ticket", OrderCheck = "order_check" });

/// Error of a word that is no requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of ticket, order_check")]
pub struct UnknownRequirement(String);

impl FromStr for Requirement {
    type Err = UnknownRequirement;
    fn from_str(word: &str) -> Result<Self, UnknownRequirement> {
        Self::from_name(word).ok_or_else(|| UnknownRequirement(word.to_owned()))
    }
}

/// Requirements of a claim. Printed as words with blanks between, in their order; without requirements, an empty text.
///
/// They are checked before the claim reaches an engine, which does not know them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requirements(u8);

impl Requirements {
    const ALL: [Requirement; 2] = [Requirement::Ticket, Requirement::OrderCheck];

    /// Whether the requirement is one of them.
    pub fn contains(self, requirement: Requirement) -> bool {
        self.0 & requirement as u8 != 0
    }

    /// Whether a claim has no requirements.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The requirements, in their order.
    pub fn iter(self) -> impl Iterator<Item = Requirement> {
        Self::ALL.into_iter().filter(move |one| self.contains(*one))
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |bits, one| bits | one as u8))
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, one) in self.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { " " })?;
            f.write_str(one.name())?;
        }
        Ok(())
    }
}

impl FromStr for Requirements {
    type Err = UnknownRequirement;
    fn from_str(text: &str) -> Result<Self, UnknownRequirement> {
        text.split_ascii_whitespace().map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_back_from_their_words() {
        use Requirement::{OrderCheck, Ticket};
        for (all, words) in [
            (&[][..], ""),
            (&[Ticket], "ticket"),
            (&[OrderCheck], "order_check"),
            (&[OrderCheck, Ticket, Ticket], "ticket order_check"),
        ] {
            let all: Requirements = all.iter().copied().collect();
            assert_eq!(
                (all.to_string(), words.parse()),
                (words.to_owned(), Ok(all))
            );
            assert_eq!(all.is_empty(), words.is_empty());
        }
        assert!("ticket tickets".parse::<Requirements>().is_err());
    }
}
