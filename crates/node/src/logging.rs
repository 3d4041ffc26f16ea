//! Logs: on standard error, for people or as JSON.

use std::io::IsTerminal as _;

use qiang_api::UsageError;
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error. To be called once in a process.
pub(crate) fn log_to_stderr(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| UsageError::new(format!("log.level is not valid: {error}")))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
