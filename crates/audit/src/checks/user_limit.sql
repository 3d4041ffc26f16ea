-- At no point of the log does a user have more units of a campaign than its limit.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: at entry %d %s has %d of at most %d', w.campaign, w.seq, w.user, w.held, c.per_user_limit)
FROM (
    SELECT campaign, seq, user, sum(units) OVER (PARTITION BY campaign, user ORDER BY seq) AS held
    FROM temp.log
    WHERE units <> 0
) w
JOIN campaigns c ON c.ref = w.campaign
WHERE w.held NOT BETWEEN 0 AND c.per_user_limit;
