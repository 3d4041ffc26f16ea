-- A key has one meaning, and a deposit has at most one key.
SELECT keys FROM temp.totals;

SELECT format('key %s of %s is bound %d times', key, scope, count(*))
FROM idempotency_keys
GROUP BY scope, key
HAVING count(*) > 1
UNION ALL
SELECT format('deposit %s is bound to %d keys', k.id, count(*))
FROM idempotency_keys k
JOIN deposits d ON d.id = k.id
GROUP BY k.id
HAVING count(*) > 1
UNION ALL
SELECT format('key %s of %s is bound to %s, which is no id', key, scope, id)
FROM idempotency_keys
WHERE length(id) <> 36 OR length(fingerprint) <> 32;
