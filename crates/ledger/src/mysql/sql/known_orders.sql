SELECT o.campaign, o.number, o.user, o.quantity, o.amount, o.state, o.returned_in_parts,
       o.cancelled_in_parts, o.extension_ms,
       (SELECT p.amount FROM payments p
           WHERE p.campaign = o.campaign AND p.number = o.number AND p.outcome IN ('paid', 'reinstated') LIMIT 1)
FROM (/*rows UNION ALL */SELECT CAST(? AS SIGNED) AS campaign, CAST(? AS SIGNED) AS number/*end*/) w
STRAIGHT_JOIN orders o FORCE INDEX (PRIMARY) ON o.campaign = w.campaign AND o.number = w.number
