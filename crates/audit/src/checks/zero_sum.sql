-- All balances of a currency add up to nothing: money comes from outside and is never made. What is there on the way to
-- that may leave 64 bits: it is summed in two halves of the numbers.
SELECT accounts FROM temp.totals;

SELECT format('the accounts in %s add up to %d', currency, upper * 4294967296 + lower)
FROM (
    SELECT currency, sum(balance >> 32) AS upper, sum(balance & 4294967295) AS lower
    FROM accounts
    GROUP BY currency
)
WHERE upper + (lower >> 32) <> 0 OR lower & 4294967295 <> 0;
