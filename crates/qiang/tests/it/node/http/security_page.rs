//! docs/operate/security.md names existing tests.

use std::{fs, path::Path};

#[test]
fn the_tests_that_the_page_names_are_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/operate/security.md")).unwrap();
    let (_, table) = page.split_once("## The OWASP API Security Top 10").unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| API"))
        .collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let quoted = row.split('`').skip(1).step_by(2);
        let named: Vec<_> = quoted.filter_map(|text| text.rsplit_once("::")).collect();
        assert!(!named.is_empty(), "no test: {row}");
        for (file, test) in named {
            let file = format!("tests/it/node/{}.rs", file.replace("::", "/"));
            let code = fs::read_to_string(here.join(&file)).unwrap();
            assert!(code.contains(&format!("fn {test}()")), "{file}::{test}");
        }
    }
}
