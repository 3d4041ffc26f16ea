-- Each grant of a lazy packet leaves the smallest share for every share to come, and the last one leaves nothing.
SELECT count(*) FROM temp.grants WHERE campaign IN (SELECT ref FROM campaigns WHERE split_rule = 'lazy');

SELECT format('campaign #%d: grant %d has %d and leaves %d for %d more',
              campaign, number, amount, total - claimed, supply - nth)
FROM (
    SELECT l.campaign, l.number, l.amount, c.total, c.supply, c.split_min,
           sum(l.amount) OVER (PARTITION BY l.campaign ORDER BY l.seq) AS claimed,
           row_number() OVER (PARTITION BY l.campaign ORDER BY l.seq) AS nth
    FROM campaigns c
    CROSS JOIN temp.log l ON l.campaign = c.ref
    WHERE c.split_rule = 'lazy' AND l.kind = 'granted'
)
WHERE amount < split_min
   OR total - claimed < (supply - nth) * split_min
   OR nth = supply AND claimed <> total;
