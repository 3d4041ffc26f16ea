-- At no point of the log do users have more units than the supply at that point.
SELECT entries FROM temp.totals;

SELECT format('campaign #%d: at entry %d users have %d of %d', w.campaign, w.seq, w.held, t.first_supply + w.added)
FROM (
    SELECT campaign, seq, sum(units) OVER up_to AS held,
           sum(CASE kind WHEN 'stock_changed' THEN amount ELSE 0 END) OVER up_to AS added
    FROM temp.log
    WINDOW up_to AS (PARTITION BY campaign ORDER BY seq)
) w
JOIN temp.tallies t ON t.campaign = w.campaign
WHERE w.held NOT BETWEEN 0 AND t.first_supply + w.added;
