-- The settled position is inside the log.
SELECT count(*) FROM settled;

SELECT format('partition %d is settled up to %d, and its log ends at %d', s.partition, s.seq, e.head)
FROM settled s, (SELECT coalesce(max(seq), 0) AS head FROM events) e
WHERE s.partition <> 0 OR s.seq NOT BETWEEN 0 AND e.head;
