//! Logs: on standard error, for people or as JSON.

use std::io::IsTerminal as _;

use qiang_api::UsageError;
use tracing_subscriber::{EnvFilter, reload};

use crate::config::{LogColor, LogConfig, LogFormat};

/// The running log.
pub(crate) struct Logging {
    set_filter: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
}

impl Logging {
    /// Starts logging to standard error. To be called once in a process.
    pub(crate) fn start(config: &LogConfig) -> anyhow::Result<Self> {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter(config)?)
            .with_writer(std::io::stderr);
        let set_filter: Box<dyn Fn(EnvFilter) -> _ + Send + Sync> = match config.format {
            LogFormat::Text => {
                let builder = builder.with_ansi(colors(config.color));
                let builder = builder.with_filter_reloading();
                let handle = builder.reload_handle();
                builder.init();
                Box::new(move |filter| handle.reload(filter))
            }
            LogFormat::Json => {
                let builder = builder.json().with_filter_reloading();
                let handle = builder.reload_handle();
                builder.init();
                Box::new(move |filter| handle.reload(filter))
            }
        };
        Ok(Self { set_filter })
    }

    /// Logs by another level from here on. The format stays.
    ///
    /// # Errors
    /// When the level is none; the one before stays.
    pub(crate) fn reload(&self, config: &LogConfig) -> anyhow::Result<()> {
        Ok((self.set_filter)(filter(config)?)?)
    }

    /// # Errors
    /// When the level is none.
    pub(crate) fn check(config: &LogConfig) -> anyhow::Result<()> {
        filter(config).map(drop)
    }
}

fn colors(color: LogColor) -> bool {
    // See <https://no-color.org>.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    match color {
        LogColor::Auto => std::io::stderr().is_terminal() && !no_color,
        LogColor::Always => true,
        LogColor::Never => false,
    }
}

fn filter(config: &LogConfig) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| UsageError::new(format!("log.level is not valid: {error}")))?;
    Ok(filter)
}
