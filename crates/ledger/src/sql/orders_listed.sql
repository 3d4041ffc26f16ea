SELECT c.id, c.title, c.currency, o.number, o.quantity, o.amount, o.state, o.granted_at, o.returned_in_parts,
       o.cancelled_in_parts, o."user"
FROM orders o
JOIN campaigns c ON c.ref = o.campaign
