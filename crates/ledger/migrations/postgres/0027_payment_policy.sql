-- Which amounts pay an order of a sale, beside its price; null where other amounts are owed back. With a tolerance, in
-- minor units, only under the policy `accept_with_tolerance`.
ALTER TABLE campaigns ADD COLUMN payment_policy TEXT COLLATE "C", ADD COLUMN payment_tolerance BIGINT;
