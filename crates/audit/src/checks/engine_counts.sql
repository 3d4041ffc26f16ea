-- For each campaign or part, the engine's granted and returned units equal the ledger's ones plus those in flight or
-- quarantined. If an order ends, its units are restocked while the campaign is open, and returned afterwards.
SELECT count(*) FROM temp.engine_parts;

WITH moves AS (
    SELECT e.campaign, e.partition, f.kind, f.quantity AS told,
           CASE WHEN f.kind IN ('returned', 'part_cancelled') AND f.quantity IS NOT NULL THEN f.quantity
           ELSE
               -- Remaining units: without parts that are settled or earlier in flight.
               coalesce(g.quantity, o.quantity, 0)
               - CASE f.kind WHEN 'returned' THEN coalesce(o.returned_in_parts, 0) ELSE 0 END
               - (SELECT coalesce(sum(b.quantity), 0) FROM temp.flight b
                  WHERE b.campaign = f.campaign AND b.partition = f.partition AND b.number = f.number
                    AND b.seq < f.seq
                    AND (b.kind = 'part_cancelled' OR b.kind = 'returned' AND f.kind = 'returned'))
           END AS units,
           coalesce(p.phase, CASE c.parts WHEN 1 THEN c.phase END) IS 'closed'
               OR EXISTS (SELECT 1 FROM temp.flight z WHERE z.campaign = f.campaign AND z.partition = f.partition
                                                        AND z.kind = 'closed' AND z.seq < f.seq) AS after_close
    FROM temp.engine_parts e
    JOIN campaigns c ON c.id = e.campaign
    JOIN temp.flight f ON f.campaign = e.campaign AND f.partition = e.partition AND f.seq <= e.upto
    LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = e.partition
    LEFT JOIN orders o ON o.campaign = c.ref AND o.number = f.number
    LEFT JOIN temp.flight g ON g.campaign = f.campaign AND g.partition = f.partition AND g.kind = 'granted'
                           AND g.number = f.number
), flying AS (
    SELECT campaign, partition,
           sum(CASE WHEN kind = 'granted' THEN told
                    WHEN kind = 'reinstated' THEN units
                    WHEN kind IN ('cancelled', 'part_cancelled', 'expired', 'returned') THEN -units
                    ELSE 0 END) AS granted,
           sum(CASE WHEN kind = 'closed' THEN told
                    WHEN kind IN ('cancelled', 'part_cancelled', 'expired', 'returned') AND after_close THEN units
                    ELSE 0 END) AS returned
    FROM moves
    GROUP BY campaign, partition
)
SELECT format('campaign #%d in partition %d: the engine has granted %d and returned %d, the ledger %d and %d, and %d '
              || 'and %d are in flight', ref, partition, engine_granted, engine_returned, granted, returned,
              flying_granted, flying_returned)
FROM (
    SELECT c.ref, e.partition, e.granted AS engine_granted, e.returned AS engine_returned,
           CASE c.parts WHEN 1 THEN c.granted ELSE coalesce(p.granted, 0) END AS granted,
           CASE c.parts WHEN 1 THEN c.returned ELSE coalesce(p.returned, 0) END AS returned,
           coalesce(f.granted, 0) AS flying_granted, coalesce(f.returned, 0) AS flying_returned
    FROM temp.engine_parts e
    JOIN campaigns c ON c.id = e.campaign
    LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = e.partition
    LEFT JOIN flying f ON f.campaign = e.campaign AND f.partition = e.partition
)
WHERE engine_granted <> granted + flying_granted OR engine_returned <> returned + flying_returned;
