-- No row is duplicated. The tables' unique keys guarantee that, as long as they exist.
SELECT campaigns + shares + orders + payments + accounts + postings + deposits + payouts + keys FROM temp.totals;

SELECT format('%d campaigns are #%d', count(*), ref) FROM campaigns GROUP BY ref HAVING count(*) > 1
UNION ALL
SELECT format('%d campaigns are %s', count(*), id) FROM campaigns GROUP BY id HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: %d terms have the revision %d', campaign, count(*), revision)
FROM sale_terms
GROUP BY campaign, revision
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: %d parts are in partition %d', campaign, count(*), partition)
FROM parts
GROUP BY campaign, partition
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: %d shares have the number %d', campaign, count(*), number)
FROM shares
GROUP BY campaign, number
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: %d orders have the number %d', campaign, count(*), number)
FROM orders
GROUP BY campaign, number
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: payment %s is there %d times for order %d', campaign, payment, count(*), number)
FROM payments
GROUP BY campaign, number, payment
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: part %s is there %d times for order %d', campaign, key, count(*), number)
FROM order_returns
GROUP BY campaign, number, key
HAVING count(*) > 1
UNION ALL
SELECT format('%d accounts have the id %d', count(*), id) FROM accounts GROUP BY id HAVING count(*) > 1
UNION ALL
SELECT format('%s has %d accounts as %s in %s', owner, count(*), purpose, currency)
FROM accounts
GROUP BY owner, purpose, currency
HAVING count(*) > 1
UNION ALL
SELECT format('%d postings are %d/%d', count(*), source, seq) FROM postings GROUP BY source, seq HAVING count(*) > 1
UNION ALL
SELECT format('%s %s is there %d times', kind, reference, count(*))
FROM payouts
GROUP BY kind, reference
HAVING count(*) > 1
UNION ALL
SELECT format('deposit %s is there %d times', id, count(*)) FROM deposits GROUP BY id HAVING count(*) > 1
UNION ALL
SELECT format('partition %d is settled %d times over', partition, count(*))
FROM settled
GROUP BY partition
HAVING count(*) > 1
UNION ALL
SELECT format('entry %d of partition %d is quarantined %d times', seq, partition, count(*))
FROM set_aside
GROUP BY partition, seq
HAVING count(*) > 1;
