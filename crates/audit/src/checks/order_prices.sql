-- An order's price is its units times the price of the sale at the grant.
SELECT count(*) FROM temp.grants WHERE campaign IN (SELECT ref FROM campaigns WHERE kind = 'sale');

SELECT format('campaign #%d: order %d of %d units costs %d', g.campaign, g.number, g.quantity, g.amount)
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
JOIN temp.terms t ON t.campaign = c.ref AND t.since < g.seq AND t.until > g.seq
WHERE c.kind = 'sale' AND g.amount IS NOT g.quantity * t.unit_price;
