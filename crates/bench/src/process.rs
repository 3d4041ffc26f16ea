//! Processor time and memory of processes, from `/proc`.

use std::fs;

use anyhow::Context as _;

/// Processor time of this process, in seconds with a resolution of 0.01 s.
pub(crate) fn cpu_seconds() -> anyhow::Result<f64> {
    cpu_seconds_of("self")
}

/// Processor time of a process with this pid, in seconds.
pub(crate) fn cpu_seconds_of(process: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| {
        format!("cannot read {path}: CPU time needs a running process on Linux")
    })?;
    // The second field, the program's name, ends with the last closing parenthesis; user and system time are the 14th
    // and the 15th field.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let times = behind_name.split_ascii_whitespace().skip(11).take(2);
    let ticks: f64 = times.map(str::parse::<f64>).sum::<Result<_, _>>()?;
    Ok(ticks / 100.0)
}

/// Resident memory of this process in bytes, without pages of files.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    resident_bytes_of("self")
}

/// Resident memory of a process with this pid in bytes, without pages of files.
pub(crate) fn resident_bytes_of(process: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}: memory is measured on Linux only"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.context("no RssAnon in /proc")?;
    let kib: u64 = kib.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1_024)
}
