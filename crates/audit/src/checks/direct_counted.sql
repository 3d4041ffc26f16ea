-- The counter of direct postings is the number of the last one.
SELECT direct FROM temp.totals;

SELECT format('the last direct posting is -1/%d, and the counter is at %s', last, coalesce(counts, 'nothing'))
FROM (SELECT (SELECT coalesce(max(seq), 0) FROM postings WHERE source = -1)          AS last,
             (SELECT group_concat(source || '/' || seq, ', ') FROM direct_postings) AS counts)
WHERE counts IS NOT '-1/' || last;
