-- A campaign is spread once, while it is a draft, and over as many partitions as its other parts say. The phase is set
-- last: the server takes the assignments one after the other.
UPDATE (/*rows UNION ALL */
    SELECT CAST(? AS SIGNED) AS ref, CAST(? AS CHAR(16)) AS phase, CAST(? AS SIGNED) AS parts,
           CAST(? AS SIGNED) AS granted, CAST(? AS SIGNED) AS returned, CAST(? AS SIGNED) AS refunded,
           CAST(? AS SIGNED) AS supply
/*end*/) n
STRAIGHT_JOIN campaigns c FORCE INDEX (PRIMARY) ON c.ref = n.ref
SET c.parts = coalesce(n.parts, c.parts), c.granted = c.granted + n.granted, c.returned = c.returned + n.returned,
    c.refunded = c.refunded + n.refunded, c.supply = c.supply + n.supply, c.phase = coalesce(n.phase, c.phase)
WHERE n.parts IS NULL OR n.parts = c.parts OR c.parts = 1 AND c.phase = 'draft'
