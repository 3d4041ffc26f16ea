-- A campaign is opened once, before any other event. Pauses and resumes alternate. It closes directly after its end.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d: entry %d is %s after %s', campaign, since, phase, coalesce(before, 'nothing'))
FROM temp.phases
WHERE NOT CASE phase
    WHEN 'opened' THEN before IS NULL
    WHEN 'paused' THEN coalesce(before, '') IN ('opened', 'resumed')
    WHEN 'resumed' THEN coalesce(before, '') = 'paused'
    WHEN 'ended' THEN coalesce(before, '') IN ('opened', 'paused', 'resumed')
    WHEN 'closed' THEN coalesce(before, '') = 'ended'
END
UNION ALL
SELECT format('campaign #%d: entry %d ended it, and nothing closed it', campaign, since)
FROM temp.phases
WHERE phase = 'ended' AND until = 9223372036854775807;
