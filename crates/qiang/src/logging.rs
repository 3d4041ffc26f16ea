//! Logs on standard error, as text or JSON.

use std::io::IsTerminal as _;

use qiang_api::UsageError;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::{
    config::{LogColor, LogConfig, LogFormat},
    log_lines::LineQueue,
};

/// The log of a serving process. Dropping it writes the pending lines.
pub(crate) struct Logging {
    filter: reload::Handle<Targets, Registry>,
    lines: LineQueue,
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.lines.flush();
    }
}

impl Logging {
    /// Starts logging to standard error. A process may call this once.
    pub(crate) fn start(config: &LogConfig) -> anyhow::Result<Self> {
        let lines = LineQueue::start()?;
        let filter = start_with(config, filter(config)?, lines.clone());
        Ok(Self { filter, lines })
    }

    /// Starts logging of one target to standard error, at most at the configured level. For commands that do not serve.
    /// A process may call this once.
    pub(crate) fn start_of(config: &LogConfig, target: &'static str) -> anyhow::Result<()> {
        let level = Level::INFO;
        let wanted = filter(config)?.would_enable(target, &level);
        let level = if wanted {
            level.into()
        } else {
            LevelFilter::OFF
        };
        let only = Targets::new().with_target(target, level);
        start_with(config, only, std::io::stderr);
        Ok(())
    }

    /// Changes the level. The format stays.
    ///
    /// # Errors
    /// If the level is not valid. The level before stays.
    pub(crate) fn reload(&self, config: &LogConfig) -> anyhow::Result<()> {
        Ok(self.filter.reload(filter(config)?)?)
    }

    /// Checks the level.
    ///
    /// # Errors
    /// If the level is not valid.
    pub(crate) fn check(config: &LogConfig) -> anyhow::Result<()> {
        filter(config).map(drop)
    }
}

fn start_with<W>(
    config: &LogConfig,
    filter: Targets,
    writer: W,
) -> reload::Handle<Targets, Registry>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(writer);
    match config.format {
        LogFormat::Text => registry.with(lines.with_ansi(colors(config.color))).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    handle
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

/// Prefix of the targets of all crates of this workspace.
const OWN_TARGETS: &str = "qiang";

/// Targets and levels. A level alone is for this service's own lines: below `info`, libraries stay at `info`, because
/// those of the database and of HTTP/2 log each statement and frame.
fn filter(config: &LogConfig) -> anyhow::Result<Targets> {
    let level = config.level.trim();
    if let Ok(own) = level.parse::<LevelFilter>()
        && own > LevelFilter::INFO
    {
        let libraries = Targets::new().with_default(LevelFilter::INFO);
        return Ok(libraries.with_target(OWN_TARGETS, own));
    }
    let filter = level
        .parse()
        .map_err(|error| UsageError::new(format!("log.level is not valid: {error}")))?;
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_below_info_is_for_own_lines() {
        let is_on = |level: &str, target: &str, of: Level| {
            let config = LogConfig {
                format: LogFormat::Text,
                color: LogColor::Never,
                level: level.to_owned(),
            };
            filter(&config).unwrap().would_enable(target, &of)
        };
        for level in ["debug", "DEBUG", "trace"] {
            assert!(is_on(level, "qiang_api::server", Level::DEBUG));
            assert!(is_on(level, "qiang::run", Level::DEBUG));
            assert!(!is_on(level, "sqlx::query", Level::DEBUG));
            assert!(is_on(level, "sqlx::query", Level::INFO));
        }
        assert!(is_on("info,sqlx=debug", "sqlx::query", Level::DEBUG));
        assert!(!is_on("info,sqlx=debug", "qiang_api::http", Level::DEBUG));
        assert!(!is_on("info", "qiang_api::http", Level::DEBUG));
        assert!(!is_on("warn", "sqlx::query", Level::INFO));
        assert!(!is_on("off", "qiang_api::http", Level::ERROR));
    }
}
