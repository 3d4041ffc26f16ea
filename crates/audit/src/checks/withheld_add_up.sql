-- What is withheld belongs to a repair and a campaign, is returned with the rest at the close, and nobody has it. The
-- sum is of use once the ledger is past the repair, and where nothing is quarantined.
SELECT count(*) FROM withheld;

SELECT format('campaign #%d: %d units are withheld in partition %d by a repair or of a campaign that is not there',
              w.campaign, w.units, w.partition)
FROM withheld w
LEFT JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
LEFT JOIN campaigns c ON c.ref = w.campaign
WHERE r.epoch IS NULL OR c.ref IS NULL
UNION ALL
SELECT format('campaign #%d is closed in partition %d, and %d units are withheld', w.campaign, w.partition, w.units)
FROM withheld w
JOIN campaigns c ON c.ref = w.campaign
LEFT JOIN parts p ON p.campaign = w.campaign AND p.partition = w.partition
WHERE w.released_at IS NULL AND w.units > 0 AND CASE WHEN c.parts > 1 THEN p.phase ELSE c.phase END = 'closed'
UNION ALL
SELECT format('campaign #%d: of %d units, %d are granted, %d returned and %d withheld', c.ref, c.supply, c.granted,
              c.returned, h.units)
FROM campaigns c
JOIN (
    SELECT w.campaign, sum(w.units) AS units,
           min(coalesce(s.seq >= r.upto, 0)) AS is_past
    FROM withheld w
    JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
    LEFT JOIN settled s ON s.partition = w.partition
    WHERE w.released_at IS NULL
    GROUP BY w.campaign
) h ON h.campaign = c.ref
WHERE c.parts = 1 AND h.is_past AND c.supply - c.granted - c.returned BETWEEN 0 AND h.units - 1
  AND NOT EXISTS (SELECT 1 FROM temp.aside a WHERE a.campaign = c.id)
UNION ALL
SELECT format('campaign #%d: numbers from %d to %d are withheld in partition %d by no repair', n.campaign,
              n.first_number, n.last_number, n.partition)
FROM withheld_numbers n
LEFT JOIN withheld w ON w.partition = n.partition AND w.epoch = n.epoch AND w.campaign = n.campaign
LEFT JOIN repairs r ON r.partition = n.partition AND r.epoch = n.epoch
WHERE w.epoch IS NULL OR r.epoch IS NULL;
