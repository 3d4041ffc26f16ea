SELECT o.campaign, o.number, o."user", o.quantity, o.amount, o.state, o.returned_in_parts,
       o.cancelled_in_parts, o.extension_ms,
       (SELECT p.amount FROM payments p
           WHERE p.campaign = o.campaign AND p.number = o.number AND p.outcome IN ('paid', 'reinstated') LIMIT 1)
FROM unnest($1::bigint[], $2::bigint[]) AS w (campaign, number)
JOIN orders o ON o.campaign = w.campaign AND o.number = w.number
