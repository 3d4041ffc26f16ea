-- Each grant of a packet, settled or not, has exactly the amount of its share.
SELECT count(*) FROM temp.grants WHERE campaign IN (SELECT ref FROM campaigns WHERE kind = 'red_packet');

SELECT format('campaign #%d: grant %d has %d, and its share %s',
              g.campaign, g.number, g.amount, coalesce(s.amount, 'is missing'))
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
LEFT JOIN shares s ON s.campaign = g.campaign AND s.number = g.number
WHERE c.kind = 'red_packet' AND (s.number IS NULL OR s.amount IS NOT NULL AND s.amount IS NOT g.amount);
