//! String names for the variants of enums, as the API, the ledger and the command line use them.
//!
//! Names are stored and public, so each is spelled out: a renamed variant keeps its name. `strum` would need an
//! attribute per variant for that, and compile a procedural macro in the default build.

/// Gives an enum `ALL`, `name`, `Display`, and the reverse function `from_name`.
macro_rules! string_enum {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name of the variant.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Variant with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use string_enum;
