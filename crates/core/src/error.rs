//! Errors in words.

use std::error::Error;

/// An error and everything below it, on one line. A source that is in the text already is left out: some libraries'
/// messages repeat theirs.
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
