SELECT id, balance
FROM accounts
WHERE owner = ? AND purpose = ? AND currency = ?
FOR UPDATE
