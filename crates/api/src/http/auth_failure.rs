//! What authentication fails for, as metrics and logs name it.

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// Why a request is not known to be anybody's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum AuthFailure { $($(#[$doc])* $name,)* }

        impl AuthFailure {
            /// The words, in the order of the variants: [`Self::index`] is a place among them.
            pub(crate) const NAMES: &'static [&'static str] = &[$($word,)*];
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub(crate) fn index(self) -> usize {
                self as usize
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

failures! {
    /// No token.
    Missing = "missing";
    /// No JWT, or one without what it needs.
    Malformed = "malformed";
    /// The header asks for another key, algorithm or type, or for an extension.
    Header = "header";
    /// The signature does not hold.
    Signature = "signature";
    /// It has expired.
    Expired = "expired";
    /// It is not valid yet.
    Early = "early";
    /// It lasts too long, or does not say since when.
    Lifetime = "lifetime";
    /// It was issued by somebody else.
    Issuer = "issuer";
    /// It is for another service.
    Audience = "audience";
    /// It was revoked.
    Revoked = "revoked";
}
