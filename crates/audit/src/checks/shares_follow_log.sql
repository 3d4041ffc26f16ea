-- The granted shares of a packet are exactly its settled grants.
SELECT shares FROM temp.totals;

SELECT format('campaign #%d: share %d is not as entry %d granted it', g.campaign, g.number, g.seq)
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
LEFT JOIN shares s ON s.campaign = g.campaign AND s.number = g.number
WHERE c.kind = 'red_packet' AND g.settled AND (s.user, s.granted_at, s.amount) IS NOT (g.user, g.at, g.amount)
UNION ALL
SELECT format('campaign #%d: share %d is %s''s, and no settled entry says so', s.campaign, s.number, s.user)
FROM shares s
LEFT JOIN temp.grants g ON g.campaign = s.campaign AND g.number = s.number AND g.settled
WHERE s.user IS NOT NULL AND g.seq IS NULL;
