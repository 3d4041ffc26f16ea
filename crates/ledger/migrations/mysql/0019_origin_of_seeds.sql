-- What a packet's commitment binds (version 2: also its id and currency), and what its seed was made of where the
-- sender has added to it. Null in rows of earlier versions: version 1. Columns that are there cannot be added again,
-- and what a broken migration left is gone over again.
SET @add_origin = (
    SELECT IF(count(*) = 0, 'ALTER TABLE campaigns ADD COLUMN commitment_version BIGINT,
                             ADD COLUMN secret BINARY(32), ADD COLUMN entropy BINARY(32)', 'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'campaigns' AND column_name = 'commitment_version'
);
PREPARE add_origin FROM @add_origin;
EXECUTE add_origin;
DEALLOCATE PREPARE add_origin;
