//! Breaches of what red packets are bound to: of a file that has the packets `@normal` and `@lazy`.

/// What each breach is, the checks that must report it and no others, and how it is made.
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
            "a commitment that binds no packet",
            &["commitments"],
            sql("UPDATE campaigns SET commitment_version = 1 WHERE ref = @normal"),
        ),
        (
            "entropy that did not make the seed",
            &["commitments"],
            sql(
                "UPDATE campaigns SET secret = zeroblob(32), entropy = zeroblob(32) WHERE ref = @normal",
            ),
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
