-- The admission ratio is one of a sale's terms, in percent, 0 for none. Terms that were changed before have no value:
-- such a change kept the ratio.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE sale_terms ADD COLUMN admission BIGINT CHECK (admission >= 0)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'sale_terms' AND column_name = 'admission'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
