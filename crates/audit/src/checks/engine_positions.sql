-- No entry after the end of the engine's log is settled, and every unsettled entry is in the log.
SELECT count(*) FROM temp.heads;

SELECT format('partition %d is settled up to %d, and the engine has no state of it', partition, settled)
FROM temp.heads
WHERE head IS NULL AND settled > 0
UNION ALL
SELECT format('partition %d is settled up to %d, and the engine''s log ends at %d', partition, settled, head)
FROM temp.heads
WHERE settled > head
UNION ALL
SELECT format('partition %d: entry %d of %d is neither settled nor in the log', partition, missing, head)
FROM temp.heads
WHERE missing <> 0
UNION ALL
SELECT format('partition %d is settled up to %d, and the engine has %d partitions', s.partition, s.seq,
              (SELECT count(*) FROM temp.heads))
FROM settled s
WHERE s.partition NOT IN (SELECT partition FROM temp.heads);
