-- Every row that follows from a log is settled and names its partition, and the file has no log of its own.
SELECT postings - direct FROM temp.totals;

SELECT format('posting %d/%d (%s) is after the settled position of partition %d', p.source, p.seq, p.kind, p.source)
FROM postings p
LEFT JOIN settled s ON s.partition = p.source
WHERE p.source <> -1 AND p.seq NOT BETWEEN 1 AND coalesce(s.seq, 0)
UNION ALL
SELECT format('posting %d/%d is a %s, and follows from no entry', source, seq, kind)
FROM postings
WHERE source <> -1 AND kind NOT IN ('grant', 'refund', 'payment', 'refund_due', 'return')
UNION ALL
SELECT format('campaign #%d has a part in partition %d, of which nothing is settled', p.campaign, p.partition)
FROM parts p
LEFT JOIN settled s ON s.partition = p.partition
WHERE coalesce(s.seq, 0) < 1
UNION ALL
SELECT format('partition %d is settled up to %d', partition, seq)
FROM settled
WHERE seq < 1
UNION ALL
SELECT format('entry %d of partition %d is quarantined after the settled position', a.seq, a.partition)
FROM set_aside a
LEFT JOIN settled s ON s.partition = a.partition
WHERE a.seq NOT BETWEEN 1 AND coalesce(s.seq, 0)
UNION ALL
SELECT format('entry %d is in a file without a log', seq)
FROM events;
