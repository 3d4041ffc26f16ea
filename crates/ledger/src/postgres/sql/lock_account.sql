SELECT id, balance
FROM accounts
WHERE owner = $1 AND purpose = $2 AND currency = $3
FOR NO KEY UPDATE
