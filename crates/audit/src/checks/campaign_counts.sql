-- A campaign's phase and counts are those of the settled part of the log.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d says %s, %d granted, %d returned, %d refunded; the log says %s, %d, %d, %d',
              c.ref, c.phase, c.granted, c.returned, c.refunded,
              p.phase, t.settled_units, t.settled_returned, t.settled_refunded)
FROM campaigns c
JOIN temp.tallies t ON t.campaign = c.ref
JOIN (
    SELECT c.ref,
           CASE WHEN p.phase IN ('opened', 'resumed') THEN 'scheduled' ELSE coalesce(p.phase, 'draft') END AS phase
    FROM campaigns c
    LEFT JOIN (SELECT campaign, phase, max(since) FROM temp.phases WHERE settled GROUP BY campaign) p
        ON p.campaign = c.ref
) p ON p.ref = c.ref
WHERE (c.phase, c.granted, c.returned, c.refunded)
      IS NOT (p.phase, t.settled_units, t.settled_returned, t.settled_refunded);
