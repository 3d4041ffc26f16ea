-- An order costs its units at the sale's price.
SELECT count(*) FROM temp.grants WHERE campaign IN (SELECT ref FROM campaigns WHERE kind = 'sale');

SELECT format('campaign #%d: order %d of %d units costs %d', g.campaign, g.number, g.quantity, g.amount)
FROM campaigns c
CROSS JOIN temp.grants g ON g.campaign = c.ref
WHERE c.kind = 'sale' AND g.amount IS NOT g.quantity * c.unit_price;
