-- A user's idempotency key has one grant in a campaign.
SELECT grants FROM temp.totals;

SELECT format('campaign #%d: key %s of %s has %d grants', campaign, note, user, count(*))
FROM temp.log
WHERE kind = 'granted' AND note IS NOT NULL
GROUP BY campaign, user, note
HAVING count(*) > 1;
