//! Text of errors.

use std::error::Error;

/// An error and all its sources, on one line. A source is skipped if the text already contains it, because some
/// libraries repeat it.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let below = error.to_string();
        if !text.contains(&below) {
            text = format!("{text}: {below}");
        }
        source = error.source();
    }
    text
}
