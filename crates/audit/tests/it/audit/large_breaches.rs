//! Breaches of large packets, whose shares are written before them, and of large sums.

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
        (
            // What went in and out is counted all the same: the balances are right.
            "deposits and withdrawals by nobody, each more than 64 bits hold",
            &["deposits", "payouts"],
            sql("WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
                 INSERT INTO postings
                     SELECT -1, (SELECT max(seq) FROM postings WHERE source = -1) + n,
                            iif(n % 2, 'deposit', 'withdrawal'), iif(n % 2, @outside, @ann), iif(n % 2, @ann, @outside),
                            1000000000000000, NULL, NULL, 0
                     FROM n"),
        ),
    ]
}
