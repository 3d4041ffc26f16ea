SELECT o.campaign, o.number, o.user, o.quantity, o.amount, o.state
FROM (/*rows UNION ALL */SELECT CAST(? AS SIGNED) AS campaign, CAST(? AS SIGNED) AS number/*end*/) w
STRAIGHT_JOIN orders o FORCE INDEX (PRIMARY) ON o.campaign = w.campaign AND o.number = w.number
