//! What a process costs.

use anyhow::Context as _;

/// Processor time that this process has used, from the kernel's account in hundredths of a second.
pub(super) fn cpu_seconds() -> anyhow::Result<f64> {
    let stat =
        std::fs::read_to_string("/proc/self/stat").context("CPU time is measured on Linux only")?;
    // The second field, the program's name, ends with the last closing parenthesis; user and system time are the
    // 14th and the 15th.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let times = behind_name.split_ascii_whitespace().skip(11).take(2);
    let ticks: f64 = times.map(str::parse::<f64>).sum::<Result<_, _>>()?;
    Ok(ticks / 100.0)
}
