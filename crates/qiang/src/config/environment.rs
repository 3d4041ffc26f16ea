//! Variables of the environment that may set keys.

use std::ffi::OsString;

use qiang_api::UsageError;

/// Names and values of all variables.
///
/// # Errors
/// If a variable that may set a key is not valid Unicode. Values of other variables are not used.
pub(super) fn variables(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, UsageError> {
    let mut read = Vec::new();
    for (name, value) in environment {
        let text = name.to_string_lossy().into_owned();
        let is_ours = text.to_ascii_lowercase().starts_with("qiang__");
        if is_ours && (name.to_str().is_none() || value.to_str().is_none()) {
            return Err(UsageError::new(format!("{text} is not valid UTF-8")));
        }
        read.push((text, value.to_string_lossy().into_owned()));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::{super::NodeConfig, *};

    #[test]
    fn a_variable_of_ours_that_is_no_text_is_refused() {
        let read = |name: &[u8], value: &[u8]| {
            let text = |bytes: &[u8]| {
                let text: OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec());
                text
            };
            let read = NodeConfig::read(None, [(text(name), text(value))], &[]);
            read.err().map(|error| error.to_string())
        };
        let line = read(b"QIANG__REDIS__URLS", b"redis://\xff");
        assert_eq!(line.unwrap(), "QIANG__REDIS__URLS is not valid UTF-8");
        let line = read(b"qiang__redis\xff", b"x");
        assert_eq!(line.unwrap(), "qiang__redis\u{fffd} is not valid UTF-8");
        // A misspelt name is named, with any value.
        let line = read(b"QIANG_REDIS_URLS", b"\xff").unwrap();
        assert!(line.contains("QIANG__REDIS__URLS"), "{line}");
        assert_eq!(read(b"PATH", b"/bin\xff"), None);
        assert_eq!(read(b"PATH\xff", b"/bin"), None);
    }
}
