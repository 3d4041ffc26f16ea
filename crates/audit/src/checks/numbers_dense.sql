-- The grants of a campaign are numbered from 1 without gaps, except for quarantined grants and for numbers that a
-- repair has recorded as unnamed. The parts of a spread campaign are numbered separately, and leave gaps.
SELECT orders + shares FROM temp.totals;

WITH granted AS (
    SELECT campaign, number FROM orders
    UNION ALL
    SELECT campaign, number FROM shares WHERE user IS NOT NULL
), ends AS (
    SELECT c.ref, c.id, count(*) AS grants, max(g.number) AS last
    FROM campaigns c
    JOIN granted g ON g.campaign = c.ref
    WHERE c.parts = 1
    GROUP BY c.ref
), known AS (
    SELECT c.ref, a.number
    FROM ends c
    JOIN temp.aside a ON a.campaign = c.id AND a.kind = 'granted' AND a.number BETWEEN 1 AND c.last
    UNION
    SELECT c.ref, g.number
    FROM ends c
    JOIN temp.gaps g ON g.campaign = c.ref
)
SELECT format('campaign #%d has %d grants, and the last of them is number %d', ref, grants, last)
FROM ends c
WHERE grants + (
    SELECT count(*)
    FROM known k
    WHERE k.ref = c.ref
      AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.campaign = c.ref AND o.number = k.number)
      AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.campaign = c.ref AND s.number = k.number AND s.user IS NOT NULL)
) <> last;
