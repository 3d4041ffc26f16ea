-- No grant is made before the campaign is opened, while it is paused, after its end, or, by the entry's time, outside
-- its window. An order may be reinstated during a pause.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: entry %d was %s while %s', l.campaign, l.seq, l.kind, p.phase)
FROM temp.phases p
CROSS JOIN temp.log l ON l.campaign = p.campaign AND l.seq > p.since AND l.seq < p.until
WHERE p.phase NOT IN ('opened', 'resumed')
  AND (l.kind = 'granted' OR l.kind = 'reinstated' AND p.phase <> 'paused')
UNION ALL
SELECT format('campaign #%d: entry %d was %s before the campaign was opened', l.campaign, l.seq, l.kind)
FROM campaigns c
CROSS JOIN temp.log l ON l.campaign = c.ref
WHERE l.seq < (SELECT coalesce(min(since), 9223372036854775807) FROM temp.phases WHERE campaign = c.ref)
  AND l.kind IN ('granted', 'reinstated')
UNION ALL
SELECT format('campaign #%d: entry %d was %s at %d, outside the window', l.campaign, l.seq, l.kind, l.at)
FROM temp.terms t
CROSS JOIN temp.log l ON l.campaign = t.campaign AND l.seq > t.since AND l.seq < t.until
WHERE l.kind IN ('granted', 'reinstated') AND (l.at < t.starts_at OR l.at >= t.ends_at);
