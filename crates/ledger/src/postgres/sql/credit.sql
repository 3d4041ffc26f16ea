-- Adds amounts to accounts in the given order, and creates missing ones.
INSERT INTO accounts AS a (owner, purpose, currency, balance)
SELECT m.owner, m.purpose, m.currency, m.amount
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    WITH ORDINALITY AS m (owner, purpose, currency, amount, place)
ORDER BY m.place
ON CONFLICT (owner, purpose, currency) DO UPDATE SET balance = a.balance + excluded.balance
RETURNING a.id, a.owner
