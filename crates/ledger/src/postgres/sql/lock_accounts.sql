-- Locks accounts in the order of their ids.
SELECT id FROM accounts WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
