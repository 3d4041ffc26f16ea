-- Keys are forgotten after a while, but for references of payments: the oldest are found by this. `purged_by` is null
-- for what is kept. What a broken migration left is gone over again.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE idempotency_keys
        ADD COLUMN purged_by BIGINT GENERATED ALWAYS AS (CASE WHEN scope <> ''payment'' THEN at END) STORED,
        ADD KEY idempotency_keys_purge (purged_by)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'idempotency_keys' AND column_name = 'purged_by'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
