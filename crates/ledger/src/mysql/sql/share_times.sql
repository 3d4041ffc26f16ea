SELECT s.number, s.granted_at, CAST(NULL AS SIGNED)
FROM (/*rows UNION ALL */SELECT CAST(? AS SIGNED) AS campaign, CAST(? AS SIGNED) AS number/*end*/) w
STRAIGHT_JOIN shares s FORCE INDEX (PRIMARY) ON s.campaign = w.campaign AND s.number = w.number
WHERE s.user IS NOT NULL
