SELECT o.campaign, o.number, o."user", o.quantity, o.amount, o.state
FROM unnest($1::bigint[], $2::bigint[]) AS w (campaign, number)
JOIN orders o ON o.campaign = w.campaign AND o.number = w.number
