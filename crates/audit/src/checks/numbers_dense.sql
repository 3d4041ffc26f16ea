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
), unnamed AS (
    SELECT e.ref, min(g.last_number, e.last) - g.first_number + 1 - (
        SELECT count(*)
        FROM orders o
        WHERE o.campaign = e.ref AND o.number BETWEEN g.first_number AND min(g.last_number, e.last)
    ) - (
        SELECT count(*)
        FROM shares s
        WHERE s.campaign = e.ref AND s.number BETWEEN g.first_number AND min(g.last_number, e.last)
          AND s.user IS NOT NULL
    ) AS numbers
    FROM ends e
    JOIN temp.gaps g ON g.campaign = e.ref AND g.first_number <= e.last
    UNION ALL
    SELECT e.ref, count(DISTINCT a.number)
    FROM ends e
    JOIN temp.aside a ON a.campaign = e.id AND a.kind = 'granted' AND a.number BETWEEN 1 AND e.last
    WHERE NOT EXISTS (SELECT 1 FROM temp.gaps g
                      WHERE g.campaign = e.ref AND a.number BETWEEN g.first_number AND g.last_number)
      AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.campaign = e.ref AND o.number = a.number)
      AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.campaign = e.ref AND s.number = a.number AND s.user IS NOT NULL)
    GROUP BY e.ref
)
SELECT format('campaign #%d has %d grants, and the last of them is number %d', ref, grants, last)
FROM ends e
WHERE grants + coalesce((SELECT sum(numbers) FROM unnamed u WHERE u.ref = e.ref), 0) <> last;
