//! Kinds of databases, recognised by URL.

/// The databases in which a ledger can be stored, apart from its own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// `postgres://` or `postgresql://`.
    Postgres,
    /// MySQL or MariaDB: `mysql://` or `mariadb://`.
    MySql,
}

impl DatabaseKind {
    /// Kind of the database by the URL's scheme; `None` for any other scheme.
    pub fn from_url(url: &str) -> Option<Self> {
        match url.split_once("://")?.0 {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::MySql),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_which_database_it_is() {
        let check = |url, expected| assert_eq!(DatabaseKind::from_url(url), expected, "{url}");
        check("postgres://u:p@h:1/db", Some(DatabaseKind::Postgres));
        check("postgresql:///db", Some(DatabaseKind::Postgres));
        check("mysql://h/db", Some(DatabaseKind::MySql));
        check("mariadb://h/db", Some(DatabaseKind::MySql));
        check("redis://h", None);
        check("postgresx://h", None);
        check("mysql:h", None);
        check("", None);
    }
}
