-- The engine's supply of a campaign, with withheld units, equals that of the ledger plus changes in flight or
-- quarantined. For a spread campaign, this is the sum of all parts. Each part has granted, returned or kept all its
-- units.
SELECT count(*) FROM temp.engine_parts;

SELECT format('campaign #%d in partition %d: the engine has a stock of %d, the ledger %d, and %d are in flight', ref,
              partition, stock, supply, flying)
FROM (
    SELECT c.ref, e.partition, e.stock, c.supply,
           (SELECT coalesce(sum(f.quantity), 0) FROM temp.flight f
            WHERE f.campaign = e.campaign AND f.partition = e.partition AND f.kind = 'stock_changed'
              AND f.seq <= e.upto) AS flying
    FROM temp.engine_parts e
    JOIN campaigns c ON c.id = e.campaign
    WHERE e.stock IS NOT NULL
)
WHERE stock <> supply + flying
UNION ALL
SELECT format('campaign #%d: its parts in the engine have %d units together, and there are %d', c.ref, w.units,
              coalesce(w.stock, c.supply))
FROM temp.engine_wholes w
JOIN campaigns c ON c.id = w.campaign
WHERE w.units <> coalesce(w.stock, c.supply)
UNION ALL
SELECT format('campaign #%d in partition %d: of %d units that the engine has, %d are granted, %d remain and %d are '
              || 'returned', c.ref, e.partition, e.supply, e.granted, e.remaining, e.returned)
FROM temp.engine_parts e
JOIN campaigns c ON c.id = e.campaign
WHERE e.supply <> e.granted + e.remaining + e.returned;
