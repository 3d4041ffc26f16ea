-- The log is numbered from 1 without gaps.
SELECT entries FROM temp.totals;

SELECT format('entry %d does not follow entry %d', seq, seq - 1)
FROM events e
WHERE seq <> 1 AND NOT EXISTS (SELECT 1 FROM events b WHERE b.seq = e.seq - 1);
