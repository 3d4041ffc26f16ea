//! SQL for MySQL and MariaDB calls no function that a MySQL release has removed.

use std::{fs, path::Path};

/// Functions that MySQL servers no longer have, each with the release that removed it.
const REMOVED: [(&str, &str); 19] = [
    (
        "md5",
        "9.6 moved it to a component that is not installed by default",
    ),
    (
        "sha1",
        "9.6 moved it to a component that is not installed by default",
    ),
    (
        "sha",
        "9.6 moved it to a component that is not installed by default",
    ),
    ("wait_until_sql_thread_after_gtids", "8.4 removed it"),
    ("password", "8.0 removed it"),
    ("old_password", "5.7 removed it"),
    ("encode", "8.0 removed it"),
    ("decode", "8.0 removed it"),
    ("encrypt", "8.0 removed it"),
    ("des_encrypt", "8.0 removed it"),
    ("des_decrypt", "8.0 removed it"),
    ("area", "8.0 removed the names without ST_"),
    ("astext", "8.0 removed the names without ST_"),
    ("contains", "8.0 removed the names without ST_"),
    ("distance", "8.0 removed the names without ST_"),
    ("equals", "8.0 removed the names without ST_"),
    ("glength", "8.0 removed the names without ST_"),
    ("numpoints", "8.0 removed the names without ST_"),
    ("within", "8.0 removed the names without ST_"),
];

/// Files with SQL for MySQL, from the folder of this crate. Statements for both databases are in `src/sql` and in Rust.
const PLACES: [&str; 3] = ["migrations/mysql", "src", "../audit/src"];

/// Removed functions that a text calls.
fn removed_in(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let calls = |name: &str| {
        let name = format!("{name}(");
        text.match_indices(&name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            // A name of Rust, such as `self.contains(`, is no function of SQL.
            !before.is_some_and(|it| it.is_alphanumeric() || "_.:".contains(it))
        })
    };
    let names = REMOVED.iter().map(|(name, _)| *name);
    names.filter(|name| calls(name)).collect()
}

/// SQL of a file: all of it, or the string literals of Rust.
fn sql_of(path: &Path, text: &str) -> String {
    match path.extension().is_some_and(|it| it == "rs") {
        true => text
            .split('"')
            .skip(1)
            .step_by(2)
            .collect::<Vec<_>>()
            .join("\n"),
        false => text.to_owned(),
    }
}

fn scan(folder: &Path, found: &mut Vec<String>, files: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // MySQL reads none of these.
            if !path.ends_with("postgres") {
                scan(&path, found, files);
            }
            continue;
        }
        if !path.extension().is_some_and(|it| it == "sql" || it == "rs") {
            continue;
        }
        *files += 1;
        let text = fs::read_to_string(&path).unwrap();
        for name in removed_in(&sql_of(&path, &text)) {
            found.push(format!("{}: {name}()", path.display()));
        }
    }
}

#[test]
fn no_statement_calls_a_function_that_mysql_removed() {
    let (mut found, mut files) = (Vec::new(), 0);
    for place in PLACES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
        scan(&folder, &mut found, &mut files);
    }
    assert!(files > 50, "{files}");
    assert!(found.is_empty(), "MySQL has removed: {found:#?}");
}

#[test]
fn a_removed_function_is_found() {
    assert_eq!(removed_in("SELECT MD5(a), SHA2(b, 256)"), ["md5"]);
    assert_eq!(removed_in("SELECT st_area(a), a.within(b)"), [""; 0]);
    let rust = "fn md5(a: u8) { sql(\"SELECT sha1(a)\"); }";
    let sql = sql_of(Path::new("a.rs"), rust);
    assert_eq!(removed_in(&sql), ["sha1"]);
}
