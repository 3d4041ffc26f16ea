-- At no point of the log do users have more units than the supply.
SELECT entries FROM temp.totals;

SELECT format('campaign #%d: at entry %d users have %d of %d', w.campaign, w.seq, w.held, c.supply)
FROM (
    SELECT campaign, seq, sum(units) OVER (PARTITION BY campaign ORDER BY seq) AS held
    FROM temp.log
) w
JOIN campaigns c ON c.ref = w.campaign
WHERE w.held NOT BETWEEN 0 AND c.supply;
