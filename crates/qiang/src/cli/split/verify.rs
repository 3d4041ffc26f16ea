//! `qiang split verify`: checks a revealed seed against the published commitment.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use qiang_core::split::{Commitment, Seed};
use serde::{Deserialize, Serialize};

use super::{
    binding::{BindingArgs, PartsArgs},
    params::ParamArgs,
};

const EXAMPLE: &str = "\
Example: qiang split verify --total 10000 --count 3 --rule equal --shares-file shares --json \
--id 01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80 --currency CNY \
--seed 0000000000000000000000000000000000000000000000000000000000000000 \
--commitment 0000000000000000000000000000000000000000000000000000000000000000";

/// Check a revealed seed, and the shares if given, against a published commitment.
///
/// Exits 0 if everything matches, and 1 if something does not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
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
    /// All shares in the order of the grants; repeat the flag, or separate them by commas
    #[arg(
        long,
        value_name = "AMOUNT",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    share: Vec<i64>,
    /// A file with all shares, or - for standard input: amounts separated by spaces, commas or line ends, or the output
    /// of `qiang split --json`
    #[arg(long, value_name = "FILE", conflicts_with = "share")]
    shares_file: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    /// Whether everything matches.
    matches: bool,
    /// Whether the server seed has the published hash. Absent if no hash is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_seed: Option<Checked>,
    commitment: Checked,
    /// Absent if no shares are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<Checked>,
}

#[derive(Serialize)]
struct Checked {
    matches: bool,
    /// First difference; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
}

impl Checked {
    fn new(difference: Option<String>) -> Self {
        Self {
            matches: difference.is_none(),
            difference,
        }
    }
}

pub(super) fn run(args: &VerifyArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let split = args.params.split()?;
    let claimed = match &args.shares_file {
        Some(path) => Some(read_shares(path)?),
        None if args.share.is_empty() => None,
        None => Some(args.share.clone()),
    };

    let parts = args.parts.check(&args.binding, &args.seed);
    let server_seed = parts.map(|fault| Checked::new(fault.map(str::to_owned)));
    let ours = args.binding.commit(&args.seed, &split);
    let other = || format!("this seed and split commit to {ours}");
    let commitment = Checked::new((ours != args.commitment).then(other));
    let shares = claimed.map(|claimed| {
        let drawn = split.shares(&args.seed);
        Checked::new(difference(&claimed, &drawn))
    });
    let others = [&server_seed, &shares];
    let matches = commitment.matches && others.into_iter().flatten().all(|it| it.matches);
    let report = Report {
        matches,
        server_seed,
        commitment,
        shares,
    };
    if args.json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        report.write(split.count(), out)?;
    }
    Ok(if matches {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Report {
    /// Writes the result as text.
    fn write(&self, count: u32, out: &mut impl Write) -> anyhow::Result<()> {
        match self
            .server_seed
            .as_ref()
            .map(|server_seed| &server_seed.difference)
        {
            None => {}
            Some(None) => writeln!(
                out,
                "server seed matches its hash, and the seed is made of both parts"
            )?,
            Some(Some(fault)) => writeln!(out, "server seed differs: {fault}")?,
        }
        match &self.commitment.difference {
            None => writeln!(out, "commitment  matches")?,
            Some(other) => writeln!(out, "commitment  does not match: {other}")?,
        }
        match self.shares.as_ref().map(|shares| &shares.difference) {
            None => {}
            Some(None) => writeln!(out, "shares      match, all {count}")?,
            Some(Some(difference)) => writeln!(out, "shares      do not match: {difference}")?,
        }
        Ok(())
    }
}

/// First difference between the claimed shares and the shares of the split.
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
            "cannot read {}: give --shares-file a file of whole amounts",
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
                .with_context(|| format!("{word:?} is not an amount"))
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
