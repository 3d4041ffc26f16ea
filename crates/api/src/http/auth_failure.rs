//! Reasons of failed authentication, as metrics and logs name them.

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// Reason why the user of a request is unknown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum AuthFailure { $($(#[$doc])* $name,)* }

        impl AuthFailure {
            /// Names in the order of the variants; [`Self::index`] is an index into them.
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
    /// Not a JWT, or one without required claims.
    Malformed = "malformed";
    /// The header names another key, algorithm or type, or an extension.
    Header = "header";
    /// The signature is not valid.
    Signature = "signature";
    /// It has expired.
    Expired = "expired";
    /// It is not valid yet.
    Early = "early";
    /// Its lifetime is too long, or has no start.
    Lifetime = "lifetime";
    /// It was issued by another issuer.
    Issuer = "issuer";
    /// It is for another service.
    Audience = "audience";
    /// It was revoked.
    Revoked = "revoked";
}
