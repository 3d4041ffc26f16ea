SELECT id, owner, purpose, currency, balance
FROM accounts
WHERE owner IN (/*rows , */?/*end*/)
