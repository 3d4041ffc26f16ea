//! Passes the commit and its date to the build, for `qiang --version`. Needs no network, and is reproducible.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=QIANG_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // Git writes there whenever another commit is checked out.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
        && let Ok(log) = fs::canonicalize(log)
    {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    // A container or a source archive has no git: the builder passes the commit in a variable.
    let commit = env::var("QIANG_COMMIT").ok();
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let epoch = env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.or_else(|| git(&["show", "--no-patch", "--format=%ct", "HEAD"]));
    let date = epoch.and_then(|epoch| epoch.trim().parse().ok()).map(date);
    let or_unknown = |text: Option<String>, what| text.unwrap_or_else(|| format!("{what} unknown"));
    println!(
        "cargo::rustc-env=QIANG_COMMIT={}",
        or_unknown(commit, "commit")
    );
    println!("cargo::rustc-env=QIANG_DATE={}", or_unknown(date, "date"));
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

/// UTC date of a number of seconds since 1970 (Howard Hinnant's `civil_from_days`).
fn date(epoch: i64) -> String {
    let days = epoch.div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
