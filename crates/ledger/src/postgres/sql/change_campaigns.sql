-- A campaign is spread once, while it is a draft, and over as many partitions as its other parts say.
UPDATE campaigns c
SET phase = coalesce(n.phase, c.phase), parts = coalesce(n.parts, c.parts), granted = c.granted + n.granted,
    returned = c.returned + n.returned, refunded = c.refunded + n.refunded, supply = c.supply + n.supply
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[])
    AS n (ref, phase, parts, granted, returned, refunded, supply)
WHERE c.ref = n.ref
    AND (n.parts IS NULL OR n.parts = c.parts OR c.parts = 1 AND c.phase = 'draft')
