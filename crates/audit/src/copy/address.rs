//! Addresses of databases, and their text without the password.

use anyhow::{Context as _, bail};
use qiang_core::database::DatabaseKind;
use sqlx::{ConnectOptions as _, mysql::MySqlConnectOptions, postgres::PgConnectOptions};

pub(super) enum AddressOptions {
    Postgres(PgConnectOptions),
    MySql(MySqlConnectOptions),
}

const NOT_A_LEDGER: &str = "a ledger's URL begins with postgres://, postgresql://, mysql:// or mariadb://; \
                            for a ledger in a file there is --db";
const NOT_READABLE: &str = "the ledger's URL cannot be read: it is postgres://USER:PASSWORD@HOST:PORT/DATABASE, \
                            and in a name or a password the characters / ? # @ % are written %2F %3F %23 %40 %25";

/// Parses a URL to the shown address of the database and the connection options. Neither the address nor an error shows
/// the password.
pub(super) fn parse(url: &str) -> anyhow::Result<(String, AddressOptions)> {
    let kind = DatabaseKind::from_url(url).context(NOT_A_LEDGER)?;
    let (scheme, rest) = url.split_once("://").context(NOT_A_LEDGER)?;
    // A password with one of these characters would be parsed, and shown, as a host.
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if rest[authority_end..].contains(['@', '#']) {
        bail!(NOT_READABLE);
    }
    let place = |user, host, port: u16| format!("{scheme}://{user}@{host}:{port}");
    match kind {
        DatabaseKind::Postgres => {
            let options: PgConnectOptions = url.parse().ok().context(NOT_READABLE)?;
            let options = options
                .application_name("qiang audit")
                .disable_statement_logging();
            let user = options.get_username();
            let place = place(user, options.get_host(), options.get_port());
            let named = options.get_database().filter(|name| !name.is_empty());
            let place = format!("{place}/{}", named.unwrap_or(user));
            Ok((place, AddressOptions::Postgres(options)))
        }
        DatabaseKind::MySql => {
            let options: MySqlConnectOptions = url.parse().ok().context(NOT_READABLE)?;
            let options = options.charset("utf8mb4").disable_statement_logging();
            let user = options.get_username();
            let place = place(user, options.get_host(), options.get_port());
            let named = options.get_database().filter(|name| !name.is_empty());
            let missing = || format!("{place}: the ledger's URL names no database");
            let place = format!("{place}/{}", named.with_context(missing)?);
            Ok((place, AddressOptions::MySql(options)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        match parse(url) {
            Ok((place, _)) => place,
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
