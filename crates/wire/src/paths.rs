//! Paths of the HTTP API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Encodes a text as a path segment or a query value (RFC 3986).
#[must_use]
pub fn encoded(text: &str) -> String {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    match text {
        // URL parsers interpret segments of dots as relative paths.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(text, &RESERVED).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_place() {
        let check = |id: &str, path: &str| {
            assert_eq!(encoded(id), path);
        };
        check("ann", "ann");
        check("a/../b?c#d%", "a%2F..%2Fb%3Fc%23d%25");
        check("..", "%2E%2E");
        check("a@b.c", "a%40b.c");
        check("李雷", "%E6%9D%8E%E9%9B%B7");
    }
}
