//! Breaches of large packets, whose shares are written before their packets, and of large sums.

/// Each breach: its name, exactly the checks that must report it, and its changes.
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
            "a granted share of a packet that is not entered",
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
            // Balances are computed in full, so they are right.
            "deposits and withdrawals without rows, each above 64 bits in sum",
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
