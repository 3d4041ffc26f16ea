-- An account's balance is its credits minus its debits. Over the years either sum may overflow 64 bits. So amounts are
-- summed in two halves, with a carry into the upper one.
SELECT accounts FROM temp.totals;

WITH moved AS (
    SELECT account, sum(upper) + (sum(lower) >> 32) AS upper, sum(lower) & 4294967295 AS lower
    FROM (
        SELECT credit AS account, sum(amount >> 32) AS upper, sum(amount & 4294967295) AS lower
        FROM postings
        GROUP BY credit
        UNION ALL
        SELECT debit, -sum(amount >> 32), -sum(amount & 4294967295)
        FROM postings
        GROUP BY debit
    )
    GROUP BY account
)
SELECT format('account %d (%s of %s) has %d %s, and its postings make %d',
              a.id, a.purpose, a.owner, a.balance, a.currency, coalesce(m.upper * 4294967296 + m.lower, 0))
FROM accounts a
LEFT JOIN moved m ON m.account = a.id
WHERE (a.balance >> 32, a.balance & 4294967295) <> (coalesce(m.upper, 0), coalesce(m.lower, 0));
