//! Secret from which the shares of a split follow.

use std::fmt;

use thiserror::Error;

/// Methods of a type of 32 bytes. Its text is 64 hexadecimal digits, read in either case.
macro_rules! hex_bytes {
    ($type:ident) => {
        impl $type {
            /// Creates the value from these bytes.
            pub fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::split::HexError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut bytes = [0; 32];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| $crate::split::HexError)?;
                Ok(Self(bytes))
            }
        }
    };
}
pub(super) use hex_bytes;

/// 32 random bytes that determine the shares of a split. It is secret until the red packet is closed: `Debug` hides it,
/// and `Display` shows it (64 lowercase hexadecimal digits). Use the operating system's random numbers, and a new seed
/// for each red packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

hex_bytes!(Seed);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(redacted)")
    }
}

/// Error for a text that is not 32 bytes in hexadecimal.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("expected 64 hexadecimal digits")]
pub struct HexError;

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
