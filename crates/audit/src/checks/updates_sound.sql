-- A campaign's last update is not before its creation, and not before any change of its terms.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d was last changed at %d, and created at %d', ref, updated_at, created_at)
FROM campaigns
WHERE updated_at < created_at
UNION ALL
SELECT format('campaign #%d was last changed at %d, and has terms of %d', c.ref, c.updated_at, max(t.at))
FROM campaigns c
JOIN sale_terms t ON t.campaign = c.ref
GROUP BY c.ref
HAVING max(t.at) > c.updated_at;
