//! Choice of colours: by `--color`, or else by NO_COLOR and the terminal.

use std::sync::OnceLock;

use clap::ColorChoice;

static CHOSEN: OnceLock<ColorChoice> = OnceLock::new();

/// Parses the flag's value.
pub(crate) fn parse(text: &str) -> Result<ColorChoice, String> {
    let parsed = text.parse::<ColorChoice>();
    parsed.map_err(|_| "choose one of auto, always, never".to_owned())
}

/// Choice for help and usage errors, which are printed before the flags are parsed.
pub(crate) fn help_styles() -> ColorChoice {
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
    let given = given.and_then(|given| parse(given).ok());
    given.unwrap_or_default()
}

/// Stores the flag for the log. Call it once.
pub(crate) fn set(flag: Option<ColorChoice>) {
    if let Some(flag) = flag {
        // The first call is the only one.
        let _ = CHOSEN.set(flag);
    }
}

/// The flag as a configuration key and value.
pub(crate) fn overrides() -> Option<(&'static str, String)> {
    CHOSEN.get().map(|when| ("log.color", when.to_string()))
}

/// Whether the screen of `qiang top` has colours.
#[cfg(feature = "top")]
pub(crate) fn is_on_screen() -> bool {
    // See <https://no-color.org>.
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    match CHOSEN.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        Some(ColorChoice::Auto) | None => !no_color,
    }
}
