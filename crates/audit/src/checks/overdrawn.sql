-- Only the outside account is negative, and sellers' accounts up to the sum of their returns. Over the years that sum
-- may overflow 64 bits, so it is computed in two halves.
SELECT accounts FROM temp.totals;

SELECT format('account %d (%s of %s) has %d %s', a.id, a.purpose, a.owner, a.balance, a.currency)
FROM accounts a
WHERE a.balance < 0 AND a.purpose <> 'outside'
  AND (a.purpose <> 'user'
       OR (-a.balance >> 32, -a.balance & 4294967295) > (
           SELECT coalesce(sum(amount >> 32) + (sum(amount & 4294967295) >> 32), 0),
                  coalesce(sum(amount & 4294967295) & 4294967295, 0)
           FROM postings
           WHERE debit = a.id AND kind = 'return'
       ));
