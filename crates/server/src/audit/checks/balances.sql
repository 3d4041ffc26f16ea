-- An account's balance is its credits less its debits.
SELECT accounts FROM temp.totals;

SELECT format('account %d (%s of %s) has %d %s, and its postings make %d',
              a.id, a.purpose, a.owner, a.balance, a.currency, coalesce(m.amount, 0))
FROM accounts a
LEFT JOIN (
    SELECT account, sum(amount) AS amount
    FROM (SELECT credit AS account, amount FROM postings UNION ALL SELECT debit, -amount FROM postings)
    GROUP BY account
) m ON m.account = a.id
WHERE a.balance <> coalesce(m.amount, 0);
