//! `qiang split verify`: does a revealed seed fit what was published?

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use qiang_core::split::{Commitment, Seed};
use serde::Deserialize;

use super::{
    binding::{BindingArgs, PartsArgs},
    params::ParamArgs,
};

/// Check a revealed seed, and the shares if given, against a published commitment.
///
/// Exits with 0 when all that is given matches, with 1 when something does not.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    params: ParamArgs,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    parts: PartsArgs,
    /// The revealed seed, 64 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    seed: Seed,
    /// The commitment published at the opening, 64 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    commitment: Commitment,
    /// All shares in the order in which they were granted; repeat it or separate them by commas
    #[arg(
        long,
        value_name = "AMOUNT",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    share: Vec<i64>,
    /// A file with all shares, or - for standard input: amounts between spaces, commas or line ends, or what
    /// `qiang split --json` printed
    #[arg(long, value_name = "FILE", conflicts_with = "share")]
    shares_file: Option<PathBuf>,
}

pub(super) fn run(args: &VerifyArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let split = args.params.split()?;
    let claimed = match &args.shares_file {
        Some(path) => Some(read_shares(path)?),
        None if args.share.is_empty() => None,
        None => Some(args.share.clone()),
    };

    let parts = args.parts.check(&args.binding, &args.seed);
    match parts {
        None => {}
        Some(None) => writeln!(out, "promise     kept, and the seed is made of both parts")?,
        Some(Some(fault)) => writeln!(out, "promise     not kept: {fault}")?,
    }
    let ours = args.binding.commit(&args.seed, &split);
    let committed = ours == args.commitment;
    if committed {
        writeln!(out, "commitment  matches")?;
    } else {
        writeln!(
            out,
            "commitment  does not match: this seed and split commit to {ours}"
        )?;
    }
    let difference = claimed
        .as_ref()
        .map(|claimed| difference(claimed, &split.shares(&args.seed)));
    match &difference {
        None => {}
        Some(None) => writeln!(out, "shares      match, all {}", split.count())?,
        Some(Some(difference)) => writeln!(out, "shares      do not match: {difference}")?,
    }
    let matches = committed && parts.flatten().is_none() && difference.flatten().is_none();
    Ok(if matches {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The first thing in which the claimed shares are not the split's.
fn difference(claimed: &[i64], shares: &[i64]) -> Option<String> {
    if claimed.len() != shares.len() {
        let (given, expected) = (claimed.len(), shares.len());
        return Some(format!("{given} were given, the split has {expected}"));
    }
    let index = claimed
        .iter()
        .zip(shares)
        .position(|(claimed, share)| claimed != share)?;
    let (number, given, expected) = (index + 1, claimed[index], shares[index]);
    Some(format!(
        "share {number} was given as {given}, the split makes it {expected}"
    ))
}

fn read_shares(path: &Path) -> anyhow::Result<Vec<i64>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let refused = || {
        format!(
            "give --shares-file a file of whole amounts, not {}",
            path.display()
        )
    };
    text.map_err(anyhow::Error::from)
        .and_then(|text| parse_shares(&text))
        .with_context(refused)
}

fn parse_shares(text: &str) -> anyhow::Result<Vec<i64>> {
    #[derive(Deserialize)]
    struct Report {
        shares: Vec<i64>,
    }
    if text.trim_start().starts_with('{') {
        return Ok(serde_json::from_str::<Report>(text)?.shares);
    }
    text.split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
        .map(|word| {
            word.parse()
                .with_context(|| format!("{word:?} is no amount"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_each_form() {
        let check = |text, expected: &[i64]| {
            assert_eq!(
                parse_shares(text).ok().as_deref(),
                Some(expected),
                "{text:?}"
            );
        };
        check("1\n2\r\n3\n", &[1, 2, 3]);
        check("1, 2 3,", &[1, 2, 3]);
        check("", &[]);
        check(" {\"shares\": [1, 2], \"rule\": \"equal\"}\n", &[1, 2]);
        assert!(parse_shares("1 2.5").is_err());
        assert!(parse_shares("{\"shares\": [1.5]}").is_err());
        assert!(parse_shares("{}").is_err());
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(&[1, 2], &[1, 2]), None);
        assert_eq!(
            difference(&[1, 9, 9], &[1, 2, 3]).as_deref(),
            Some("share 2 was given as 9, the split makes it 2")
        );
        assert_eq!(
            difference(&[], &[1]).as_deref(),
            Some("0 were given, the split has 1")
        );
    }
}
