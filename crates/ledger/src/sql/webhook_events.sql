SELECT e.place, e."partition", e.seq, e.kind, e.at, c.id, c.kind, c.owner, c.currency, e.number, e."user", e.quantity,
       e.amount, e.payment, e.currency
FROM webhook_events e JOIN campaigns c ON c.ref = e.campaign
WHERE e.place > $1 ORDER BY e.place LIMIT $2
