//! Target path of a sign-in.

use axum::response::Redirect;

/// Validates the target path of a sign-in: a path of this service, or `/`.
pub(crate) fn checked(asked: Option<&str>) -> &str {
    // `//host` leads to another host. Browsers read `\` as `/` and ignore tabs and line ends. A path is visible
    // ASCII; its other characters are escaped.
    let is_own = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    asked.filter(is_own).unwrap_or("/")
}

/// Redirects to the sign-in page, which then leads to a path of this service.
pub(crate) fn sign_in_first(path: &str) -> Redirect {
    Redirect::to(&format!("/sign-in?then={}", checked(Some(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_another_site_is_replaced() {
        for (asked, expected) in [
            (Some("/p/1"), "/p/1"),
            (Some("//evil.example"), "/"),
            (Some("/\\evil.example"), "/"),
            (Some("https://evil.example"), "/"),
            // Browsers ignore tabs and line ends at any position.
            (Some("/\t/evil.example"), "/"),
            (Some("/\n/evil.example"), "/"),
            (Some("/\r\n/evil.example"), "/"),
            (Some("/\t\\evil.example"), "/"),
            (Some("/p/1\r\nset-cookie: a=b"), "/"),
            (Some("/p\u{0}"), "/"),
            (Some("/红包"), "/"),
            (Some("/p/1 2"), "/"),
            (Some("/p\\1"), "/"),
            (
                Some("/orders?after=a%2Fb&lang=zh#x"),
                "/orders?after=a%2Fb&lang=zh#x",
            ),
            (Some(""), "/"),
            (None, "/"),
        ] {
            assert_eq!(checked(asked), expected, "{asked:?}");
        }
    }
}
