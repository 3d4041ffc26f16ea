//! `qiang token`: makes a bearer token.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use qiang_core::{id::UserId, ports::Clock as _};
use qiang_embedded::SystemClock;
use serde::Serialize;

use super::UsageError;
use crate::{config::SECRET_BYTES_MIN, http::Scope};

/// What to put into a token, and what to sign it with.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// The user.
    #[arg(long, value_name = "USER")]
    sub: String,
    /// What it allows: words of `claim`, `send`, `operate`.
    #[arg(long, default_value = "claim")]
    scope: String,
    /// How long it holds, such as 90s, 15m, 1h or 7d.
    #[arg(long, default_value = "1h")]
    ttl: String,
    /// A file with the HS256 secret that the server has.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// A file with the private key, Ed25519 or RSA in PEM, whose public key the server has.
    #[arg(long, value_name = "FILE", conflicts_with = "secret_file")]
    key: Option<PathBuf>,
    /// `iss`, where the server asks for one.
    #[arg(long)]
    issuer: Option<String>,
    /// `aud`, where the server asks for one.
    #[arg(long)]
    audience: Option<String>,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    scope: &'a str,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    UserId::new(&args.sub).map_err(|error| UsageError::new(format!("--sub: {error}")))?;
    check_scope(&args.scope)?;
    let (key, algorithm) = signing_key(args)?;
    let iat = SystemClock.now().as_millis() / 1_000;
    let claims = Claims {
        sub: &args.sub,
        scope: &args.scope,
        iat,
        exp: iat.saturating_add(seconds(&args.ttl)?),
        iss: args.issuer.as_deref(),
        aud: args.audience.as_deref(),
    };
    println!(
        "{}",
        jsonwebtoken::encode(&Header::new(algorithm), &claims, &key).context("sign the token")?
    );
    Ok(ExitCode::SUCCESS)
}

/// A token with every scope, for `qiang serve --dev`.
pub(crate) fn for_development(secret: &str, user: &str, ttl_s: i64) -> anyhow::Result<String> {
    let key = EncodingKey::from_secret(secret.as_bytes());
    mint(&key, user, &Scope::ALL.map(Scope::name).join(" "), ttl_s)
}

/// An HS256 token without issuer and audience.
pub(crate) fn mint(
    key: &EncodingKey,
    user: &str,
    scope: &str,
    ttl_s: i64,
) -> anyhow::Result<String> {
    let iat = SystemClock.now().as_millis() / 1_000;
    let claims = Claims {
        sub: user,
        scope,
        iat,
        exp: iat + ttl_s,
        iss: None,
        aud: None,
    };
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, key).context("sign the token")
}

fn check_scope(scope: &str) -> Result<(), UsageError> {
    let known = |word: &str| Scope::ALL.iter().any(|scope| scope.name() == word);
    match scope.split_ascii_whitespace().find(|word| !known(word)) {
        Some(word) => Err(UsageError::new(format!(
            "--scope: `{word}` is not one of claim, send, operate"
        ))),
        None => Ok(()),
    }
}

fn signing_key(args: &TokenArgs) -> anyhow::Result<(EncodingKey, Algorithm)> {
    let read = |path: &PathBuf| {
        std::fs::read(path)
            .map_err(|error| UsageError::new(format!("cannot read {}: {error}", path.display())))
    };
    match (&args.secret_file, &args.key) {
        (Some(path), _) => {
            let secret = read(path)?;
            let secret = secret.trim_ascii();
            if secret.len() < SECRET_BYTES_MIN {
                let text = format!(
                    "an HS256 secret has at least {SECRET_BYTES_MIN} bytes: `openssl rand -hex 32`"
                );
                return Err(UsageError::new(text).into());
            }
            Ok((EncodingKey::from_secret(secret), Algorithm::HS256))
        }
        (None, Some(path)) => {
            let pem = read(path)?;
            let ed = EncodingKey::from_ed_pem(&pem).map(|key| (key, Algorithm::EdDSA));
            let any =
                ed.or_else(|_| EncodingKey::from_rsa_pem(&pem).map(|key| (key, Algorithm::RS256)));
            any.map_err(|_| {
                UsageError::new("--key holds no Ed25519 or RSA private key in PEM").into()
            })
        }
        (None, None) => Err(UsageError::new("give --secret-file FILE, or --key FILE").into()),
    }
}

fn seconds(ttl: &str) -> Result<i64, UsageError> {
    let refuse = || {
        UsageError::new(format!(
            "--ttl: `{ttl}` is not a time such as 90s, 15m, 1h or 7d"
        ))
    };
    let unit = ttl.chars().last().ok_or_else(refuse)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(refuse()),
    };
    let count: i64 = ttl[..ttl.len() - 1].parse().map_err(|_| refuse())?;
    count
        .checked_mul(factor)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let check =
            |text: &str, expected: Option<i64>| assert_eq!(seconds(text).ok(), expected, "{text}");
        check("90s", Some(90));
        check("15m", Some(900));
        check("1h", Some(3_600));
        check("7d", Some(604_800));
        for bad in [
            "",
            "s",
            "1",
            "0h",
            "-1h",
            "1 h",
            "1w",
            "99999999999999999d",
            "1時",
        ] {
            check(bad, None);
        }
    }
}
