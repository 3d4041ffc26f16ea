-- Locks accounts in the order of their ids.
SELECT id FROM accounts FORCE INDEX (PRIMARY) WHERE id IN (/*rows , */?/*end*/) ORDER BY id FOR UPDATE
