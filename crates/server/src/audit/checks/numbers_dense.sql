-- The grants of a campaign are numbered from 1 without gaps. The parts of a spread campaign number for themselves, and
-- leave gaps.
SELECT orders + shares FROM temp.totals;

SELECT format('campaign #%d has %d grants, and the last of them is number %d', c.ref, g.grants, g.last)
FROM campaigns c
JOIN (
    SELECT campaign, count(*) AS grants, max(number) AS last FROM orders GROUP BY campaign
    UNION ALL
    SELECT campaign, count(*), max(number) FROM shares WHERE user IS NOT NULL GROUP BY campaign
) g ON g.campaign = c.ref
WHERE c.parts = 1 AND g.grants <> g.last;
