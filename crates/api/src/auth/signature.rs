//! Check of a token's signature.

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, crypto};

/// Buffer size for the decoded HMAC. The decoder needs more than the 64 bytes of SHA-512.
const TAG_ROOM: usize = 72;

/// A key with its only algorithm, so that a token cannot choose one.
#[derive(Debug)]
pub(super) struct SignatureKey {
    pub(super) algorithm: Algorithm,
    kind: SignatureKind,
}

#[derive(Debug)]
enum SignatureKind {
    /// Prepared once, because creating it from the secret takes longer than a check.
    Secret(Box<hmac::Key>),
    Public(DecodingKey),
}

impl SignatureKey {
    pub(super) fn new(key: DecodingKey, algorithm: Algorithm) -> Self {
        let hash = match algorithm {
            Algorithm::HS256 => Some(hmac::HMAC_SHA256),
            Algorithm::HS384 => Some(hmac::HMAC_SHA384),
            Algorithm::HS512 => Some(hmac::HMAC_SHA512),
            _ => None,
        };
        // A public key must not be used as a secret, even if its algorithm says so.
        let hash = hash.filter(|_| key.family() == AlgorithmFamily::Hmac);
        let kind = match (hash, key.try_get_as_bytes()) {
            (Some(hash), Ok(secret)) => {
                SignatureKind::Secret(Box::new(hmac::Key::new(hash, secret)))
            }
            _ => SignatureKind::Public(key),
        };
        Self { algorithm, kind }
    }

    /// Whether the key signed a message. `signature` is in base64url, as in a token.
    pub(super) fn has_signed(&self, message: &str, signature: &str) -> bool {
        let message = message.as_bytes();
        match &self.kind {
            SignatureKind::Secret(key) => {
                let mut tag = [0; TAG_ROOM];
                let length = BASE64.decode_slice(signature, &mut tag);
                length.is_ok_and(|length| hmac::verify(key, message, &tag[..length]).is_ok())
            }
            SignatureKind::Public(key) => {
                matches!(
                    crypto::verify(signature, message, key, self.algorithm),
                    Ok(true)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::EncodingKey;

    use super::*;

    #[test]
    fn of_a_secret_the_whole_signature_alone_holds() {
        const SECRET: &[u8] = b"a-secret-of-these-tests-of-32-bytes";
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let key = SignatureKey::new(DecodingKey::from_secret(SECRET), algorithm);
            assert!(matches!(key.kind, SignatureKind::Secret(_)));
            let of_secret = EncodingKey::from_secret(SECRET);
            let signature = crypto::sign(b"header.payload", &of_secret, algorithm).unwrap();
            assert!(key.has_signed("header.payload", &signature));
            assert!(!key.has_signed("header.payloae", &signature));
            let bytes = BASE64.decode(&signature).unwrap();
            let longer = [&bytes[..], &[0; 3]].concat();
            let long = vec![0; 10_000];
            let mut flipped = bytes.clone();
            flipped[0] ^= 1;
            for other in [&[], &bytes[..bytes.len() - 1], &longer, &long, &flipped] {
                let other = BASE64.encode(other);
                assert!(!key.has_signed("header.payload", &other), "{other}");
            }
            assert!(!key.has_signed("header.payload", &format!("{signature}=")));
            assert!(!key.has_signed("header.payload", "no base64!"));
            let public = DecodingKey::from_ed_der(SECRET);
            assert!(!SignatureKey::new(public, algorithm).has_signed("header.payload", &signature));
        }
    }
}
