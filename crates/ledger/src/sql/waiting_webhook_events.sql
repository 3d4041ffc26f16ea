SELECT e.place, e."partition", e.seq, e.kind, e.at, c.id, c.kind, c.owner, c.currency, e.number, e."user", e.quantity,
       e.amount, e.payment, e.currency,
       (SELECT r.reference FROM shop_references r
           WHERE r.object = CASE WHEN e.number IS NULL OR c.kind <> 'sale' THEN 'campaign' ELSE 'order' END
           AND r.id = CASE WHEN e.number IS NULL OR c.kind <> 'sale' THEN c.id ELSE concat(c.id, '-', e.number) END)
FROM webhook_retries w JOIN webhook_events e ON e.place = w.place JOIN campaigns c ON c.ref = e.campaign
WHERE w.webhook = $1 ORDER BY w.place
