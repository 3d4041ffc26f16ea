-- The answer to a command, kept with its key. Null while it is not known whether the command was carried out.
SET @change = (
    SELECT IF(count(*) > 0, 'DO 0', 'ALTER TABLE idempotency_keys ADD COLUMN answer MEDIUMTEXT')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'idempotency_keys' AND column_name = 'answer'
);
PREPARE add_column FROM @change;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
