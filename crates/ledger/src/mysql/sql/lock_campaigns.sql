-- Locks campaigns in the order of their refs.
SELECT ref FROM campaigns FORCE INDEX (PRIMARY) WHERE ref IN (/*rows , */?/*end*/) ORDER BY ref FOR UPDATE
