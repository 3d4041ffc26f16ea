//! `qiang token`: makes a bearer token.

use std::{path::PathBuf, process::ExitCode};

use qiang::{Scope, SystemClock, TokenIssuer, UsageError};
use qiang_core::{id::UserId, ports::Clock as _};

/// Make a token, signed with the server's secret or with a private key.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: qiang token --sub alice --secret-file /etc/qiang/secret --ttl 15m > token"
)]
pub(crate) struct TokenArgs {
    /// The token's user.
    #[arg(long, value_name = "USER")]
    sub: String,
    /// Scopes, separated by spaces: `claim`, `send`, `deposit`, `withdraw`, `pay`, `campaigns:write`,
    /// `campaigns:write:any`, `read:any`, `admin`. docs/integrate/tokens.md describes each scope.
    #[arg(long, default_value = "claim")]
    scope: String,
    /// Lifetime of the token, such as 90s, 15m, 1h or 7d.
    #[arg(long, default_value = "1h")]
    ttl: String,
    /// File with the server's HS256 secret.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// File with an Ed25519 or RSA private key in PEM. The server needs its public key.
    #[arg(long, value_name = "FILE", conflicts_with = "secret_file")]
    key: Option<PathBuf>,
    /// `kid`: the name of this key, if the server has a key set.
    #[arg(long)]
    kid: Option<String>,
    /// `jti`: an id of this token, by which it can be revoked.
    #[arg(long)]
    jti: Option<String>,
    /// `iss`, if the server requires one.
    #[arg(long)]
    issuer: Option<String>,
    /// `aud`, if the server requires one.
    #[arg(long)]
    audience: Option<String>,
}

pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let user =
        UserId::new(&args.sub).map_err(|error| UsageError::new(format!("--sub: {error}")))?;
    check_scope(&args.scope)?;
    let issuer = issuer(args)?
        .naming(args.issuer.clone(), args.audience.clone())
        .identifying(args.kid.clone(), args.jti.clone());
    let token = issuer.issue(&user, &args.scope, SystemClock.now(), seconds(&args.ttl)?)?;
    println!("{token}");
    Ok(ExitCode::SUCCESS)
}

fn check_scope(scope: &str) -> Result<(), UsageError> {
    let mut words = scope.split_ascii_whitespace();
    match words.find(|word| Scope::from_word(word).is_none()) {
        Some(word) => Err(UsageError::new(format!(
            "--scope: `{word}` is not one of {}",
            Scope::ALL.map(Scope::name).join(", ")
        ))),
        None => Ok(()),
    }
}

fn issuer(args: &TokenArgs) -> Result<TokenIssuer, UsageError> {
    let read = |path: &PathBuf| {
        std::fs::read(path)
            .map_err(|error| UsageError::new(format!("cannot read {}: {error}", path.display())))
    };
    match (&args.secret_file, &args.key) {
        (Some(path), _) => TokenIssuer::from_secret(read(path)?.trim_ascii()),
        (None, Some(path)) => TokenIssuer::from_private_key(&read(path)?),
        (None, None) => Err(UsageError::new("give --secret-file FILE, or --key FILE")),
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
