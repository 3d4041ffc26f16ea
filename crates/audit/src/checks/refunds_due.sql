-- A user's refunds due are those of the user's orders, minus the refunded money. No order is refunded more than is due.
SELECT count(*) FROM temp.owed_for;

SELECT format('campaign #%d: %d were refunded for order %d to %s, of %d that are owed',
              campaign, refunded, number, user, due)
FROM temp.owed_for
WHERE refunded > due
UNION ALL
SELECT format('%s is owed %d %s for orders, and the account has %d', user, sum(owed), currency, sum(held))
FROM (
    SELECT user, currency, due - refunded AS owed, 0 AS held FROM temp.owed_for
    UNION ALL
    SELECT owner, currency, 0, balance FROM accounts WHERE purpose = 'refunds_due'
)
GROUP BY user, currency
HAVING sum(owed) <> sum(held);
