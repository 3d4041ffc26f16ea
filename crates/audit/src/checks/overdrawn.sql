-- Only the outside owes.
SELECT accounts FROM temp.totals;

SELECT format('account %d (%s of %s) has %d %s', id, purpose, owner, balance, currency)
FROM accounts
WHERE balance < 0 AND purpose <> 'outside';
