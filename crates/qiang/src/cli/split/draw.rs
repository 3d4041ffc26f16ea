//! `qiang split`: draws the shares and shows them.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use qiang_core::split::{Commitment, SPLIT_VERSION, Seed, Split};
use rand::TryRng;
use rand::rngs::SysRng;
use serde::Serialize;

use super::binding::PacketArgs;
use super::{params::ParamArgs, svg};
use crate::histogram::{Histogram, Summary};

/// Rows of the histogram in the terminal, and the width of its longest bar.
const ROWS_MAX: u64 = 20;
const BAR_WIDTH: u64 = 48;

#[derive(Debug, clap::Args)]
pub(super) struct DrawArgs {
    #[command(flatten)]
    packet: PacketArgs,
    /// The seed, 64 hexadecimal digits. Default: a random one
    #[arg(long, value_name = "HEX")]
    seed: Option<Seed>,
    /// Print one JSON object, with every share, instead of text
    #[arg(long)]
    json: bool,
    /// Also draw the histogram into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also print every share, one per line, in the order in which they are granted
    #[arg(long)]
    shares: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct DrawReport<'a> {
    seed: String,
    /// Absent if no red packet is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    commitment: Option<String>,
    version: u8,
    total: i64,
    count: u32,
    rule: &'static str,
    /// Absent from rules without a smallest or largest share, as the options are.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<i64>,
    shares: &'a [i64],
}

pub(super) fn run(
    params: &ParamArgs,
    args: &DrawArgs,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let split = params.split()?;
    let seed = match &args.seed {
        Some(seed) => seed.clone(),
        None => fresh_seed()?,
    };
    let shares = split.shares(&seed);
    let commitment = args.packet.commit(&seed, &split);
    if args.json {
        write_json(out, &split, &seed, commitment, &shares)?;
    } else {
        write_text(out, &split, &seed, commitment, &shares)?;
        if args.shares {
            writeln!(out)?;
            for share in &shares {
                writeln!(out, "{share}")?;
            }
        }
    }
    if let Some(path) = &args.svg {
        svg::write(path, &Title(&split).to_string(), &shares).with_context(|| {
            format!(
                "cannot write {}: give --svg a writable file",
                path.display()
            )
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn fresh_seed() -> anyhow::Result<Seed> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .context("the system has no random numbers: give --seed")?;
    Ok(Seed::from_bytes(bytes))
}

fn write_json(
    out: &mut impl Write,
    split: &Split,
    seed: &Seed,
    commitment: Option<Commitment>,
    shares: &[i64],
) -> io::Result<()> {
    let (rule, min, max) = split.rule().parts();
    let report = DrawReport {
        seed: seed.to_string(),
        commitment: commitment.map(|commitment| commitment.to_string()),
        version: SPLIT_VERSION,
        total: split.total(),
        count: split.count(),
        rule: rule.name(),
        min,
        max,
        shares,
    };
    serde_json::to_writer(&mut *out, &report)?;
    writeln!(out)
}

fn write_text(
    out: &mut impl Write,
    split: &Split,
    seed: &Seed,
    commitment: Option<Commitment>,
    shares: &[i64],
) -> io::Result<()> {
    let summary = Summary::from_shares(shares);
    writeln!(
        out,
        "seed        {seed}  (secret until the red packet is closed)"
    )?;
    if let Some(commitment) = commitment {
        writeln!(out, "commitment  {commitment}  (publish it first)")?;
    }
    writeln!(out, "split       {}, version {SPLIT_VERSION}", Title(split))?;
    writeln!(
        out,
        "shares      min {}, max {}, mean {:.2}, stddev {:.2}",
        summary.min, summary.max, summary.mean, summary.stddev
    )?;
    writeln!(out)?;
    Histogram::from_shares(shares, ROWS_MAX).write_bars(out, BAR_WIDTH)
}

struct Title<'a>(&'a Split);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let split = self.0;
        let (rule, min, max) = split.rule().parts();
        let plural = if split.count() == 1 { "" } else { "s" };
        write!(
            f,
            "{} in {} share{plural}, {rule}",
            split.total(),
            split.count(),
        )?;
        if let Some(min) = min {
            write!(f, ", min {min}")?;
        }
        if let Some(max) = max {
            write!(f, ", max {max}")?;
        }
        Ok(())
    }
}
