-- Only the outside owes, and sellers for what buyers have returned: at most that.
SELECT accounts FROM temp.totals;

SELECT format('account %d (%s of %s) has %d %s', a.id, a.purpose, a.owner, a.balance, a.currency)
FROM accounts a
WHERE a.balance < 0 AND a.purpose <> 'outside'
  AND (a.purpose <> 'user'
       OR a.balance + (SELECT coalesce(sum(amount), 0) FROM postings WHERE debit = a.id AND kind = 'return') < 0);
