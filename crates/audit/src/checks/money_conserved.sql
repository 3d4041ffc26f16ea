-- funded = claimed + remaining + refunded: claims never exceed the funds, and the close refunds exactly the rest.
SELECT campaigns FROM temp.totals;

SELECT format('campaign #%d: of %d funded, %d were claimed and %d refunded',
              c.ref, coalesce(c.total, 0), t.claimed, t.closed_amount)
FROM campaigns c
JOIN temp.tallies t ON t.campaign = c.ref
WHERE t.claimed > coalesce(c.total, 0)
   OR t.closes > 0 AND t.claimed + t.closed_amount <> coalesce(c.total, 0);
