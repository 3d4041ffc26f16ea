-- The balances of each currency sum to zero, because money comes from outside and is never made. Partial sums may
-- overflow 64 bits, so the sum is computed in two halves.
SELECT accounts FROM temp.totals;

SELECT format('the accounts in %s add up to %d', currency, upper * 4294967296 + lower)
FROM (
    SELECT currency, sum(balance >> 32) AS upper, sum(balance & 4294967295) AS lower
    FROM accounts
    GROUP BY currency
)
WHERE upper + (lower >> 32) <> 0 OR lower & 4294967295 <> 0;
