-- Withheld units belong to a repair and a campaign, are returned with the rest at the close, and no user has them. The
-- sum is checked only after the ledger has passed the repair, and only without quarantined entries.
SELECT count(*) FROM withheld;

WITH held AS (
    SELECT n.partition, n.epoch, n.campaign, o.number, o.quantity, o.granted_at, 1 AS is_final
    FROM withheld_numbers n
    JOIN orders o ON o.campaign = n.campaign AND o.number BETWEEN n.first_number AND n.last_number
                 AND (o.number - n.first_number) % n.step = 0
    UNION ALL
    -- A share that was made with its packet can be granted after its release.
    SELECT n.partition, n.epoch, n.campaign, s.number, 1, s.granted_at, c.split_rule = 'lazy'
    FROM withheld_numbers n
    JOIN campaigns c ON c.ref = n.campaign
    JOIN shares s ON s.campaign = n.campaign AND s.number BETWEEN n.first_number AND n.last_number
                 AND (s.number - n.first_number) % n.step = 0
    WHERE s.user IS NOT NULL
), named AS (
    -- Grants before the repair. They were quarantined then and are settled now, so their units belong to their users.
    SELECT h.partition, h.epoch, h.campaign, sum(h.quantity) AS units
    FROM held h
    JOIN repairs r ON r.partition = h.partition AND r.epoch = h.epoch
    WHERE h.granted_at <= r.at
    GROUP BY h.partition, h.epoch, h.campaign
)
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
    SELECT w.campaign, sum(max(w.units - coalesce(n.units, 0), 0)) AS units,
           min(coalesce(s.seq >= r.upto, 0)) AS is_past
    FROM withheld w
    JOIN repairs r ON r.partition = w.partition AND r.epoch = w.epoch
    LEFT JOIN named n ON n.partition = w.partition AND n.epoch = w.epoch AND n.campaign = w.campaign
    LEFT JOIN settled s ON s.partition = w.partition
    WHERE w.released_at IS NULL
    GROUP BY w.campaign
) h ON h.campaign = c.ref
-- A spread sale may restock units in one part and grant them in another one, whose log may be settled further.
WHERE (c.parts = 1 OR c.kind = 'red_packet') AND h.is_past
  AND c.supply - c.granted - c.returned BETWEEN 0 AND h.units - 1
  AND NOT EXISTS (SELECT 1 FROM temp.aside a WHERE a.campaign = c.id)
UNION ALL
SELECT format('campaign #%d: numbers from %d to %d are withheld in partition %d by no repair', n.campaign,
              n.first_number, n.last_number, n.partition)
FROM withheld_numbers n
LEFT JOIN withheld w ON w.partition = n.partition AND w.epoch = n.epoch AND w.campaign = n.campaign
LEFT JOIN repairs r ON r.partition = n.partition AND r.epoch = n.epoch
WHERE w.epoch IS NULL OR r.epoch IS NULL
UNION ALL
SELECT format('campaign #%d: a user has number %d, which is withheld in partition %d', h.campaign, h.number,
              h.partition)
FROM held h
JOIN campaigns c ON c.ref = h.campaign
JOIN withheld w ON w.partition = h.partition AND w.epoch = h.epoch AND w.campaign = h.campaign
JOIN repairs r ON r.partition = h.partition AND r.epoch = h.epoch
WHERE (h.is_final OR w.released_at IS NULL) AND r.upto IS NOT NULL AND h.granted_at > r.at
  AND NOT EXISTS (SELECT 1 FROM temp.aside a WHERE a.campaign = c.id);
