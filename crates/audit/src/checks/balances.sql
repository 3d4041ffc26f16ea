-- An account's balance is its credits less its debits.
SELECT accounts FROM temp.totals;

SELECT format('account %d (%s of %s) has %d %s, and its postings make %d',
              a.id, a.purpose, a.owner, a.balance, a.currency, coalesce(k.amount, 0) - coalesce(d.amount, 0))
FROM accounts a
LEFT JOIN (SELECT credit, sum(amount) AS amount FROM postings GROUP BY credit) k ON k.credit = a.id
LEFT JOIN (SELECT debit, sum(amount) AS amount FROM postings GROUP BY debit) d ON d.debit = a.id
WHERE a.balance <> coalesce(k.amount, 0) - coalesce(d.amount, 0);
