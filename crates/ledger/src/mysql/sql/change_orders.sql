UPDATE (/*rows UNION ALL */
    SELECT CAST(? AS SIGNED) AS campaign, CAST(? AS SIGNED) AS number, CAST(? AS CHAR(16)) AS state,
           CAST(? AS SIGNED) AS at, CAST(? AS SIGNED) AS returned_in_parts,
           CAST(? AS SIGNED) AS quantity, CAST(? AS SIGNED) AS amount, CAST(? AS SIGNED) AS cancelled_in_parts,
           CAST(? AS SIGNED) AS extension_ms
/*end*/) n
STRAIGHT_JOIN orders o FORCE INDEX (PRIMARY) ON o.campaign = n.campaign AND o.number = n.number
SET o.state = n.state, o.updated_at = coalesce(n.at, o.updated_at), o.returned_in_parts = n.returned_in_parts,
    o.quantity = n.quantity, o.amount = n.amount, o.cancelled_in_parts = n.cancelled_in_parts,
    o.hold_until = o.hold_until + n.extension_ms, o.extension_ms = o.extension_ms + n.extension_ms
