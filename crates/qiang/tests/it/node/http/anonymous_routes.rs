//! docs/operate/limits.md has a cost and a limit for each route that needs no token.

use std::{collections::BTreeSet, fs, path::Path};

/// Limits that a row may name. The others are bounds in the code.
const BUDGETS: [&str; 7] = [
    "none: constant text",
    "none: tested once a second",
    "reads",
    "reads × 20, pictures-of-node",
    "reads × 20, documents-of-node",
    "reads × 20, metrics-of-node",
    "reads, streams-of-address",
];

#[test]
fn the_page_names_each_anonymous_route() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/limits.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("## Requests without a token").unwrap();
    let (table, _) = table.split_once("\nThe cost is").unwrap();
    let mut routes = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [named, cost, budget] = cells[..] else {
            panic!("{row}");
        };
        assert!(cost.replace(',', "").parse::<u32>().is_ok(), "{row}");
        assert!(BUDGETS.contains(&budget.replace('`', "").as_str()), "{row}");
        let named = named.split('`').skip(1).step_by(2);
        routes.extend(named.map(str::to_owned));
    }
    assert_eq!(routes, qiang::anonymous_routes());
}
