-- Locks campaigns in the order of their refs.
SELECT ref FROM campaigns WHERE ref = ANY ($1) ORDER BY ref FOR NO KEY UPDATE
