-- A table of which the transaction has no snapshot.
SELECT CAST(table_name AS CHAR)
FROM information_schema.tables
WHERE table_schema = DATABASE()
  AND engine <> 'InnoDB'
  AND table_name IN ('campaigns', 'parts', 'shares', 'orders', 'order_returns', 'payments', 'accounts', 'postings',
                     'direct_postings', 'deposits', 'payouts', 'idempotency_keys', 'settled', 'set_aside', 'sale_terms')
LIMIT 1
