-- Units that users have of the orders of a sale's part: campaign, over how many parts it is spread, which one this is.
SELECT CAST(coalesce(sum(quantity - returned_in_parts), 0) AS BIGINT) FROM orders
WHERE campaign = $1 AND (number - 1) % $2 = $3 AND state IN ('held', 'paid')
