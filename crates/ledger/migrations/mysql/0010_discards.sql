-- How far a grant in quarantine is discarded: 0 not at all, 1 its units are to come back, 2 they are back and what
-- waited for it is to be redriven, 3 done. A row of 2 or 3 is in nobody's way. A column that is there cannot be added
-- again, and what a broken migration left is gone over again.
SET @add_discard = (
    SELECT IF(count(*) = 0, 'ALTER TABLE set_aside ADD COLUMN discard BIGINT NOT NULL DEFAULT 0
        CHECK (discard BETWEEN 0 AND 3), ADD KEY set_aside_discards (discard)', 'DO 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'set_aside' AND column_name = 'discard'
);
PREPARE add_discard FROM @add_discard;
EXECUTE add_discard;
DEALLOCATE PREPARE add_discard;
