//! docs/guide/schemes.md names existing files and tests, and what it says of queues, bounds and comparisons is true.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use qiang_core::{campaign::STOCK_PRICE_MINOR_MAX, reconcile::DifferenceKind};

use super::test_names::{all, crates, files};

fn page() -> String {
    fs::read_to_string(crates().join("../docs/guide/schemes.md")).unwrap()
}

/// Texts between backticks.
fn code(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The row whose first cell begins with this.
fn row<'a>(page: &'a str, begins: &str) -> &'a str {
    let begins = format!("| {begins}");
    page.lines()
        .find(|line| line.starts_with(&begins))
        .unwrap_or_else(|| panic!("no row {begins}"))
}

#[test]
fn the_files_that_the_page_names_are_there() {
    let page = page();
    let there = files(&crates(), &["rs", "lua"]);
    let is_there = |name: &str| there.iter().any(|path| path.ends_with(name));
    let is_file =
        |name: &&str| !name.contains(' ') && [".rs", ".lua"].iter().any(|end| name.ends_with(end));
    let named: BTreeSet<_> = code(&page).filter(is_file).collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Each filter of a `cargo test -p CRATE --test it FILTER…` finds a test.
#[test]
fn the_tests_that_the_page_names_are_there() {
    let page = page();
    let mut names = BTreeMap::new();
    let (mut filters, mut missing) = (0, Vec::new());
    for command in code(&page).filter(|it| it.starts_with("cargo test -p ")) {
        let words: Vec<_> = command.split(' ').collect();
        let own = words[3].strip_prefix("qiang-").unwrap_or(words[3]);
        let names = names.entry(own).or_insert_with(|| all(own));
        let rest = match words[4..] {
            ["--test", "it", ref rest @ ..] => rest,
            ref rest => rest,
        };
        for filter in rest.iter().filter(|it| **it != "--") {
            filters += 1;
            if !names.iter().any(|name| name.contains(filter)) {
                missing.push(command);
            }
        }
    }
    assert!(filters > 20, "{filters}");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn stock_times_price_has_the_bound_of_the_page() {
    assert_eq!(STOCK_PRICE_MINOR_MAX, (1 << 53) - 1);
    let page = page();
    let product = row(&page, "product: price, times");
    assert!(
        product.contains("at most 2^53 − 1 minor units"),
        "{product}"
    );
}

/// The list gets an entry in the step that decides it, after the log.
#[test]
fn the_list_is_fed_as_the_page_says() {
    let page = page();
    let orders = row(&page, "orders by LPUSH and BRPOP");
    assert!(
        orders.contains(
            "appends to the partition's stream, and with the transport `list` to a list as well"
        ),
        "{orders}"
    );
    let script = fs::read_to_string(crates().join("redis/src/lua/prelude.lua")).unwrap();
    let append = script.split("local function append(").nth(1).unwrap();
    let append = append.split("\nend\n").next().unwrap();
    let at = |command: &str| append.find(command).unwrap_or_else(|| panic!("{command}"));
    assert!(at("'XADD'") < at("'RPUSH'"));
}

/// The words of the page for what is compared.
fn compared(kind: DifferenceKind) -> Option<&'static str> {
    match kind {
        DifferenceKind::InFlight => None,
        DifferenceKind::MissingInLedger
        | DifferenceKind::MissingInEngine
        | DifferenceKind::Double => Some("each grant and order"),
        DifferenceKind::AmountDiffers => Some("amount"),
        DifferenceKind::StateDiffers => Some("state and payments"),
        DifferenceKind::UserDiffers => Some("each buyer of a sale"),
        DifferenceKind::PhaseDiffers => Some("phase"),
        DifferenceKind::SupplyDiffers => Some("stock"),
        DifferenceKind::WindowDiffers => Some("window"),
        DifferenceKind::LimitDiffers => Some("limit"),
        DifferenceKind::PriceDiffers => Some("price"),
        DifferenceKind::TotalDiffers
        | DifferenceKind::HoldDiffers
        | DifferenceKind::AdmissionDiffers
        | DifferenceKind::AckDiffers
        | DifferenceKind::TermsRevisionDiffers => Some("other terms"),
    }
}

#[test]
fn the_page_names_each_kind_of_difference() {
    let page = page();
    let row = row(&page, "data control");
    for kind in DifferenceKind::FAULTS {
        let words = compared(kind).unwrap();
        assert!(row.contains(words), "{kind:?}: {words}");
    }
}
