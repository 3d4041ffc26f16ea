//! Variables of the environment that commands read.

use std::ffi::OsString;

use qiang::UsageError;

/// Value of a variable; `None` if it is not set, or empty.
///
/// # Errors
/// If it is not valid Unicode.
pub(crate) fn variable(name: &str) -> Result<Option<String>, UsageError> {
    text(name, std::env::var_os(name))
}

fn text(name: &str, value: Option<OsString>) -> Result<Option<String>, UsageError> {
    let text = value.map(OsString::into_string).transpose();
    let text = text.map_err(|_| UsageError::new(format!("{name} is not valid UTF-8")))?;
    Ok(text.filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_no_text_is_refused() {
        let text = |value: Option<&[u8]>| {
            let value = value.map(<[u8]>::to_vec);
            text(
                "TOKEN",
                value.map(std::os::unix::ffi::OsStringExt::from_vec),
            )
        };
        assert_eq!(text(Some(b"a b")).unwrap().as_deref(), Some("a b"));
        for none in [None, Some(&b""[..])] {
            assert_eq!(text(none).unwrap(), None);
        }
        let line = text(Some(b"a\xff")).unwrap_err().to_string();
        assert_eq!(line, "TOKEN is not valid UTF-8");
    }
}
