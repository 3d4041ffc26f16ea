-- All balances of a currency add up to nothing: money comes from outside and is never made.
SELECT accounts FROM temp.totals;

SELECT format('the accounts in %s add up to %d', currency, sum(balance))
FROM accounts
GROUP BY currency
HAVING sum(balance) <> 0;
