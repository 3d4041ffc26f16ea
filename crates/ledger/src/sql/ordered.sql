SELECT c.ref, c.currency, o."user", o.amount, o.state, o.quantity, o.returned_in_parts
FROM campaigns c
LEFT JOIN orders o ON o.campaign = c.ref AND o.number = $1
WHERE c.id = $2
