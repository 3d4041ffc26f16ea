//! The secret behind a split.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// 32 random bytes that settle a split. Secret until the red packet is closed: `Debug` does not show it, `Display`
/// does (64 lowercase hexadecimal digits). Take it from the operating system's random numbers, a fresh one for each
/// red packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed made of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The seed's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(redacted)")
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for Seed {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        bytes_from_hex(text).map(Self)
    }
}

/// The text is not 32 bytes in hexadecimal.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("expected 64 hexadecimal digits")]
pub struct HexError;

/// Reads 32 bytes from 64 hexadecimal digits of either case.
pub(super) fn bytes_from_hex(text: &str) -> Result<[u8; 32], HexError> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| HexError)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reads_back_and_hides_in_debug() {
        let seed = Seed::from_bytes(std::array::from_fn(|i| 7 * i as u8));
        assert_eq!(seed.to_string().parse(), Ok(seed.clone()));
        assert_eq!(seed.to_string().to_uppercase().parse(), Ok(seed.clone()));
        assert_eq!(format!("{seed:?}"), "Seed(redacted)");
    }

    #[test]
    fn only_64_digits_are_a_seed() {
        for text in [
            String::new(),
            "0".repeat(63),
            "0".repeat(65),
            "0".repeat(66),
            "g".repeat(64),
            "é".repeat(32),
        ] {
            assert_eq!(text.parse::<Seed>(), Err(HexError), "{text}");
        }
    }
}
