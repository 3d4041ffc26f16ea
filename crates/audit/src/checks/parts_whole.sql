-- A spread campaign's counts are the sums of its parts' counts, and its phase follows from theirs.
SELECT count(*) FROM parts;

SELECT format('campaign #%d is in %d parts: together %s, %d granted, %d returned, %d refunded; it says %s, %d, %d, %d',
              ref, parts, expected, part_granted, part_returned, part_refunded, phase, granted, returned, refunded)
FROM (
    SELECT c.ref, c.parts, c.phase, c.granted, c.returned, c.refunded,
           coalesce(sum(p.granted), 0) AS part_granted,
           coalesce(sum(p.returned), 0) AS part_returned,
           coalesce(sum(p.refunded), 0) AS part_refunded,
           CASE
               WHEN count(p.phase) < c.parts THEN 'draft'
               WHEN count(p.phase) = count(*) FILTER (WHERE p.phase = 'closed') THEN 'closed'
               WHEN count(p.phase) = count(*) FILTER (WHERE p.phase IN ('ended', 'closed')) THEN 'ended'
               WHEN count(*) FILTER (WHERE p.phase = 'paused') > 0 THEN 'paused'
               ELSE 'scheduled'
           END AS expected
    FROM campaigns c
    LEFT JOIN parts p ON p.campaign = c.ref
    WHERE c.parts > 1
    GROUP BY c.ref
)
WHERE (phase, granted, returned, refunded) IS NOT (expected, part_granted, part_returned, part_refunded)
UNION ALL
SELECT format('campaign #%d has %d parts, and says %d', c.ref, count(*), c.parts)
FROM parts p
JOIN campaigns c ON c.ref = p.campaign
GROUP BY c.ref
HAVING count(*) > CASE WHEN c.parts > 1 THEN c.parts ELSE 0 END
UNION ALL
SELECT format('a part in partition %d belongs to campaign #%d, which there is not', partition, campaign)
FROM parts
WHERE campaign NOT IN (SELECT ref FROM campaigns)
UNION ALL
SELECT format('campaign #%d: its part in partition %d returned %d and refunded %d, and is %s',
              campaign, partition, returned, refunded, phase)
FROM parts p
WHERE phase <> 'closed' AND (returned, refunded) <> (0, 0)
  AND NOT EXISTS (SELECT 1 FROM temp.aside a JOIN campaigns c ON c.id = a.campaign
                  WHERE c.ref = p.campaign AND a.partition = p.partition AND a.kind = 'closed');
