-- The grants of a campaign are numbered from 1 without gaps, in the order of the log.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: entry %d is grant %s, and it should be %d', campaign, seq, number, expected)
FROM (
    SELECT campaign, seq, number, row_number() OVER (PARTITION BY campaign ORDER BY seq) AS expected
    FROM temp.log
    WHERE kind = 'granted'
)
WHERE number IS NOT expected;
