//! Choice of colours: by `--color`, or else by NO_COLOR and the terminal.

use std::sync::OnceLock;

use clap::ColorChoice;

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

static CHOSEN: OnceLock<When> = OnceLock::new();

impl When {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err("choose one of auto, always, never".to_owned()),
        }
    }

    /// Value of the configuration key `log.color`.
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Choice for help and usage errors, which are printed before the flags are parsed.
pub(crate) fn of_help() -> ColorChoice {
    let words: Vec<_> = std::env::args().collect();
    let given =
        words
            .iter()
            .enumerate()
            .find_map(|(at, word)| match word.strip_prefix("--color") {
                Some("") => words.get(at + 1).map(String::as_str),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            });
    match given.and_then(|given| When::parse(given).ok()) {
        Some(When::Always) => ColorChoice::Always,
        Some(When::Never) => ColorChoice::Never,
        Some(When::Auto) | None => ColorChoice::Auto,
    }
}

/// Stores the flag for the log. Call it once.
pub(crate) fn set(flag: Option<When>) {
    if let Some(flag) = flag {
        // The first call is the only one.
        let _ = CHOSEN.set(flag);
    }
}

/// The flag as a configuration key and value.
pub(crate) fn overrides() -> Option<(&'static str, String)> {
    CHOSEN
        .get()
        .map(|when| ("log.color", when.name().to_owned()))
}

/// Whether the screen of `qiang top` has colours.
#[cfg(feature = "top")]
pub(crate) fn is_on_screen() -> bool {
    // See <https://no-color.org>.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    match CHOSEN.get() {
        Some(When::Always) => true,
        Some(When::Never) => false,
        Some(When::Auto) | None => !no_color,
    }
}
