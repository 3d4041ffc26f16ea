-- The engine withholds the units that the ledger records as withheld, unless the repair is still running or the
-- campaign is closed.
SELECT count(*) FROM withheld;

SELECT format('campaign #%d in partition %d: repairs withhold %d units, and the engine %d', c.ref, w.partition, w.units,
              e.withheld)
FROM (
    SELECT w.partition, w.campaign, sum(w.units) AS units, max(r.upto IS NULL) AS goes_on
    FROM withheld w
    JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
    WHERE w.released_at IS NULL
    GROUP BY w.partition, w.campaign
) w
JOIN campaigns c ON c.ref = w.campaign
JOIN temp.engine_parts e ON e.campaign = c.id AND e.partition = w.partition
WHERE NOT w.goes_on AND w.units > e.withheld
  AND NOT EXISTS (SELECT 1 FROM temp.flight f
                  WHERE f.campaign = c.id AND f.partition = w.partition AND f.kind = 'closed');
