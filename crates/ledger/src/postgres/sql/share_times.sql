SELECT s.number, s.granted_at, NULL::bigint
FROM unnest($1::bigint[], $2::bigint[]) AS w (campaign, number)
JOIN shares s ON s.campaign = w.campaign AND s.number = w.number
WHERE s."user" IS NOT NULL
