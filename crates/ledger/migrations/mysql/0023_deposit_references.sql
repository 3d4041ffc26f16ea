-- The payment service's name for a deposit, kept for good. Deposits that were made before have none.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE deposits
        ADD COLUMN reference VARCHAR(128) COLLATE utf8mb4_bin,
        ADD UNIQUE KEY deposits_reference (reference)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'deposits' AND column_name = 'reference'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
