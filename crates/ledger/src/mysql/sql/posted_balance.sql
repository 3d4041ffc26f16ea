-- The balance of an account, and what its postings make: owner, purpose, currency.
SELECT a.balance,
       CAST(coalesce((SELECT sum(amount) FROM postings WHERE credit = a.id), 0)
            - coalesce((SELECT sum(amount) FROM postings WHERE debit = a.id), 0) AS SIGNED)
FROM accounts a
WHERE a.owner = ? AND a.purpose = ? AND a.currency = ?
