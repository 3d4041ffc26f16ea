SELECT o.number, o.granted_at,
       (SELECT p.at FROM payments p
           WHERE p.campaign = o.campaign AND p.number = o.number AND p.outcome IN ('paid', 'reinstated') LIMIT 1)
FROM unnest($1::bigint[], $2::bigint[]) AS w (campaign, number)
JOIN orders o ON o.campaign = w.campaign AND o.number = w.number
