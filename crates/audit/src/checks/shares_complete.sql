-- A packet's shares are numbered from 1, are inside the rule's bounds, and add up to the total. A lazy packet's shares
-- add up once all are granted, and have no amount before. Shares that are written before their packet belong to a
-- reserved campaign, and to no user.
SELECT shares FROM temp.totals;

SELECT format('campaign #%d: its %d shares do not make %d of %d', c.ref, s.shares, c.supply, c.total)
FROM campaigns c
LEFT JOIN (
    SELECT campaign, count(*) AS shares, count(amount) AS known, count(user) AS granted,
           min(number) AS first, max(number) AS last, sum(amount) AS amount, min(amount) AS least, max(amount) AS most
    FROM shares
    GROUP BY campaign
) s ON s.campaign = c.ref
WHERE CASE c.kind WHEN 'red_packet' THEN
    (s.shares, s.first, s.last) IS NOT (c.supply, 1, c.supply)
    OR s.least < coalesce(c.split_min, 1)
    OR s.most > coalesce(c.split_max, 9223372036854775807)
    OR c.split_rule = 'lazy' AND s.known <> s.granted
    OR c.split_rule <> 'lazy' AND s.known <> s.shares
    OR s.known = s.shares AND s.amount <> c.total
    OR s.amount > c.total
ELSE s.shares > 0 END
UNION ALL
SELECT format('share %d belongs to campaign #%d, which there is not', number, campaign)
FROM shares
WHERE campaign NOT IN (SELECT ref FROM campaigns)
    AND (user IS NOT NULL OR campaign NOT IN (SELECT ref FROM preparations))
UNION ALL
SELECT format('campaign #%d is there, and is still reserved', ref)
FROM preparations
WHERE ref IN (SELECT ref FROM campaigns);
