-- The stock of a sale, as its first part has it in the engine, is what the ledger has, and what is in flight or
-- quarantined.
SELECT count(*) FROM temp.engine_parts WHERE stock IS NOT NULL;

SELECT format('campaign #%d in partition %d: the engine has a stock of %d, the ledger %d, and %d are in flight', ref,
              partition, stock, supply, flying)
FROM (
    SELECT c.ref, e.partition, e.stock, c.supply,
           (SELECT coalesce(sum(f.quantity), 0) FROM temp.flight f
            WHERE f.campaign = e.campaign AND f.partition = e.partition AND f.kind = 'stock_changed'
              AND f.seq <= e.upto) AS flying
    FROM temp.engine_parts e
    JOIN campaigns c ON c.id = e.campaign
    WHERE e.stock IS NOT NULL AND c.kind = 'sale'
)
WHERE stock <> supply + flying;
