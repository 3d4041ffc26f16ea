-- Which amounts pay an order of a sale, beside its price; null where other amounts are owed back. With a tolerance, in
-- minor units, only under the policy `accept_with_tolerance`.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE campaigns ADD COLUMN payment_policy VARCHAR(32) COLLATE utf8mb4_bin')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'payment_policy'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;

SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE campaigns ADD COLUMN payment_tolerance BIGINT')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'payment_tolerance'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
