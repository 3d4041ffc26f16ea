//! Breaches of large packets, whose shares are written before them.

/// What each breach is, the checks that must report it and no others, and how it is made.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = |text: &str| text.to_owned();
    vec![
        (
            "a share of a packet that is not entered",
            &[],
            sql("INSERT INTO preparations (ref) VALUES (99);
                 INSERT INTO shares (campaign, number, amount) VALUES (99, 1, 1)"),
        ),
        (
            "a share that somebody has of a packet that is not entered",
            &["shares_complete", "shares_follow_log"],
            sql("INSERT INTO preparations (ref) VALUES (99);
                 INSERT INTO shares (campaign, number, amount, user, granted_at) VALUES (99, 1, 1, 'ann', 1)"),
        ),
        (
            "a packet that is entered and reserved",
            &["shares_complete"],
            sql("INSERT INTO preparations (ref) VALUES (@untouched)"),
        ),
    ]
}
