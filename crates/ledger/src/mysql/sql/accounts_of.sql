SELECT id, owner, purpose, currency, balance
FROM accounts FORCE INDEX (accounts_of_owner)
WHERE owner IN (/*rows , */?/*end*/)
