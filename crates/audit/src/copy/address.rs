//! Where a database is, and how that is said: without the password.

use qiang_core::database::DatabaseKind;
use sqlx::{ConnectOptions as _, mysql::MySqlConnectOptions, postgres::PgConnectOptions};

use super::CannotCopy;

/// A database: what to call it, and how to connect to it.
pub(super) enum Address {
    Postgres(String, PgConnectOptions),
    MySql(String, MySqlConnectOptions),
}

impl Address {
    /// What to call it.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Postgres(place, _) | Self::MySql(place, _) => place,
        }
    }
}

/// Reads a URL.
pub(super) fn parse(url: &str) -> Result<Address, CannotCopy> {
    let kind = DatabaseKind::of(url).ok_or(CannotCopy::Scheme)?;
    let (scheme, rest) = url.split_once("://").ok_or(CannotCopy::Scheme)?;
    // A password with one of these characters in it would be taken for a host, and shown as one.
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if rest[authority_end..].contains(['@', '#']) {
        return Err(CannotCopy::Url);
    }
    match kind {
        DatabaseKind::Postgres => {
            let options: PgConnectOptions = url.parse().map_err(|_| CannotCopy::Url)?;
            let options = options
                .application_name("qiang audit")
                .disable_statement_logging();
            let place = place(
                scheme,
                options.get_username(),
                options.get_host(),
                options.get_port(),
            );
            let named = options.get_database().filter(|name| !name.is_empty());
            let database = named.unwrap_or(options.get_username()).to_owned();
            Ok(Address::Postgres(format!("{place}/{database}"), options))
        }
        DatabaseKind::MySql => {
            let options: MySqlConnectOptions = url.parse().map_err(|_| CannotCopy::Url)?;
            let options = options.charset("utf8mb4").disable_statement_logging();
            let place = place(
                scheme,
                options.get_username(),
                options.get_host(),
                options.get_port(),
            );
            match options.get_database().filter(|name| !name.is_empty()) {
                Some(database) => Ok(Address::MySql(format!("{place}/{database}"), options)),
                None => Err(CannotCopy::NoDatabase { place }),
            }
        }
    }
}

fn place(scheme: &str, user: &str, host: &str, port: u16) -> String {
    format!("{scheme}://{user}@{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        match parse(url) {
            Ok(address) => address.place().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_place_is_shown_without_its_password() {
        let check = |url: &str, place: &str| assert_eq!(shown(url), place, "{url}");
        check(
            "postgres://ann:secret@db.test:6432/books?sslmode=disable",
            "postgres://ann@db.test:6432/books",
        );
        check(
            "postgresql://ann@127.0.0.1/books",
            "postgresql://ann@127.0.0.1:5432/books",
        );
        check(
            "mysql://ann:se%2Fcret@127.0.0.1/books",
            "mysql://ann@127.0.0.1:3306/books",
        );
        check(
            "mariadb://ann:se@cret@127.0.0.1:33/books",
            "mariadb://ann@127.0.0.1:33/books",
        );
        check(
            "postgres://db.test/books?user=ann&password=secret",
            "postgres://ann@db.test:5432/books",
        );
    }

    #[test]
    fn what_is_refused_does_not_show_the_password_either() {
        for url in [
            "postgres://ann:12/secret@db.test/books",
            "postgres://ann:12#secret@db.test/books",
            "postgres://ann:12?secret@db.test/books",
            "mysql://ann:secret@db.test:port/books",
            "mysql://ann:secret@db.test",
            "redis://ann:secret@db.test",
            "ann:secret",
        ] {
            assert!(parse(url).is_err(), "{url}");
            assert!(!shown(url).contains("secret"), "{url}: {}", shown(url));
        }
    }
}
