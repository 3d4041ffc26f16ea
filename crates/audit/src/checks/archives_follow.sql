-- Archives follow each other from the first entry on, and have only settled entries.
SELECT count(*) FROM archives;

SELECT format('%s begins with entry %d, and entry %d is the next', file, first, before + 1)
FROM (SELECT file, first, lag(last, 1, 0) OVER (ORDER BY first) AS before FROM archives)
WHERE first <> before + 1
UNION ALL
SELECT format('%s ends with entry %d, and nothing is settled behind entry %d', file, last,
              (SELECT coalesce(max(seq), 0) FROM settled WHERE partition = 0))
FROM archives
WHERE last > (SELECT coalesce(max(seq), 0) FROM settled WHERE partition = 0);
