-- The number that the next posting from no log is counted from is that of the last one.
SELECT direct FROM temp.totals;

SELECT format('the last posting from no log is -1/%d, and the count stands at %s', last, coalesce(counts, 'nothing'))
FROM (SELECT (SELECT coalesce(max(seq), 0) FROM postings WHERE source = -1)          AS last,
             (SELECT group_concat(source || '/' || seq, ', ') FROM direct_postings) AS counts)
WHERE counts IS NOT '-1/' || last;
