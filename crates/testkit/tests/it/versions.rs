//! docs/reference/servers.md names the versions of the servers that the tests of Debian 12 run on.

use std::{fs, path::Path};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};

const PAGE: &str = "../../docs/reference/servers.md";
/// RabbitMQ's folder on Debian; its one entry has the version in its name.
const RABBITMQ: &str = "/usr/lib/rabbitmq/lib";

/// Version of a server in the column of Debian 12.
fn named<'p>(page: &'p str, server: &str) -> &'p str {
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| {server} |")));
    let row = row.unwrap_or_else(|| panic!("{server} is not on the page"));
    let cell = row.split('|').nth(2).unwrap().trim();
    cell.split(',').next().unwrap()
}

/// Version of the program that the tests start.
fn installed(server: &str) -> String {
    let redis = |options: &Options, field: &str| {
        let server = Standalone::start(options);
        server.primary().info("server", field).unwrap()
    };
    match server {
        "Redis" => redis(&Options::new(), "redis_version"),
        "Valkey" => redis(&Options::new().valkey(), "valkey_version"),
        "PostgreSQL" => Postgres::start(&postgres::Options::new()).sql("SHOW server_version"),
        "MariaDB" => MariaDb::start(&mariadb::Options::new()).sql("SELECT version()"),
        "RabbitMQ" => {
            let mut entries = fs::read_dir(RABBITMQ).unwrap();
            let name = entries.next().unwrap().unwrap().file_name();
            let name = name.into_string().unwrap();
            name.rsplit_once('-').unwrap().1.to_owned()
        }
        other => panic!("no test starts {other}"),
    }
}

/// Whether a version is the named one, or a later part of it: 10.11 and 10.11.19-MariaDB, but not 10.110.
fn is_version(installed: &str, named: &str) -> bool {
    installed
        .strip_prefix(named)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[test]
fn the_page_names_the_versions_of_debian_12() {
    assert!(is_version("10.11.19-MariaDB", "10.11") && !is_version("10.110", "10.11"));
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !system.contains("VERSION_ID=\"12\"") {
        println!("this is not Debian 12: its column has other versions");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(page).unwrap();
    for server in ["Redis", "Valkey", "PostgreSQL", "MariaDB", "RabbitMQ"] {
        let (installed, named) = (installed(server), named(&page, server));
        assert!(
            is_version(&installed, named),
            "{server}: the page names {named}, and {installed} is installed"
        );
    }
}
