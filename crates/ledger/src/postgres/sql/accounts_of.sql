SELECT id, owner, purpose, currency, balance
FROM accounts
WHERE owner = ANY ($1)
