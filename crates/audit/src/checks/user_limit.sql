-- At no point of the log does a user reach more units of a campaign than its limit at that point. A lowered limit
-- removes no units.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: at entry %d %s has %d of at most %d', w.campaign, w.seq, w.user, w.held, t.per_user_limit)
FROM (
    SELECT campaign, seq, user, units, sum(units) OVER (PARTITION BY campaign, user ORDER BY seq) AS held
    FROM temp.log
    WHERE units <> 0
) w
JOIN temp.terms t ON t.campaign = w.campaign AND t.since < w.seq AND t.until > w.seq
WHERE w.held < 0 OR w.units > 0 AND w.held > t.per_user_limit;
