//! Refuses passwords in arguments: all users of a machine can read the arguments of its processes.

use qiang::UsageError;

/// Refuses a flag's URLs if one has a password. The error names the right place: a variable, or a file that only
/// the service reads.
pub(crate) fn refuse(flag: &str, urls: Option<&str>, instead: &str) -> Result<(), UsageError> {
    match urls.is_some_and(has_password) {
        true => Err(UsageError::new(format!(
            "{flag}: a URL with a password as an argument is readable by all users of the machine: put it into \
             {instead}"
        ))),
        false => Ok(()),
    }
}

/// Whether one of these URLs, separated by commas, has a password: after the user, or as a parameter.
fn has_password(urls: &str) -> bool {
    urls.split(',').any(|url| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        // An unescaped `/` does not hide the part before the last `@`.
        let user = rest.rsplit_once('@').map(|(user, _)| user);
        let parameters = rest.split_once('?').map(|(_, parameters)| parameters);
        user.is_some_and(|user| user.contains(':'))
            || parameters.is_some_and(|parameters| parameters.to_lowercase().contains("password="))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_and_not_repeated() {
        for bad in [
            "postgres://ann:sesame@db/books",
            "postgres://ann:12/sesame@db/books",
            "mysql://ann:se%2Fsame@db:3306/books",
            "redis://:sesame@h:1",
            "redis://h:1,redis://ann:sesame@h:2",
            "amqp://guest:sesame@h/%2f",
            "postgres://ann@db/books?sslmode=require&password=sesame",
        ] {
            let error = refuse("--x", Some(bad), "X").unwrap_err().to_string();
            assert!(
                error.contains("--x") && !error.contains("sesame"),
                "{error}"
            );
        }
        for good in [
            "postgres://ann@db:5432/books?sslmode=require",
            "redis://h:1,redis://ann@h:2,redis://h:3",
            "rediss://h:1/0",
            "amqp://127.0.0.1:5672",
            "",
        ] {
            assert!(refuse("--x", Some(good), "X").is_ok(), "{good}");
        }
        assert!(refuse("--x", None, "X").is_ok());
    }
}
