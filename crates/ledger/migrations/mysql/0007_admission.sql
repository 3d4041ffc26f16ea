-- The admission ratio of a sale in percent, 0 for none. Sales that were created before have the default. A column that
-- is there cannot be added again, and what a broken migration left is gone over again.
SET @add_admission = (
    SELECT IF(count(*) = 0, 'ALTER TABLE campaigns ADD COLUMN admission BIGINT CHECK (admission >= 0)', 'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'admission'
);
PREPARE add_admission FROM @add_admission;
EXECUTE add_admission;
DEALLOCATE PREPARE add_admission;
