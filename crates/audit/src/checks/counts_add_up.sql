-- supply = granted + remaining + returned. Granted units are those of users, a closed campaign has none remaining, and
-- no unit is returned before the close. Until all parts of a spread sale are closed, units that one part restocked and
-- another granted again may count in both. Units of a discarded order may be returned before a quarantined close.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d (%s): of %d units, %d are granted and %d returned, and people have %d',
              c.ref, c.phase, c.supply, c.granted, c.returned, h.held)
FROM campaigns c
JOIN (
    SELECT c.ref, CASE c.kind
        WHEN 'sale' THEN (SELECT coalesce(sum(quantity - returned_in_parts), 0) FROM orders
                          WHERE campaign = c.ref AND state IN ('held', 'paid'))
        ELSE (SELECT count(user) FROM shares WHERE campaign = c.ref)
    END AS held
    FROM campaigns c
) h ON h.ref = c.ref
WHERE c.granted <> h.held
   OR c.phase = 'closed' AND c.granted + c.returned <> c.supply
   OR c.granted + c.returned > c.supply AND NOT (c.kind = 'sale' AND c.parts > 1)
   OR c.parts = 1 AND c.phase <> 'closed' AND (c.returned, c.refunded) <> (0, 0)
      AND NOT EXISTS (SELECT 1 FROM temp.aside a WHERE a.campaign = c.id AND a.kind = 'closed')
   OR c.parts = 1 AND c.phase = 'draft' AND h.held > 0
UNION ALL
SELECT format('campaign #%d: of %d funded, %d were claimed, %d refunded, and %d sent home', c.ref, coalesce(c.total, 0),
              coalesce(s.claimed, 0), c.refunded, coalesce(r.residue, 0))
FROM campaigns c
LEFT JOIN (SELECT campaign, sum(amount) AS claimed FROM shares WHERE user IS NOT NULL GROUP BY campaign) s
    ON s.campaign = c.ref
LEFT JOIN (SELECT campaign, sum(amount) AS residue FROM postings WHERE kind = 'residue' GROUP BY campaign) r
    ON r.campaign = c.ref
WHERE coalesce(s.claimed, 0) + c.refunded + coalesce(r.residue, 0) > coalesce(c.total, 0)
   OR c.phase = 'closed' AND coalesce(s.claimed, 0) + c.refunded + coalesce(r.residue, 0) <> coalesce(c.total, 0);
