//! Keys that check tokens: one key, or a set (RFC 7517) from which each token names one by its `kid`. During a change
//! of keys, a set has both the old and the new one.

use std::{collections::HashSet, path::Path, sync::Arc};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse},
};

use tokio::sync::Notify;

use super::{TokenFault, jwks_url, signature::SignatureKey};
use crate::config::{AuthConfig, Secret, UsageError, check_secret, secret_of};
use crate::http::auth_failure::AuthFailure;

/// Maximum number of keys in a set: an unknown header is compared with all of them.
const KEYS_MAX: usize = 64;
/// Shorter RSA keys can be broken, and the library refuses them.
const RSA_BITS_MIN: usize = 2_048;

/// Keys that may sign tokens.
#[derive(Debug)]
pub(super) struct VerificationKeys {
    keys: Vec<VerificationKey>,
    /// Required `typ` of a token; empty for any.
    typ: String,
    /// Last header with a valid signature of each key, with the key's index. Issuers write the same header into all
    /// their tokens.
    known_headers: ArcSwap<Vec<(String, usize)>>,
    /// Notified of an unknown `kid`, if a newer set may exist.
    unknown_kid: Option<Arc<Notify>>,
}

#[derive(Debug)]
struct VerificationKey {
    /// `None` for a single key: then a token's `kid` does not matter.
    kid: Option<String>,
    key: SignatureKey,
}

impl VerificationKeys {
    /// Keys of the configuration, without those at a URL.
    ///
    /// # Errors
    /// [`UsageError`] if there is none, or one that can be guessed or broken; other errors if a file cannot be read.
    pub(super) fn new(config: &AuthConfig) -> anyhow::Result<Self> {
        Ok(Self::from_keys(configured(config)?, config))
    }

    /// Keys of a fetched set. `unknown_kid` is notified of a `kid` that the set lacks.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub(super) fn from_fetched(
        set: &[u8],
        config: &AuthConfig,
        unknown_kid: &Arc<Notify>,
    ) -> anyhow::Result<Self> {
        let keys = read_set(jwks_url::KEY, set, Secrets::PassedOver)?;
        Ok(Self {
            unknown_kid: Some(Arc::clone(unknown_kid)),
            ..Self::from_keys(keys, config)
        })
    }

    fn from_keys(keys: Vec<VerificationKey>, config: &AuthConfig) -> Self {
        Self {
            keys,
            typ: media_type(&config.typ),
            known_headers: ArcSwap::default(),
            unknown_kid: None,
        }
    }

    /// Names of the keys, separated by spaces.
    pub(super) fn kids(&self) -> String {
        let kids: Vec<_> = self
            .keys
            .iter()
            .filter_map(|key| key.kid.as_deref())
            .collect();
        kids.join(" ")
    }

    /// Payload of a token, if one of the keys signed it.
    pub(super) fn payload(&self, token: &str) -> Result<Vec<u8>, TokenFault> {
        const SHAPE: TokenFault = TokenFault(AuthFailure::Malformed, "the token is not a JWT");
        let (message, signature) = token.rsplit_once('.').ok_or(SHAPE)?;
        let (header, payload) = message.split_once('.').ok_or(SHAPE)?;
        let known = self.known(header);
        let index = match known {
            Some(index) => index,
            None => self.named_by(token)?,
        };
        let key = &self.keys[index];
        if !key.key.has_signed(message, signature) {
            return Err(TokenFault(
                AuthFailure::Signature,
                "the token's signature does not hold",
            ));
        }
        if known.is_none() {
            self.remember(header, index);
        }
        // With reserved capacity: glibc's allocator is slow at zeroed memory.
        let mut bytes = Vec::with_capacity(payload.len());
        let decoded = BASE64.decode_vec(payload, &mut bytes);
        decoded.map(|()| bytes).map_err(|_| SHAPE)
    }

    fn known(&self, header: &str) -> Option<usize> {
        let known = self.known_headers.load();
        let mut found = known.iter().filter(|(text, _)| text == header);
        found.next().map(|(_, index)| *index)
    }

    fn remember(&self, header: &str, index: usize) {
        self.known_headers.rcu(|known| {
            let others = known.iter().filter(|(_, of)| *of != index).cloned();
            let last = [(header.to_owned(), index)];
            others.chain(last).collect::<Vec<_>>()
        });
    }

    /// Index of the key that a token's header names.
    fn named_by(&self, token: &str) -> Result<usize, TokenFault> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| {
            TokenFault(AuthFailure::Malformed, "the token's header is not readable")
        })?;
        // RFC 7515, 4.1.11: a recipient that does not understand an extension refuses the token.
        if header.crit.is_some() {
            let fault = "the token's header has `crit`, and no extension is supported";
            return Err(TokenFault(AuthFailure::Header, fault));
        }
        if !self.typ.is_empty() && header.typ.is_none_or(|typ| media_type(&typ) != self.typ) {
            return Err(TokenFault(
                AuthFailure::Header,
                "the token's `typ` is not the required one",
            ));
        }
        let is_meant = |key: &VerificationKey| key.kid.is_none() || key.kid == header.kid;
        let index = self.keys.iter().position(is_meant).ok_or_else(|| {
            if let Some(unknown_kid) = &self.unknown_kid {
                unknown_kid.notify_one();
            }
            TokenFault(
                AuthFailure::Header,
                "the token's `kid` does not name a key of this installation",
            )
        })?;
        if header.alg != self.keys[index].key.algorithm {
            return Err(TokenFault(
                AuthFailure::Header,
                "the token is signed by another algorithm than the configured key's",
            ));
        }
        Ok(index)
    }
}

/// RFC 7515, 4.1.9: the type is case-insensitive, and `application/` is optional.
fn media_type(typ: &str) -> String {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").unwrap_or(&typ).to_owned()
}

fn configured(config: &AuthConfig) -> anyhow::Result<Vec<VerificationKey>> {
    let secret_file = !config.hs256_secret_file.as_os_str().is_empty();
    let public_key = !config.public_key_file.as_os_str().is_empty();
    let jwks = !config.jwks_file.as_os_str().is_empty();
    let given = [
        !config.hs256_secret.is_empty(),
        secret_file,
        public_key,
        jwks,
        !config.jwks_url.is_empty(),
    ];
    match given {
        [true, false, false, false, false] => Ok(vec![secret_key(&config.hs256_secret)?]),
        [false, true, false, false, false] => {
            let none = Secret::default();
            let secret = secret_of(&none, &config.hs256_secret_file, "auth.hs256_secret")?;
            Ok(vec![secret_key(&secret.unwrap_or_default())?])
        }
        [false, false, true, false, false] => Ok(vec![public_key_of(&config.public_key_file)?]),
        [false, false, false, true, false] => set_of(&config.jwks_file),
        [false, false, false, false, true] => {
            jwks_url::check(&config.jwks_url)?;
            Ok(Vec::new())
        }
        [false, false, false, false, false] => Err(UsageError::new(
            "no key to check tokens with: set auth.hs256_secret_file (or hs256_secret, public_key_file, jwks_file or \
             jwks_url), or try `qiang serve --dev`",
        )
        .into()),
        _ => {
            let keys = "auth.hs256_secret, hs256_secret_file, public_key_file, jwks_file and jwks_url";
            Err(UsageError::new(format!("set only one of {keys}")).into())
        }
    }
}

fn secret_key(secret: &Secret) -> Result<VerificationKey, UsageError> {
    let secret = secret.expose().as_bytes();
    check_secret("an HS256 secret", secret)?;
    Ok(VerificationKey {
        kid: None,
        key: SignatureKey::new(DecodingKey::from_secret(secret), Algorithm::HS256),
    })
}

fn public_key_of(file: &Path) -> anyhow::Result<VerificationKey> {
    const WHAT: &str = "auth.public_key_file";
    let pem = std::fs::read(file).with_context(|| format!("{WHAT}: read {}", file.display()))?;
    let ed25519 = DecodingKey::from_ed_pem(&pem).map(|key| (key, Algorithm::EdDSA));
    let (key, algorithm) = ed25519
        .or_else(|_| DecodingKey::from_rsa_pem(&pem).map(|key| (key, Algorithm::RS256)))
        .map_err(|_| {
            UsageError::new(format!("{WHAT} holds no Ed25519 or RSA public key in PEM"))
        })?;
    check_strength(WHAT, &key)?;
    Ok(VerificationKey {
        kid: None,
        key: SignatureKey::new(key, algorithm),
    })
}

fn set_of(file: &Path) -> anyhow::Result<Vec<VerificationKey>> {
    const WHAT: &str = "auth.jwks_file";
    let text = std::fs::read(file).with_context(|| format!("{WHAT}: read {}", file.display()))?;
    Ok(read_set(WHAT, &text, Secrets::Taken)?)
}

/// Handling of secrets (`oct`) in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Taken,
    /// Ignored, because a key at a URL is not secret.
    PassedOver,
}

/// Keys of a JWK Set that sign tokens. Keys for other uses and of unknown kinds are ignored (RFC 7517, 5). `what`
/// names the set.
fn read_set(what: &str, text: &[u8], secrets: Secrets) -> Result<Vec<VerificationKey>, UsageError> {
    let set: JwkSet = serde_json::from_slice(text).map_err(|error| {
        // The text of the error may contain part of a secret.
        let (line, column) = (error.line(), error.column());
        let place = format!("line {line}, column {column}");
        UsageError::new(format!("{what} is not a JWK Set (RFC 7517): {place}"))
    })?;
    let mut kids = HashSet::new();
    let mut keys = Vec::new();
    for jwk in &set.keys {
        let is_secret = matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
        let algorithm = algorithm_of(jwk).filter(|_| !is_secret || secrets == Secrets::Taken);
        let Some(algorithm) = algorithm else {
            continue;
        };
        let kid = jwk.common.key_id.clone();
        let kid = kid.filter(|kid| !kid.is_empty() && kids.insert(kid.clone()));
        let kid = kid.ok_or_else(|| {
            UsageError::new(format!("{what}: every key needs a `kid` of its own"))
        })?;
        let which = format!("{what}: the key `{kid}`");
        let key = DecodingKey::from_jwk(jwk)
            .map_err(|_| UsageError::new(format!("{which} is not written in base64url")))?;
        check_strength(&which, &key)?;
        keys.push(VerificationKey {
            kid: Some(kid),
            key: SignatureKey::new(key, algorithm),
        });
    }
    match keys.len() {
        0 => {
            let known = match secrets {
                Secrets::Taken => "RSA, EC (P-256 or P-384), OKP (Ed25519) or oct",
                Secrets::PassedOver => "RSA, EC (P-256 or P-384) or OKP (Ed25519)",
            };
            let text = format!("{what} has no key to check signatures with: {known}");
            Err(UsageError::new(text))
        }
        1..=KEYS_MAX => Ok(keys),
        _ => Err(UsageError::new(format!(
            "{what} has more than {KEYS_MAX} keys"
        ))),
    }
}

/// Algorithm of a key in a set: the named one, otherwise the usual one of its kind. `None` if the key is not for
/// signatures, or of an unknown kind.
fn algorithm_of(jwk: &Jwk) -> Option<Algorithm> {
    use Algorithm as A;
    let common = &jwk.common;
    let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let operations = common.key_operations.as_ref();
    let verifies = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
    let possible: &[A] = match &jwk.algorithm {
        _ if !signs || !verifies => &[],
        AlgorithmParameters::RSA(_) => {
            &[A::RS256, A::RS384, A::RS512, A::PS256, A::PS384, A::PS512]
        }
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[A::ES256],
            EllipticCurve::P384 => &[A::ES384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[A::EdDSA]
        }
        AlgorithmParameters::OctetKey(_) => &[A::HS256, A::HS384, A::HS512],
        _ => &[],
    };
    match common.key_algorithm {
        None => possible.first().copied(),
        Some(named) => {
            let named = A::try_from(named).ok();
            named.filter(|algorithm| possible.contains(algorithm))
        }
    }
}

/// Refuses a key that is invalid, or can be guessed or broken. `what` names it.
fn check_strength(what: &str, key: &DecodingKey) -> Result<(), UsageError> {
    let broken = || UsageError::new(format!("{what} is not a public key"));
    let decode = |text: &str| BASE64.decode(text).map_err(|_| broken());
    let jwk = Jwk::from_decoding_key(key, None).map_err(|_| broken())?;
    match &jwk.algorithm {
        AlgorithmParameters::OctetKey(key) => check_secret(what, &decode(&key.value)?),
        AlgorithmParameters::RSA(key) => {
            let modulus = decode(&key.n)?;
            let zeros: u32 = match modulus.iter().position(|byte| *byte != 0) {
                Some(first) => first as u32 * 8 + modulus[first].leading_zeros(),
                None => return Err(broken()),
            };
            let bits = modulus.len() * 8 - zeros as usize;
            if bits < RSA_BITS_MIN {
                let advice = "`openssl genpkey -algorithm ed25519`, or `-algorithm rsa`, makes one";
                let text = format!(
                    "{what}: an RSA key has at least {RSA_BITS_MIN} bits, and this one {bits}: {advice}"
                );
                return Err(UsageError::new(text));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &str = "a-secret-of-these-tests-of-32-bytes";

    fn read(text: &str) -> anyhow::Result<VerificationKeys> {
        let folder = tempfile::tempdir()?;
        let jwks_file = folder.path().join("jwks.json");
        std::fs::write(&jwks_file, text)?;
        VerificationKeys::new(&AuthConfig {
            jwks_file,
            ..AuthConfig::default()
        })
    }

    fn secret(kid: &str) -> Value {
        json!({ "kty": "oct", "kid": kid, "k": BASE64.encode(SECRET) })
    }

    fn set(keys: &[Value]) -> String {
        json!({ "keys": keys }).to_string()
    }

    fn token(secret: &str, kid: Option<&str>, adjust: impl FnOnce(&mut Header)) -> String {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = kid.map(str::to_owned);
        adjust(&mut header);
        let key = EncodingKey::from_secret(secret.as_bytes());
        encode(&header, &json!({ "sub": "ann" }), &key).unwrap()
    }

    #[test]
    fn a_header_is_remembered_once_a_signature_has_held() {
        let keys = read(&set(&[secret("old"), secret("new")])).unwrap();
        let known = || {
            let known = keys.known_headers.load();
            known.iter().map(|(_, index)| *index).collect::<Vec<_>>()
        };
        let forged = token(&"x".repeat(32), Some("old"), |_| ());
        assert!(keys.payload(&forged).is_err());
        assert!(known().is_empty());
        let check = |kid, cty: Option<&str>, expected: &[usize]| {
            let token = token(SECRET, Some(kid), |header| {
                header.cty = cty.map(str::to_owned);
            });
            // Known or unknown, the header names the same key.
            for _ in 0..2 {
                assert_eq!(keys.payload(&token).unwrap(), br#"{"sub":"ann"}"#);
                assert_eq!(known(), expected);
            }
        };
        check("old", None, &[0]);
        check("new", None, &[0, 1]);
        // One header per key is kept, for any headers of the issuer.
        check("old", Some("a"), &[1, 0]);
        check("old", Some("b"), &[1, 0]);
        // A known header does not replace the check of the signature.
        let forged = token(&"x".repeat(32), Some("new"), |_| ());
        assert!(keys.payload(&forged).is_err());
    }

    #[test]
    fn keys_of_other_kinds_and_for_other_things_are_passed_over() {
        let mut passed_over = [
            json!({ "use": "enc" }),
            json!({ "key_ops": ["encrypt"] }),
            json!({ "alg": "RSA-OAEP" }),
            json!({ "alg": "RS256" }),
            json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }),
            json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }),
            json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA" }),
        ]
        .map(|change| {
            let mut key = secret("");
            let fields = change.as_object().unwrap().clone();
            key.as_object_mut().unwrap().extend(fields);
            key
        })
        .to_vec();
        let error = read(&set(&passed_over)).unwrap_err().to_string();
        assert!(error.contains("no key to check signatures with"), "{error}");
        passed_over.push(secret("good"));
        let keys = read(&set(&passed_over)).unwrap();
        assert_eq!(keys.kids(), "good");
        assert!(keys.payload(&token(SECRET, Some("good"), |_| ())).is_ok());
    }

    #[test]
    fn sets_that_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err();
            assert!(error.is::<UsageError>(), "{error}");
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        };
        let one = |change: Value| {
            let mut key = secret("k");
            let fields = change.as_object().unwrap().clone();
            key.as_object_mut().unwrap().extend(fields);
            set(&[key])
        };
        check("\"s3cret\"", "line 1, column 8");
        check("{}", "is not a JWK Set");
        check(&set(&[]), "no key");
        check(&set(&[secret("a"), secret("a")]), "a `kid` of its own");
        check(&one(json!({ "kid": null })), "a `kid` of its own");
        check(&one(json!({ "kid": "" })), "a `kid` of its own");
        check(&one(json!({ "k": "s3cret!" })), "`k` is not written in");
        let short = BASE64.encode("x".repeat(31));
        check(
            &one(json!({ "k": short })),
            "has at least 32 bytes, and this one 31: make one with `openssl rand -hex 32`",
        );
        let rsa = |bytes: &[u8]| {
            let n = BASE64.encode(bytes);
            set(&[json!({ "kty": "RSA", "kid": "k", "n": n, "e": "AQAB" })])
        };
        let bits = "has at least 2048 bits, and this one";
        check(&rsa(&[0xff; 128]), &format!("{bits} 1024"));
        check(
            &rsa(&[&[0, 1], [7; 255].as_slice()].concat()),
            &format!("{bits} 2041"),
        );
        check(&rsa(&[0; 300]), "is not a public key");
        assert!(read(&rsa(&[0xff; 256])).is_ok());
        let okp = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "AAAA" });
        check(&set(&[okp]), "is not a public key");
        let ec = json!({ "kty": "EC", "crv": "P-256", "kid": "k", "x": "AAAA", "y": "AAAA" });
        check(&set(&[ec]), "is not a public key");
        let many: Vec<_> = (0..=KEYS_MAX).map(|n| secret(&n.to_string())).collect();
        check(&set(&many), "more than 64 keys");
        assert!(read(&set(&many[1..])).is_ok());
    }
}
