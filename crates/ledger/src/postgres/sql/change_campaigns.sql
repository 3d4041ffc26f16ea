-- The shard count is set once, while the campaign is a draft, and must equal that of its other shards. The latest terms
-- win.
UPDATE campaigns c
SET phase = coalesce(n.phase, c.phase), parts = coalesce(n.parts, c.parts), granted = c.granted + n.granted,
    returned = c.returned + n.returned, refunded = c.refunded + n.refunded, supply = c.supply + n.supply,
    starts_at = CASE WHEN n.terms > c.terms_revision THEN n.starts_at ELSE c.starts_at END,
    ends_at = CASE WHEN n.terms > c.terms_revision THEN n.ends_at ELSE c.ends_at END,
    per_user_limit = CASE WHEN n.terms > c.terms_revision THEN n.per_user_limit ELSE c.per_user_limit END,
    unit_price = CASE WHEN n.terms > c.terms_revision THEN n.unit_price ELSE c.unit_price END,
    admission = CASE WHEN n.terms > c.terms_revision THEN n.admission ELSE c.admission END,
    updated_at = greatest(c.updated_at, n.updated_at),
    terms_revision = greatest(c.terms_revision, coalesce(n.terms, 0))
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
            $13::bigint[], $14::bigint[])
    AS n (ref, phase, parts, granted, returned, refunded, supply, terms, starts_at, ends_at, per_user_limit, unit_price,
          admission, updated_at)
WHERE c.ref = n.ref
    AND (n.parts IS NULL OR n.parts = c.parts OR c.parts = 1 AND c.phase = 'draft')
