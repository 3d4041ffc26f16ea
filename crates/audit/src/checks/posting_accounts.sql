-- A posting moves a positive amount between two accounts of one currency.
SELECT postings FROM temp.totals;

SELECT format('posting %d/%d moves %d from account %d to account %d', p.source, p.seq, p.amount, p.debit, p.credit)
FROM postings p
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE p.amount < 1 OR p.debit = p.credit OR d.id IS NULL OR k.id IS NULL OR d.currency <> k.currency;
