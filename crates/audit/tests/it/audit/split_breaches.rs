//! Breaches of red packets' commitments, in a file with the packets `@normal` and `@lazy`.

use std::path::Path;

use qiang_core::split::{Seed, Split, SplitRule, commit};
use rusqlite::Connection;

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = |text: &str| text.to_owned();
    vec![
        (
            "a commitment to nothing",
            &["commitments"],
            sql("UPDATE campaigns SET commitment = zeroblob(32) WHERE ref = @normal"),
        ),
        (
            "another seed",
            &["commitments", "shares_recomputed"],
            sql("UPDATE campaigns SET seed = zeroblob(32) WHERE ref = @normal"),
        ),
        (
            "entropy that did not make the seed",
            &["commitments"],
            sql(
                "UPDATE campaigns SET server_seed = zeroblob(32), client_seed = zeroblob(32) WHERE ref = @normal",
            ),
        ),
        (
            "half of what has made the seed",
            &["commitments"],
            sql("UPDATE campaigns SET server_seed = zeroblob(32) WHERE ref = @normal"),
        ),
        (
            "another seed of a lazy packet",
            &["commitments", "draws_recomputed"],
            sql("UPDATE campaigns SET seed = zeroblob(32) WHERE ref = @lazy"),
        ),
        (
            "money shifted between two shares",
            &["shares_recomputed"],
            sql(
                "UPDATE shares SET amount = amount + number * 2 - 19 WHERE campaign = @normal AND number >= 9",
            ),
        ),
    ]
}

/// A commitment to the packet's own split and seed in another currency.
pub(crate) fn of_another_currency(
    sound: &Path,
) -> Vec<(&'static str, &'static [&'static str], String)> {
    let conn = Connection::open(sound).unwrap();
    let facts = "SELECT id, seed FROM campaigns WHERE title = 'normal'";
    let (id, seed): (String, [u8; 32]) = conn
        .query_row(facts, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let rule = SplitRule::Normal { min: 50, max: 200 };
    let split = Split::new(1_000, 10, rule).unwrap();
    let usd = "USD".parse().unwrap();
    let commitment = commit(id.parse().unwrap(), usd, &Seed::from_bytes(seed), &split);
    vec![(
        "a commitment that binds another currency",
        &["commitments"],
        format!("UPDATE campaigns SET commitment = x'{commitment}' WHERE ref = @normal"),
    )]
}
