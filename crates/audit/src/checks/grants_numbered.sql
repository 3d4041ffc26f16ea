-- The grants of a campaign are numbered from 1 without gaps, in the order of the log. A restore may have skipped some
-- numbers.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: entry %d is grant %s, and it should be %d', campaign, seq, number, expected)
FROM (
    SELECT l.campaign, l.seq, l.number, row_number() OVER (PARTITION BY l.campaign ORDER BY l.seq) + coalesce((
        SELECT sum(w.last_number - w.first_number + 1)
        FROM withheld_numbers w
        WHERE w.campaign = l.campaign AND w.step = 1 AND w.last_number < l.number
    ), 0) AS expected
    FROM temp.log l
    WHERE l.kind = 'granted'
)
WHERE number IS NOT expected;
