-- The shard count is set once, while the campaign is a draft, and must equal that of its other shards. The latest terms
-- win. The server runs the assignments in order, so a column is assigned after the columns that read it.
UPDATE (/*rows UNION ALL */
    SELECT CAST(? AS SIGNED) AS ref, CAST(? AS CHAR(16)) AS phase, CAST(? AS SIGNED) AS parts,
           CAST(? AS SIGNED) AS granted, CAST(? AS SIGNED) AS returned, CAST(? AS SIGNED) AS refunded,
           CAST(? AS SIGNED) AS supply, CAST(? AS SIGNED) AS terms, CAST(? AS SIGNED) AS starts_at,
           CAST(? AS SIGNED) AS ends_at, CAST(? AS SIGNED) AS per_user_limit, CAST(? AS SIGNED) AS unit_price,
           CAST(? AS SIGNED) AS admission, CAST(? AS SIGNED) AS updated_at
/*end*/) n
STRAIGHT_JOIN campaigns c FORCE INDEX (PRIMARY) ON c.ref = n.ref
SET c.parts = coalesce(n.parts, c.parts), c.granted = c.granted + n.granted, c.returned = c.returned + n.returned,
    c.refunded = c.refunded + n.refunded,
    c.starts_at = IF(n.terms > c.terms_revision, n.starts_at, c.starts_at),
    c.ends_at = IF(n.terms > c.terms_revision, n.ends_at, c.ends_at),
    c.per_user_limit = IF(n.terms > c.terms_revision, n.per_user_limit, c.per_user_limit),
    c.unit_price = IF(n.terms > c.terms_revision, n.unit_price, c.unit_price),
    c.admission = IF(n.terms > c.terms_revision, n.admission, c.admission),
    c.updated_at = greatest(c.updated_at, coalesce(n.updated_at, 0)),
    c.supply = c.supply + n.supply, c.terms_revision = greatest(c.terms_revision, coalesce(n.terms, 0)),
    c.phase = coalesce(n.phase, c.phase)
WHERE n.parts IS NULL OR n.parts = c.parts OR c.parts = 1 AND c.phase = 'draft'
